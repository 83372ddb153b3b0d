"""The static model as a search sees it: an opinion on points of a space, before anything is measured."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from tunesmith.analysis.device import DeviceDescription
from tunesmith.analysis.model import Costs
from tunesmith.analysis.nest import Nest
from tunesmith.space.base import Batch, Floats, Ints
from tunesmith.space.space import Space

TRUSTED = 0.98
"""Where constraints refuse a larger share of the points that they see, they are passed over: they do not fit here."""


class NestSource(Protocol):
    """Where nests come from. A sketch has one for each choice of the knobs that change its structure."""

    def structural(self, sketch: str) -> tuple[int, ...]:
        """Positions of the knobs that change the structure of a sketch."""

    def nest(self, sketch: str, decided: tuple[int, ...]) -> Nest | None:
        """The nest for what these knobs decide; None when the sketch is not understood."""


class StaticPrior:
    """Estimates of points.

    Args:
        space: whose points.
        source: of their nests, which are made when they are needed and kept by the source.
        device: that they are for.
    """

    def __init__(self, space: Space, source: NestSource, device: DeviceDescription) -> None:
        self._space, self._source, self._device = space, source, device

    def __call__(self, batch: Batch) -> Floats:
        """Estimated seconds, float64 [n]: infinity for points that are not worth a try, NaN where nothing is known."""
        out = np.full(len(batch), np.nan)
        refused = np.zeros(len(batch), dtype=np.bool_)
        for s in np.unique(batch.sketch):
            rows = np.flatnonzero(batch.sketch == s)
            for group, nest in self._groups(int(s), batch.choice[rows]):
                costs = Costs(nest, self._space.sketches[s].knobs, batch.choice[rows[group]], self._device)
                out[rows[group]], refused[rows[group]] = costs.seconds(), ~costs.feasible()
        if len(batch) and refused.mean() <= TRUSTED:
            out[refused] = np.inf
        return out

    def _groups(self, sketch: int, choice: Ints) -> list[tuple[Ints, Nest]]:
        """Rows that share a nest, and the nest."""
        body = self._space.sketches[sketch]
        places = self._source.structural(body.hash)
        decided = np.concatenate(
            [np.zeros((len(choice), 1), dtype=np.int64),
             *(body.knobs[place].values(choice[:, place])[:, :1] for place in places)], axis=1)  # fmt: skip
        kinds, member = np.unique(decided, axis=0, return_inverse=True)
        found = []
        for number, kind in enumerate(kinds.tolist()):
            nest = self._source.nest(body.hash, tuple(kind[1:]))
            if nest is not None:
                found.append((np.flatnonzero(member.reshape(-1) == number), nest))
        return found
