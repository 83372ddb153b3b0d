"""What the pages need of the REST API. Answers are the JSON of ``docs/reference/rest.md``, seconds throughout."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Protocol

Json = dict[str, Any]


class Api(Protocol):
    """Blocking calls; the pages run them in threads.

    Every method raises a ``tunesmith.errors.TunesmithError``: ``Unauthorized`` without a valid key,
    ``ServerUnreachable`` when nothing answers, else what the problem object of the answer stands for.
    """

    def jobs(self, limit: int, cursor: str | None = None) -> Json:
        """Newest first: ``{items, next_cursor}``."""

    def job(self, job_id: str) -> Json:
        """One job."""

    def tasks(self, job_id: str) -> list[Json]:
        """List the job's tasks."""

    def curve(self, job_id: str) -> Json:
        """Best-so-far, down-sampled by the server."""

    def forecast(self, job_id: str) -> Json:
        """Time left, and the latency that is expected by then."""

    def decisions(self, job_id: str, newest: int) -> list[Json]:
        """Why rounds were chosen, newest first."""

    def failures(self, job_id: str) -> list[Json]:
        """``failure``, ``count`` and the newest ``message``, most frequent first."""

    def events(self, job_id: str, after: int) -> list[Json]:
        """Events with an id above ``after``, oldest first."""

    def devices(self) -> list[Json]:
        """Every known device."""

    def act(self, job_id: str, action: str) -> None:
        """``cancel``, ``pause`` or ``resume``."""

    def best(self, job_id: str, form: str) -> AbstractContextManager[Iterator[bytes]]:
        """The best schedules as a stream of bytes; ``form`` is ``jsonl`` or ``metaschedule``."""


Connect = Callable[[str | None], Api]
"""Makes an :class:`Api` for a key, or for none."""
