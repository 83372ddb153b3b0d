"""From a worker's results to records, champions, and finished batches and rounds."""

from __future__ import annotations

import datetime as dt
import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db import clock
from db.models import Batch, Job, JobTask, Record, Round, WorkloadRow
from db.queries import champions, records
from db.queries.rough_latencies import unknown
from db.transactions import events
from db.transactions.champions import confirm
from db.transactions.default_schedules import judge_failures
from db.transactions.transitions import transition
from db.transactions.upsert import insert_for
from tunesmith.event_kinds import EventKind
from tunesmith.events import NewBest
from tunesmith.messages import WireResult
from tunesmith.states import RoundState, WorkState, is_final
from tunesmith.types import Candidate, FailureKind, build_of, cache_state, processor_of


@dataclass(frozen=True)
class Inserted:
    """A record that was not there before."""

    id: int
    index: int


def insert_records(session: Session, rows: Sequence[Mapping[str, Any]]) -> list[Inserted]:
    """Insert records, ignoring those whose ``(batch_id, index)`` is there; the ones that are new, by index."""
    if not rows:
        return []
    statement = insert_for(session, Record).values([dict(row) for row in rows])
    statement = statement.on_conflict_do_nothing(index_elements=["batch_id", "index"])
    found = session.execute(statement.returning(Record.id, Record.index)).all()
    return sorted((Inserted(id_, index) for id_, index in found), key=lambda row: row.index)


def store_rough_latencies(session: Session, job_id: str, seconds: Mapping[str, float]) -> int:
    """Take in what was timed, in seconds by workload; how many tasks have a rough latency since.

    Tasks for which there was no time get what they would take at the speed of the others, and those without
    operations what the fastest one takes. Rows that others hold are left out: what they write is better.
    """
    query = unknown(job_id).with_only_columns(JobTask, WorkloadRow.flops).order_by(JobTask.id)
    found = session.execute(query.with_for_update(of=JobTask, skip_locked=True)).all()
    timed = {task.id: (seconds[task.workload_hash], flops) for task, flops in found if task.workload_hash in seconds}
    if not timed:
        return 0
    took, done = sum(value for value, _ in timed.values()), sum(flops for _, flops in timed.values())
    least = min(value for value, _ in timed.values())
    for task, flops in found:
        value = timed.get(task.id)
        task.rough_seconds = value[0] if value is not None else max(least, flops * took / done if done else 0.0)
    session.flush()
    return len(found)


MESSAGE_LIMIT = 2000


@dataclass(frozen=True)
class Applied:
    """What some results changed: indices that are new, and whether they completed the batch."""

    new: tuple[int, ...]
    finished: bool


def apply(
    session: Session,
    batch: Batch,
    results: Sequence[WireResult],
    environment: Mapping[str, Any],
    worker_id: str | None = None,
) -> Applied:
    """Record results of a batch, from whichever attempt and however often they arrive.

    The task's row is locked first, so that the results of one task are taken in one after another.

    Args:
        worker_id: the enrolled worker that reports.
    """
    task = _locked_task(session, batch)
    before = champions.of_task(session, task)
    candidates = [Candidate.from_json(value) for value in batch.candidates]
    known = [result for result in results if 0 <= result.index < len(candidates)]
    job = session.get_one(Job, batch.job_id)
    now = clock.now(session)
    family = session.get_one(WorkloadRow, task.workload_hash).family
    rows = [
        {
            **_row(result, candidates[result.index], batch, task, job, environment, now),
            "family": family,
            "worker_id": worker_id,
            "trace": json.loads(result.trace) if result.trace is not None else None,
        }
        for result in known
    ]
    inserted = {row.index: row.id for row in insert_records(session, _first_of_each(rows))}
    if inserted and environment.get("simulated"):
        job.simulated = True
    for result in {result.index: result for result in reversed(known)}.values():
        if result.index in inserted:
            _count(task, result, candidates[result.index])
            confirm(session, task, batch, result, inserted[result.index], before)
    if task.best_seconds != before.seconds:
        said = NewBest(task.id, task.name, task.best_seconds, before.seconds, task.best_record_id, batch.id)
        events.append(session, said, job.id)
    session.flush()
    finished = len(records.indices(session, batch.id)) == len(candidates) and not is_final(batch.state)
    if finished:
        _finish(session, batch, task, WorkState.DONE, None)
    return Applied(tuple(sorted(inserted)), finished)


