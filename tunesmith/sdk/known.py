"""What is known of a workload, by its hash: from a server, or from a log or an exported folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from tunesmith.client import Client
from tunesmith.errors import NotFound
from tunesmith.preparation import Preparation
from tunesmith.schedule_log import read_log
from tunesmith.targets import Target, parse_target
from tunesmith.unmeasured import Known, Source

LOG = "best.jsonl"
"""What a result folder has beside the exported one: it names the tasks that keep their default schedules, too."""


class Knowledge(Protocol):
    """Finds schedules."""

    @property
    def source(self) -> str:
        """What to call it."""

    @property
    def preparation(self) -> Preparation | None:
        """How the models were prepared whose schedules it has; None: each in its own way."""

    def find(self, workload: str) -> Known | None:
        """What is known of a workload; None where that was never tuned."""


class OfServer:
    """What all jobs of a server found.

    Args:
        source: what to call it.
        connect: opens a connection, for each workload that is asked for.
        target: a short name, a tag, or target JSON.
    """

    preparation: Preparation | None = None

    def __init__(self, source: str, connect: Callable[[], Client], target: str | Mapping[str, Any]) -> None:
        self.source, self._connect = source, connect
        spec = parse_target(target)
        self._exact = None if spec.target is None else spec.target.hash
        self._target = self._exact or spec.name
        self._found: dict[str, Known | None] = {}

    def find(self, workload: str) -> Known | None:
        """See :class:`Knowledge`. The server is asked once."""
        if workload not in self._found:
            with self._connect() as client:
                self._found[workload] = self._asked(client, workload)
        return self._found[workload]

    def _asked(self, client: Client, workload: str) -> Known | None:
        try:
            best = client.best_of_workload(workload, self._target)
        except NotFound:
            best = None
        if best is not None and best.source is Source.MEASURED:
            return Known(best.trace, best.latency, best.program)
        asked = {"workload": workload} | ({} if self._exact is None else {"target": self._exact})
        measured = client.records(sort="latency", limit=1, **asked).items
        return Known(None, measured[0].latency) if measured else None


class OfLog:
    """What a log or an exported folder holds.

    Args:
        path: ``best.jsonl``, a folder with a MetaSchedule database, or one that ``TunedModel.save`` wrote.

    Attributes:
        target: for which the schedules are; None where there is none.

    Raises:
        InvalidInput: it is none of these.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        folder = Path(path)
        self.path = folder / LOG if (folder / LOG).is_file() else folder
        log = read_log(self.path)
        self.source, self.preparation = str(path), log.preparation
        self.target = Target(dict(log.records[0].target)) if log.records else None
        self._found = dict.fromkeys(log.kept, Known(None))
        self._found |= {each.hash: Known(each.trace, _mean(each.run_seconds), each.workload[1]) for each in log.records}

    def find(self, workload: str) -> Known | None:
        """See :class:`Knowledge`."""
        return self._found.get(workload)

    def keep(self, workloads: Iterable[str]) -> None:
        """Further workloads of the tuned model, which keep their default schedules."""
        self._found = {**dict.fromkeys(workloads, Known(None)), **self._found}


def _mean(seconds: tuple[float, ...]) -> float | None:
    return sum(seconds) / len(seconds) if seconds else None
