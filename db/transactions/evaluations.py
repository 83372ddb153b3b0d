"""Evaluations: the end-to-end check of a job."""

from __future__ import annotations

from sqlalchemy.orm import Session

from db.models import Evaluation, Job
from db.transactions import events
from tunesmith.events import EvaluationQueued
from tunesmith.messages import EvaluationReport
from tunesmith.states import WorkState


def start(session: Session, job: Job, device_class: str) -> None:
    """A job's evaluation, to be sent to a device of a class."""
    session.add(Evaluation(job_id=job.id, device_class=device_class, state=WorkState.QUEUED))
    session.flush()
    events.append(session, EvaluationQueued(device_class), job.id)


def store_measured(session: Session, row: Evaluation, report: EvaluationReport, tolerance: float) -> None:
    """What an evaluation measured.

    Args:
        row: locked.
        tolerance: error of the outputs that is allowed, as part of their range.
    """
    row.untuned_samples, row.tuned_samples = report.untuned_samples, report.tuned_samples
    row.output_error, row.output_tolerance = report.error, None if report.error is None else tolerance
    row.output_signal = report.signal
    row.references = [reference.model_dump(mode="json") for reference in report.references]
    row.applied, row.environment = report.applied, report.environment
    if report.environment.get("simulated"):
        session.get_one(Job, row.job_id).simulated = True
    session.flush()
