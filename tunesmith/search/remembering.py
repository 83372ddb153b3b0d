"""What searchers share that remember every measurement, not the best points alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tunesmith.search.codes import Codes
from tunesmith.search.history import History
from tunesmith.search.points import PointSearcher
from tunesmith.space.space import Space
from tunesmith.types import Measurement


class RememberingSearcher(PointSearcher):
    """Has a history, which its state keeps, and the codes of points."""

    def __init__(self, space: Space, seed: int, *, effort: int) -> None:
        super().__init__(space, seed, effort=effort, elites=0)
        self._codes, self._history = Codes(space), History(space)

    def tell(self, measurements: Sequence[Measurement]) -> None:
        """Remember what was measured."""
        super().tell(measurements)
        self._history.take(measurements)

    def state(self) -> dict[str, Any]:
        """As every searcher's, and the measurements."""
        return {**super().state(), "history": self._history.state()}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from :meth:`state`. Raises ValueError for the state of another space, version or searcher."""
        super().restore(state)
        if "history" not in state:
            raise ValueError("the state is another searcher's")
        self._history.restore(state["history"])
