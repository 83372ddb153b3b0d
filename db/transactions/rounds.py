"""Rounds: opened by the scheduler, filled by the search, ranked when their results are there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy.orm import Session

from db import clock
from db.models import Batch, Job, JobTask, Round
from db.transactions import events
from db.transactions.locks import lock_row
from db.transactions.transitions import transition
from tunesmith.event_kinds import EventKind
from tunesmith.events import RoundOpened, TaskExhausted
from tunesmith.states import RoundState
from tunesmith.types import Candidate
from tunesmith.unmeasured import Answer, Source


def open_round(
    session: Session, job: Job, task: JobTask, *, number: int, size: int, baseline: bool, reason: Mapping[str, Any]
) -> Round:
    """A new round of a task, to be proposed.

    Args:
        number: counts within the job.
        size: candidates at most; 0: it gives the task a schedule without a measurement.
        baseline: whether it measures the default schedule, too.
        reason: why the allocator chose the task.
    """
    round_ = Round(
        job_id=job.id,
        job_task_id=task.id,
        number=number,
        size=size,
        baseline=baseline,
        state=RoundState.PROPOSING,
        reason=dict(reason),
        best_before=task.best_seconds,
    )
    session.add(round_)
    session.flush()
    said = RoundOpened(round_.id, round_.number, task.id, task.name, round_.size, str(reason.get("reason", "")))
    events.append(session, said, job.id)
    return round_


def keep_searcher(
    session: Session, task: JobTask, state: dict[str, Any] | None, last_record_id: int, *, exhausted: bool
) -> None:
    """Store what a task's searcher knows.

    Args:
        task: locked.
        last_record_id: the newest record that the searcher knows.
        exhausted: it has nothing left to propose.
    """
    task.searcher_state, task.told_record_id = state, last_record_id
    if exhausted:
        task.exhausted = True
        events.append(session, TaskExhausted(task.id, task.name), task.job_id)
    session.flush()


def add_batch(
    session: Session,
    round_: Round,
    device_class: str,
    candidates: Sequence[Candidate],
    predictions: Sequence[float | None] | None,
    features_blob: str | None,
    deviations: Sequence[float | None] | None = None,
) -> Batch:
    """The candidates of a round, to be measured.

    Args:
        predictions: scores by index; None without a model.
        deviations: how far the model's members lie apart on each.
        features_blob: names the candidates' features.
    """
    batch = Batch(
        round_id=round_.id,
        job_id=round_.job_id,
        device_class=device_class,
        candidates=[candidate.to_json() for candidate in candidates],
        predictions=None if predictions is None else list(predictions),
        deviations=None if deviations is None else list(deviations),
        features_blob=features_blob,
    )
    session.add(batch)
    session.flush()
    return batch


def keep_features(session: Session, batch_id: int, blob: str | None) -> None:
    """Store what names the features of a batch's candidates."""
    session.get_one(Batch, batch_id).features_blob = blob


def store_answer(session: Session, round_: Round, answer: Answer) -> None:
    """Finish a locked round without candidates; its task has the schedule unless something is measured by now."""
    task = lock_row(session, JobTask, round_.job_task_id)
    assert task is not None, "a task goes with its job, and the round with it"
    if task.best_record_id is None and not task.trials and answer.source is not Source.DEFAULT:
        task.answer = answer.to_json()
    transition(
        session,
        round_,
        RoundState.DONE,
        event=EventKind.ROUND_FINISHED,
        finished_at=clock.now(session),
        data={"number": round_.number, "task": task.id, "name": task.name, "measured": 0, "failed": 0},
    )


def store_ranking(session: Session, batch: Batch, ranking: dict[str, Any]) -> None:
    """How well the cost model of the time ranked a batch."""
    round_ = session.get_one(Round, batch.round_id, populate_existing=True)
    round_.metrics = {**(round_.metrics or {}), "ranking": ranking}
