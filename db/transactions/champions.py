"""Who leads a task: only a finalist that won its confirmation becomes the champion."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db import clock
from db.models import Batch, Job, JobTask, Record, Schedule
from db.queries import champions, models, records
from db.queries.champions import AdoptableChampion, Champion, of_task
from db.transactions import events
from db.transactions.default_schedules import note_reason
from db.transactions.transitions import changed_rows
from db.transactions.upsert import insert_for
from tunesmith.events import ChallengerRejected, ChampionAdopted, ChampionRevoked
from tunesmith.measuring.champion_latency import champion_latency
from tunesmith.messages import Confirmation, WireResult
from tunesmith.types import CacheState, Candidate, Origin

OVERTAKEN, NOT_FASTER, UNCHECKED = "overtaken", "not_faster", "unchecked"
"""Why a finalist that did not fail is rejected. Another, faster one became champion after the one that it beat, it did
not beat the champion, or nothing says that its outputs are right."""


def confirm(
    session: Session, task: JobTask, batch: Batch, result: WireResult, record_id: int, before: Champion
) -> None:
    """Make a confirmed winner the champion, or say why not; a champion keeps the best latency that it ever had.

    Args:
        result: result of a finalist, whose record is ``record_id``.
        before: the champion when the results of its batch began to be taken in.
    """
    confirmation = result.confirmation
    if confirmation is None:
        return
    record = session.get_one(Record, record_id)
    if result.failure is not None or not confirmation.won:
        unchecked = confirmation.error is None and bool(result.message)
        if result.failure is None and unchecked:
            note_reason(task, result.message)
        reason = result.failure.value if result.failure is not None else UNCHECKED if unchecked else NOT_FASTER
        if reason == NOT_FASTER:  # what made a finalist fail, such as a clock that lies, may have hit the champion too
            _lower_latency(session, task, record, confirmation)
        _reject(session, task, batch, record_id, confirmation, reason)
        return
    seconds = confirmed_latency(confirmation, before)
    if task.best_seconds is not None and seconds >= task.best_seconds:
        _reject(session, task, batch, record_id, confirmation, OVERTAKEN)
        return
    task.best_seconds, task.best_record_id, task.reason = seconds, record_id, None
    promote(session, record, seconds)


def confirmed_latency(confirmation: Confirmation, before: Champion) -> float:
    """The winner's latency in seconds; see :func:`champion_latency`.

    Against any other champion than ``before`` there is only the median to compare.
    """
    same = _measured_against(confirmation, before)
    return champion_latency(confirmation.samples, confirmation.champion_samples, before.seconds if same else None)


def _measured_against(confirmation: Confirmation, champion: Champion) -> bool:
    beside = confirmation.champion
    return beside is not None and champion.candidate == Candidate.from_json([beside.sketch, list(beside.decisions)])


def _lower_latency(session: Session, task: JobTask, beside: Record, confirmation: Confirmation) -> None:
    """A champion that now ran faster than at its confirmation takes that long: then the device was disturbed.

    Args:
        beside: the record of the finalist that it ran beside.
    """
    now = of_task(session, task)
    if now.seconds is None or task.best_record_id is None or not _measured_against(confirmation, now):
        return
    seconds = statistics.median(confirmation.champion_samples or [now.seconds])
    if seconds >= now.seconds:
        return
    task.best_seconds = seconds
    lower = sa.update(Schedule).values(latency=seconds, updated_at=clock.now(session)).where(Schedule.latency > seconds)
    session.execute(lower.filter_by(record_id=task.best_record_id, simulated=beside.simulated, cache=beside.cache))


def _reject(
    session: Session, task: JobTask, batch: Batch, record_id: int, confirmation: Confirmation, reason: str
) -> None:
    def median(samples: list[float]) -> float | None:
        return statistics.median(samples) if samples else None

    said = ChallengerRejected(
        task=task.id,
        name=task.name,
        batch=batch.id,
        record=record_id,
        reason=reason,
        seconds=median(confirmation.samples),
        champion_seconds=median(confirmation.champion_samples),
        p_value=confirmation.p_value,
        error=confirmation.error,
        tolerance=confirmation.tolerance,
    )
    events.append(session, said, task.job_id)


def promote(session: Session, record: Record, latency: float) -> bool:
    """Make a record whose trace is kept the champion if it is faster than the present one.

    Champions of simulated devices and of each state of the caches contend with their like only.

    Args:
        latency: seconds.

    Returns:
        True when the champion changed.
    """
    if record.trace is None:
        return False
    key = {name: getattr(record, name) for name in ("workload_hash", "target_hash", "simulated", "cache")}
    values = {"record_id": record.id, "latency": latency, "trace": record.trace, "updated_at": clock.now(session)}
    statement = insert_for(session, Schedule).values(**key, **values)
    statement = statement.on_conflict_do_update(index_elements=list(key), set_=values, where=Schedule.latency > latency)
    return session.execute(statement.returning(Schedule.record_id)).scalar_one_or_none() is not None


def adopt_earlier(session: Session, job: Job) -> int:
    """Make earlier champions those of the job's tasks, with the default schedules' latencies; of how many tasks.

    A champion counts that was measured in the state of the caches in which the job measures, on no simulated device,
    and that lies in the task's design space.
    """
    assert job.target_hash is not None, "the plan names the target"
    caches = models.caches_of(session, job)
    earlier = champions.of_workloads(session, caches, job.target_hash)
    found = {key: row.record_id for key, row in earlier.items() if row.cache == caches[key].value}
    rows = session.scalars(sa.select(Record).where(Record.id.in_(found.values())))
    sketches = {row.id: row.sketch_hash for row in rows}
    known = 0
    for task in session.scalars(sa.select(JobTask).where(JobTask.job_id == job.id, JobTask.tunable)):
        record = found.get(task.workload_hash)
        if record is None or sketches[record] not in task.sketches:
            continue
        task.known_seconds = task.best_seconds = earlier[task.workload_hash].latency
        task.best_record_id = record
        task.untuned_seconds = records.latest_baseline(
            session, task.workload_hash, job.target_hash, caches[task.workload_hash]
        )
        known += 1
    session.flush()
    return known


def adopt(session: Session, found: AdoptableChampion) -> bool:
    """Make another job's champion the task's, unless that has a faster one by now."""
    row = session.execute(
        sa.select(JobTask.job_id, JobTask.name, JobTask.best_seconds, Record.job_id)
        .join(Record, Record.id == found.record)
        .where(JobTask.id == found.task)
    ).one()
    job_id, name, before, finder = row
    changed = changed_rows(
        session,
        sa.update(JobTask)
        .where(
            JobTask.id == found.task,
            sa.or_(JobTask.best_seconds.is_(None), JobTask.best_seconds > found.seconds),
        )
        .values(best_seconds=found.seconds, best_record_id=found.record),
    )
    if changed:
        said = ChampionAdopted(found.task, name, found.seconds, before, found.record, finder)
        events.append(session, said, job_id)
    return bool(changed)


def revoke(session: Session, ids: Sequence[int]) -> int:
    """Replace the champions that revoked records are by the next best; the number of those champions."""
    rows = session.scalars(sa.select(Schedule).where(Schedule.record_id.in_(ids)).with_for_update()).all()
    for row in rows:
        best = _next_best(session, row)
        if best is None:
            session.delete(row)
            continue
        row.record_id, row.latency, row.updated_at = best.id, _latency_of_record(best), clock.now(session)
        row.trace = best.trace or []
    session.flush()
    return len(rows)


def _next_best(session: Session, champion: Schedule) -> Record | None:
    """The fastest confirmed winner whose trace is kept, of the champion's state of the caches and kind of device."""
    query = sa.select(Record).where(
        Record.workload_hash == champion.workload_hash,
        Record.target_hash == champion.target_hash,
        Record.origin == Origin.MEASURED.value,
        Record.trace.is_not(None),
        Record.revoked_at.is_(None),
        Record.failure.is_(None),
        Record.cache == champion.cache,
        Record.simulated.is_(champion.simulated),
    )
    return min(session.scalars(query), key=_latency_of_record, default=None)


