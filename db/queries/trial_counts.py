"""How many candidates were measured, without counting all of them each time: by failure, and by workload."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db.models import Record, TargetRow
from db.queries.job_versions import changes_of_all
from tunesmith.types import Origin

UNSETTLED = 5000
"""Newest records that are counted anew: below them no transaction that is still to be committed has an id."""


class TrialCounts:
    """Counts of one process, which threads may share. Records that were deleted since its first look still count."""

    def __init__(self, unsettled: int = UNSETTLED) -> None:
        self._unsettled, self._lock = unsettled, threading.Lock()
        self._settled: Counter[str] = Counter()
        self._through = 0

    def of(self, session: Session) -> dict[str, int]:
        """By failure, ``ok`` for those that ran. The first look goes through an index once, all others through the
        newest records."""
        newest = session.scalar(sa.select(sa.func.max(Record.id))) or 0
        with self._lock:
            edge = newest - self._unsettled
            if edge - self._through > self._unsettled:
                self._settled.update(_count(session, self._through, edge))
                self._through = edge
            settled, through = Counter(self._settled), self._through
        return dict(settled + _count(session, through, newest))


def _count(session: Session, after: int, through: int) -> Counter[str]:
    query = sa.select(Record.failure, sa.func.count()).where(
        Record.id > after, Record.id <= through, Record.origin == Origin.MEASURED.value
    )
    return Counter({failure or "ok": number for failure, number in session.execute(query.group_by(Record.failure))})


class Group(NamedTuple):
    """Records of a workload on one target in one precision: how many there are, and how many of them failed."""

    workload: str
    target: str
    device_class: str
    precision: str
    records: int
    failures: int


_Groups = Mapping[tuple[str, str, str], tuple[int, int]]
"""Records and failures by workload, target and precision."""


@dataclass(frozen=True)
class _Settled:
    """Counts of the records with ids up to ``through``, by workload, as of the event ``seen``."""

    through: int
    seen: int
    groups: dict[str, _Groups] = field(default_factory=dict)


class WorkloadCounts:
    """Counts of the workloads that were asked for in one process, which threads may share.

    Args:
        unsettled: newest records that are counted anew each time, see :data:`UNSETTLED`.
    """

    def __init__(self, unsettled: int = UNSETTLED // 5) -> None:
        self._unsettled = unsettled
        self._settled: _Settled | None = None

    def of(self, session: Session, hashes: Collection[str]) -> list[Group]:
        """Records of workloads by target and precision; those of simulated devices do not count.

        The first look at a workload goes through its records once, all others through the newest ones.
        """
        settled = self._current(session)
        missing = [key for key in hashes if key not in settled.groups]
        if missing:
            counted = _groups(session, missing, settled.through)
            for key in missing:
                settled.groups[key] = {place: numbers for place, numbers in counted.items() if place[0] == key}
        sums: dict[tuple[str, str, str], tuple[int, int]] = {}
        for found in (*(settled.groups[key] for key in dict.fromkeys(hashes)), *_newest(session, settled, hashes)):
            for place, (records, failures) in found.items():
                before = sums.get(place, (0, 0))
                sums[place] = before[0] + records, before[1] + failures
        rows = session.execute(sa.select(TargetRow.hash, TargetRow.device_class))
        named = {row.hash: row.device_class for row in rows}
        return [Group(*place[:2], named[place[1]], place[2], *sums[place]) for place in sorted(sums)]

    def _current(self, session: Session) -> _Settled:
        """What is settled; begun anew once there is much that is not, or records are gone."""
        settled = self._settled
        seen, changed = changes_of_all(session, None if settled is None else settled.seen)
        newest = session.scalar(sa.select(sa.func.max(Record.id))) or 0
        if settled is None or changed or newest - settled.through > 2 * self._unsettled:
            settled = _Settled(max(0, newest - self._unsettled), seen)
        else:
            settled = _Settled(settled.through, seen, settled.groups)
        self._settled = settled
        return settled


_PLACE = (Record.workload_hash, Record.target_hash, Record.precision)


def _groups(session: Session, hashes: Collection[str], through: int) -> _Groups:
    query = (
        sa.select(*_PLACE, sa.func.count(), sa.func.count(Record.failure))
        .where(Record.workload_hash.in_(hashes), Record.simulated.is_(False), Record.id <= through)
        .group_by(*_PLACE)
    )
    return {(w, t, p): (records, failures) for w, t, p, records, failures in session.execute(query)}


def _newest(session: Session, settled: _Settled, hashes: Collection[str]) -> Iterator[_Groups]:
    """Each of the records that are not settled. They are few, and found by their ids: where a database groups them,
    SQLite goes through all of the index that has them in the groups' order."""
    query = sa.select(*_PLACE, Record.failure).where(
        Record.id > settled.through, Record.workload_hash.in_(hashes).is_(True), Record.simulated.is_(False).is_(True)
    )
    for workload, target, precision, failure in session.execute(query):
        yield {(workload, target, precision): (1, int(failure is not None))}
