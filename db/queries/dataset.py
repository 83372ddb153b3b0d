"""The dataset over all jobs: pages of records and workloads, and what is known of one workload."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db.models import Job, Record, TargetRow, WorkloadRow
from db.queries.by_time import last_before
from tunesmith.dataset.manifest import Summary
from tunesmith.names import DEFAULT_PRECISION
from tunesmith.types import CacheState, Origin

VALID = "none"
"""In the place of a failure: records that ran."""
ANY_FAILURE = "any"


@dataclass(frozen=True)
class RecordFilter:
    """Which records are meant; None leaves a member open.

    Attributes:
        family: name of an operator, such as ``conv2d``.
        target: hash, device class or tag of a target.
        failure: a failure kind, ``none`` for records that ran, or ``any`` for those that did not.
        job: id of a job.
        since, until: when a record was stored; ``until`` itself is left out.
    """

    workload: str | None = None
    family: str | None = None
    target: str | None = None
    processor: str | None = None
    precision: str | None = None
    failure: str | None = None
    simulated: bool | None = None
    cache: CacheState | None = None
    job: str | None = None
    origin: Origin | None = None
    since: dt.datetime | None = None
    until: dt.datetime | None = None
    revoked: bool | None = None


def conditions(session: Session, wanted: RecordFilter, *, by_latency: bool = False) -> list[sa.ColumnElement[bool]]:
    """The filter in SQL, such that the database walks one index: the first condition's, or the one of latencies.

    SQLite keeps no statistics here. It would as readily walk the index of a value that nearly all rows have.
    """
    targets = None if wanted.target is None else targets_named(session, wanted.target)
    one = targets[0] if targets is not None and len(targets) == 1 else None
    found = _indexed(wanted, one)
    if by_latency:
        found = [*([Record.target_hash == one] if one is not None else []), *found]
        found = [Record.workload_hash == wanted.workload, *found]
    walked = 1 if not by_latency or one is None else 2
    others = found[walked:]
    if targets is not None:
        others.append(Record.target_hash.in_(targets))
    if wanted.cache is not None:
        others.append(Record.cache == wanted.cache.value)
    if wanted.revoked is not None:
        others.append(Record.revoked_at.is_not(None) if wanted.revoked else Record.revoked_at.is_(None))
    found = [*found[:walked], *(condition.is_(True) for condition in others)]
    if wanted.since is not None:
        found.append(Record.id > last_before(session, Record, wanted.since))
    if wanted.until is not None:
        found.append(Record.id <= last_before(session, Record, wanted.until))
    return found


def _indexed(wanted: RecordFilter, target: str | None) -> list[sa.ColumnElement[bool]]:
    """Conditions on columns of which each has an index, those first that few rows meet."""
    failed = wanted.failure not in (None, VALID, ANY_FAILURE)
    narrow = wanted.precision not in (None, DEFAULT_PRECISION)
    found: list[tuple[bool, Any]] = [
        (wanted.job is not None, Record.job_id == wanted.job),
        (wanted.workload is not None, Record.workload_hash == wanted.workload),
        (failed, Record.failure == wanted.failure),
        (narrow, _narrow(wanted.precision)),
        (wanted.simulated is True, Record.simulated == sa.true()),
        (target is not None, Record.target_hash == target),
        (wanted.family is not None, Record.family == wanted.family),
        (wanted.processor is not None, Record.processor == wanted.processor),
        (
            wanted.origin is not None,
            Record.origin == sa.literal_column(f"'{(wanted.origin or Origin.MEASURED).value}'"),
        ),
        (wanted.failure is not None and not failed, _failed(wanted.failure == ANY_FAILURE)),
        (wanted.precision == DEFAULT_PRECISION, Record.precision == DEFAULT_PRECISION),
        (wanted.simulated is False, Record.simulated == sa.false()),
    ]
    return [condition for asked, condition in found if asked]


def _failed(wanted: bool) -> sa.ColumnElement[bool]:
    return Record.failure.is_not(None) if wanted else Record.failure.is_(None)


def _narrow(wanted: str | None) -> sa.ColumnElement[bool]:
    """Named twice, so that the index of the few that are not float32 serves."""
    return sa.and_(Record.precision == wanted, Record.precision != sa.literal_column(f"'{DEFAULT_PRECISION}'"))


def targets_named(session: Session, name: str) -> list[str]:
    """Hashes of the targets that a hash, a device class or a tag names."""
    rows = session.scalars(sa.select(TargetRow).order_by(TargetRow.hash))
    return [row.hash for row in rows if name in (row.hash, row.device_class, row.json.get("tag"))]


class RecordPart(NamedTuple):
    """A record with what lists show of its target and its job."""

    record: Record
    device_class: str
    owner: str | None


def _parts() -> sa.Select[Any]:
    columns: tuple[Any, ...] = (Record, TargetRow.device_class, Job.owner)
    return (
        sa.select(*columns)
        .join(TargetRow, Record.target_hash == TargetRow.hash)
        .outerjoin(Job, Record.job_id == Job.id)
    )


def newest(session: Session, wanted: RecordFilter, *, before: int | None, limit: int) -> list[RecordPart]:
    """Records, newest first, with ids below ``before``."""
    chosen = sa.select(Record.id).where(*conditions(session, wanted)).order_by(Record.id.desc()).limit(limit)
    if before is not None:
        chosen = chosen.where(Record.id < before)
    return _of_ids(session, session.scalars(chosen).all())


def oldest(session: Session, wanted: RecordFilter, *, after: int | None, limit: int) -> list[RecordPart]:
    """Records, oldest first, with ids above ``after``."""
    chosen = sa.select(Record.id).where(*conditions(session, wanted)).order_by(Record.id).limit(limit)
    if after is not None:
        chosen = chosen.where(Record.id > after)
    return _of_ids(session, session.scalars(chosen).all())


def fastest(session: Session, wanted: RecordFilter, *, after: int | None, limit: int) -> list[RecordPart]:
    """Records of one workload that ran, fastest first.

    Args:
        after: id of the record before.

    Raises:
        LookupError: there is no such record any more.
    """
    chosen = sa.select(Record.id).where(Record.latency.is_not(None), *conditions(session, wanted, by_latency=True))
    if after is not None:
        latency = session.scalar(sa.select(Record.latency).where(Record.id == after))
        if latency is None:
            raise LookupError(after)
        chosen = chosen.where(sa.tuple_(Record.latency, Record.id) > (latency, after))
    return _of_ids(session, session.scalars(chosen.order_by(Record.latency, Record.id).limit(limit)).all())


def _of_ids(session: Session, ids: Sequence[int]) -> list[RecordPart]:
    """In the order of ``ids``: to choose among many rows takes their indexes only."""
    found = {row[0].id: RecordPart._make(row) for row in session.execute(_parts().where(Record.id.in_(ids)))}
    return [found[key] for key in ids if key in found]


def measured_workloads(
    session: Session, *, family: str | None, target: str | None, text: str | None
) -> sa.Select[WorkloadRow]:
    """A query of the workloads that have records.

    Args:
        text: part of a name, or the beginning of a hash.
    """
    row = WorkloadRow
    measured = sa.exists().where(Record.workload_hash == row.hash)
    if target is not None:
        measured = measured.where(Record.target_hash.in_(targets_named(session, target)))
    query = sa.select(row).where(measured)
    if family is not None:
        query = query.where(row.family == family)
    if text is not None:
        query = query.where(
            sa.or_(row.name.icontains(text, autoescape=True), row.hash.startswith(text, autoescape=True))
        )
    return query


def workloads(
    session: Session, wanted: sa.Select[WorkloadRow], *, before: tuple[dt.datetime, str] | None, limit: int
) -> Sequence[WorkloadRow]:
    """The workloads of a query, newest first."""
    row = WorkloadRow
    query = wanted.order_by(row.created_at.desc(), row.hash.desc()).limit(limit)
    if before is not None:
        query = query.where(sa.tuple_(row.created_at, row.hash) < before)
    return session.scalars(query).all()


def has_records(session: Session, workload: str) -> bool:
    """True for a workload that was measured: those that only somebody's model has are nobody else's business."""
    return bool(session.scalar(sa.select(sa.exists().where(Record.workload_hash == workload))))


def summary(session: Session, wanted: RecordFilter) -> Summary:
    """Counts of the records that meet the filter. Reads all of them."""
    where = conditions(session, wanted)
    total, failed, simulated, first, last = session.execute(
        sa.select(
            sa.func.count(),
            sa.func.count(Record.failure),
            sa.func.sum(sa.case((Record.simulated, 1), else_=0)),
            sa.func.min(Record.created_at),
            sa.func.max(Record.created_at),
        ).where(*where)
    ).one()
    columns: dict[str, Any] = {
        "operators": Record.family,
        "processors": Record.processor,
        "builds": Record.build,
        "precisions": Record.precision,
        "caches": Record.cache,
        "failures": Record.failure,
    }
    counts = {name: _counts(session, column, where) for name, column in columns.items()}
    classes = {row.hash: row.device_class for row in session.execute(sa.select(TargetRow.hash, TargetRow.device_class))}
    targets: Counter[str] = Counter()
    for target, number in _counts(session, Record.target_hash, where).items():
        targets[classes.get(target, target)] += number
    return Summary(
        records=total, failed=failed, simulated=simulated or 0, first=first, last=last, targets=dict(targets), **counts
    )


def _counts(session: Session, column: Any, where: Sequence[sa.ColumnElement[bool]]) -> dict[str, int]:
    query = sa.select(column, sa.func.count()).where(*where).group_by(column).order_by(column)
    return {str(value): number for value, number in session.execute(query) if value}
