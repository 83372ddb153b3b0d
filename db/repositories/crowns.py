"""Who leads a task: a finalist that won its confirmation takes the crown, and nobody else."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from sqlalchemy.orm import Session

from db.models import Batch, Job, JobTask, Record
from db.repositories import events, schedules
from tunesmith.measuring.crowning import crowned
from tunesmith.messages import Confirmation, WireResult
from tunesmith.types import CacheState, Candidate

OVERTAKEN, NOT_FASTER = "overtaken", "not_faster"
"""Why a crown is refused to a finalist that did not fail: one that is faster still was crowned since the champion that
it beat, or it did not beat the champion."""


@dataclass(frozen=True)
class Reign:
    """A task's champion and its latency in seconds; None both while there is none but the default schedule."""

    candidate: Candidate | None
    seconds: float | None


def reign(session: Session, task: JobTask) -> Reign:
    """The champion of now."""
    record = session.get(Record, task.best_record_id) if task.best_record_id is not None else None
    candidate = Candidate.from_json([record.sketch_hash, record.decisions]) if record is not None else None
    return Reign(candidate, task.best_seconds)


def claim(
    session: Session,
    task: JobTask,
    job: Job,
    batch: Batch,
    result: WireResult,
    record_id: int,
    before: Reign,
    *,
    simulated: bool,
    cache: CacheState,
) -> None:
    """Move the crown to a confirmed winner, or say why not; the champion keeps the best that it was measured with.

    Args:
        result: of a finalist, whose record is ``record_id``.
        before: the champion when the results of its batch began to be taken in.
        simulated: the latencies are invented.
        cache: where the runs found their arguments.
    """
    confirmation = result.confirmation
    if confirmation is None:
        return
    if result.failure is not None or not confirmation.won:
        reason = result.failure.value if result.failure is not None else NOT_FASTER
        if reason == NOT_FASTER:  # what made a finalist fail, such as a clock that lies, may have hit the champion too
            _measured_again(session, task, job, confirmation, simulated=simulated, cache=cache)
        _refuse(session, task, batch, record_id, confirmation, reason)
        return
    seconds = latency(confirmation, before)
    if task.best_seconds is not None and seconds >= task.best_seconds:
        _refuse(session, task, batch, record_id, confirmation, OVERTAKEN)
        return
    task.best_seconds, task.best_record_id = seconds, record_id
    if result.trace is not None and job.target_hash is not None:
        schedules.crown(
            session,
            task.workload_hash,
            job.target_hash,
            record_id,
            seconds,
            result.trace,
            simulated=simulated,
            cache=cache,
        )


def latency(confirmation: Confirmation, before: Reign) -> float:
    """The winner's latency in seconds; see :func:`crowned`.

    Against any other champion than ``before`` there is only the median to compare.
    """
    same = _stood_beside(confirmation, before)
    return crowned(confirmation.samples, confirmation.champion_samples, before.seconds if same else None)


def _stood_beside(confirmation: Confirmation, champion: Reign) -> bool:
    beside = confirmation.champion
    return beside is not None and champion.candidate == Candidate.from_json([beside.sketch, list(beside.decisions)])


def _measured_again(
    session: Session, task: JobTask, job: Job, confirmation: Confirmation, *, simulated: bool, cache: CacheState
) -> None:
    """A champion that now ran faster than when it was crowned takes that long: then the device was disturbed."""
    now = reign(session, task)
    if now.seconds is None or task.best_record_id is None or not _stood_beside(confirmation, now):
        return
    seconds = statistics.median(confirmation.champion_samples or [now.seconds])
    if seconds >= now.seconds:
        return
    task.best_seconds = seconds
    if job.target_hash is not None:
        schedules.measured_again(
            session, task.workload_hash, job.target_hash, task.best_record_id, seconds, simulated=simulated, cache=cache
        )


def _refuse(
    session: Session, task: JobTask, batch: Batch, record_id: int, confirmation: Confirmation, reason: str
) -> None:
    def median(samples: list[float]) -> float | None:
        return statistics.median(samples) if samples else None

    events.append(
        session,
        "crown_refused",
        task.job_id,
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