def abandon(session: Session, batch: Batch, problem: dict[str, Any]) -> None:
    """Record what a batch still lacks as abandoned, and finish it and its round."""
    missing = sorted(set(range(len(batch.candidates))) - records.indices(session, batch.id))
    detail = str(problem.get("detail", ""))[:MESSAGE_LIMIT]
    given_up = [WireResult(index=index, failure=FailureKind.ABANDONED, message=detail) for index in missing]
    now = clock.now(session)
    transition(session, batch, WorkState.FAILED, error=problem, finished_at=now, data={"problem": problem})
    apply(session, batch, given_up, {})
    _finish(session, batch, _locked_task(session, batch), None, problem)


def record_heartbeat(session: Session, batch: Batch, worker: str, attempt: int) -> None:
    """Note who measures the batch; a queued one becomes running. Reports of an earlier attempt say nothing."""
    if batch.attempt != attempt or is_final(batch.state):
        return
    if batch.state is WorkState.QUEUED:
        transition(session, batch, WorkState.RUNNING, worker=worker, data={"worker": worker, "attempt": attempt})


def _locked_task(session: Session, batch: Batch) -> JobTask:
    query = sa.select(JobTask).join(Round, Round.job_task_id == JobTask.id).where(Round.id == batch.round_id)
    task = session.scalars(query.with_for_update(of=JobTask).execution_options(populate_existing=True)).one()
    session.refresh(batch)
    return task


def _first_of_each(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    unique = {row["index"]: row for row in reversed(rows)}
    return [unique[index] for index in sorted(unique)]


def _row(
    result: WireResult,
    candidate: Candidate,
    batch: Batch,
    task: JobTask,
    job: Job,
    environment: Mapping[str, Any],
    now: dt.datetime,
) -> dict[str, Any]:
    failure = result.failure
    if failure is None and not result.samples:
        failure = FailureKind.RUN_ERROR
    return {
        "job_id": batch.job_id,
        "job_task_id": task.id,
        "batch_id": batch.id,
        "index": result.index,
        "workload_hash": task.workload_hash,
        "target_hash": job.target_hash,
        "sketch_hash": candidate.sketch,
        "decisions": candidate.to_json()[1],
        "samples": [] if failure else list(result.samples),
        "latency": None if failure else statistics.median(result.samples),
        "failure": failure.value if failure else None,
        "message": result.message[:MESSAGE_LIMIT].replace("\0", " "),  # PostgreSQL refuses a zero byte
        "build_seconds": result.build_seconds,
        "run_seconds": result.run_seconds,
        "device_seconds": result.device_seconds,
        "stopped": result.stopped.value if result.stopped else None,
        "duplicate": result.duplicate,
        "confirmation": result.confirmation.model_dump(mode="json") if result.confirmation else None,
        "environment": dict(environment),
        "simulated": bool(environment.get("simulated")),
        "cache": cache_state(environment).value,
        "precision": job.precision,
        "processor": processor_of(environment),
        "build": build_of(environment),
        "created_at": now,
    }


def _count(task: JobTask, result: WireResult, candidate: Candidate) -> None:
    latency = statistics.median(result.samples) if result.samples and result.failure is None else None
    if candidate.sketch is None:
        task.untuned_seconds = latency
        return
    task.trials += 1
    task.failures += latency is None
    task.duplicates += latency is not None and result.duplicate


def _finish(
    session: Session, batch: Batch, task: JobTask, state: WorkState | None, problem: dict[str, Any] | None
) -> None:
    now = clock.now(session)
    if state is not None:
        transition(session, batch, state, finished_at=now)
    round_ = session.get_one(Round, batch.round_id, populate_existing=True)
    if is_final(round_.state):
        return
    judge_failures(session, task)
    task.answer = None  # what was measured says more, also where nothing beats the default schedule
    rows = records.of_batch(session, batch.id)
    failed = [row for row in rows if row.failure]
    confirmed = [row.created_at for row in rows if row.id == task.best_record_id]
    metrics = {
        **(round_.metrics or {}),
        "measured": len(rows),
        "failed": len(failed),
        "duplicates": sum(row.duplicate for row in rows),
        "build_seconds": sum(row.build_seconds for row in rows),
        "run_seconds": sum(row.run_seconds for row in rows),
        "device_seconds": sum(row.device_seconds for row in rows),
        **({"crowned_at": confirmed[0].isoformat()} if confirmed else {}),
    }
    transition(
        session,
        round_,
        RoundState.DONE,
        event=EventKind.ROUND_FINISHED,
        finished_at=now,
        metrics=metrics,
        best_after=task.best_seconds,
        champion_since=confirmed[0] if confirmed else None,
        error=problem,
        data={
            "number": round_.number,
            "task": task.id,
            "name": task.name,
            "measured": len(rows),
            "failed": len(failed),
            "best_before": round_.best_before,
            "best_after": task.best_seconds,
            "trials": task.trials,
        },
    )