def _latency_of_record(row: Record) -> float:
    """Seconds that the confirmation found."""
    samples = (row.confirmation or {}).get("samples") or row.samples
    return float(statistics.median(samples))


def revoke_bests(session: Session, ids: Sequence[int], reason: str) -> int:
    """Replace revoked records as the best of tasks; the number of those tasks."""
    query = sa.select(JobTask).where(JobTask.best_record_id.in_(ids)).order_by(JobTask.id)
    rows = session.scalars(query.with_for_update().execution_options(populate_existing=True)).all()
    for task in rows:
        before, job = task.best_seconds, session.get_one(Job, task.job_id)
        found = [(_latency_of_record(row), row.id) for row in _winners(session, task)]
        champion = _adoptable_by(session, job, task)
        if champion is not None:
            found.append((champion.latency, champion.record_id))
        task.best_seconds, task.best_record_id = min(found, default=(None, None))
        if task.known_seconds is not None:
            task.known_seconds = champion.latency if champion is not None else None
        said = ChampionRevoked(task.id, task.name, before, task.best_seconds, task.best_record_id, reason)
        events.append(session, said, task.job_id)
    session.flush()
    return len(rows)


def _winners(session: Session, task: JobTask) -> list[Record]:
    """The confirmed winners of a task's own measurements that are still believed."""
    query = sa.select(Record).where(
        Record.job_task_id == task.id,
        Record.revoked_at.is_(None),
        Record.failure.is_(None),
        Record.confirmation.is_not(None),
    )
    return [row for row in session.scalars(query) if (row.confirmation or {}).get("won")]


def _adoptable_by(session: Session, job: Job, task: JobTask) -> Schedule | None:
    """What the task may adopt now; see :func:`adopt_earlier` for what counts."""
    if not job.warm_start or job.target_hash is None:
        return None
    cache = models.caches_of(session, job).get(task.workload_hash, CacheState.WARM)
    row = champions.get(session, task.workload_hash, job.target_hash, simulated=job.simulated, cache=cache)
    if row is None or session.get_one(Record, row.record_id).sketch_hash not in task.sketches:
        return None
    return row
