"""Take in reports: the only tasks that write results."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import structlog
from sqlalchemy.orm import Session

from costmodels.metrics import evaluate
from db import clock
from db.models import Batch, Evaluation
from db.queries import records
from db.transactions import device_reports, outcomes, ownership, results, unreadable, work
from db.transactions.evaluations import store_measured
from db.transactions.locks import lock_job, lock_row
from db.transactions.rounds import store_ranking
from db.transactions.transitions import transition
from tunesmith.errors import MeasurementFailed
from tunesmith.measuring.agreement import TOLERANCE
from tunesmith.measuring.checked import CheckState, judge
from tunesmith.messages import BatchReport, DeviceReport, EvaluationReport
from tunesmith.states import JobState, WorkState, is_final
from tunesmith.types import FailureKind
from tunesmith.worker_logs import of_device
from workers.core import acceptance, intake
from workers.core.context import Context
from workers.core.intake import Claim

log = structlog.get_logger(__name__)

TRANSIENT = frozenset({FailureKind.DEVICE_LOST, FailureKind.CRASH, FailureKind.BUILD_TIMEOUT, FailureKind.RUN_TIMEOUT})
"""Failures of an evaluation that another attempt may not have."""

OVERTAKEN_SECONDS = 5.0
"""A last report may overtake another one with results, which a second recorder holds: only then is anything missing."""


def batch(context: Context, claim: Claim[BatchReport]) -> None:
    """The task ``tunesmith.record_batch``: results of any attempt count once, heartbeats only of the present one."""
    report = claim.report

    def work_(session: Session) -> bool:
        row = lock_row(session, Batch, report.batch_id)
        if row is None:
            log.info("report of an unknown batch", batch=report.batch_id)
            return False
        ownership.hold(session, row, report.attempt, report.ticket, claim.worker.id)
        believed = acceptance.batch(session, row, claim)
        if ownership.newer(row, report.attempt, claim.sequence):
            results.record_heartbeat(session, row, report.worker, report.attempt)
            work.extend(session, Batch, row.id, report.attempt, context.settings.work_timeout)
        if report.defaults:
            acceptance.defaults(session, row, claim)
            results.store_rough_latencies(
                session, row.job_id, {item.workload: item.seconds for item in report.defaults}
            )
        applied = results.apply(session, row, believed, report.environment, claim.worker.id)
        if applied.finished:
            _rank(session, row)
        elif report.error and report.attempt == row.attempt and not is_final(row.state):
            _retry(context, session, row, MeasurementFailed(report.error[:1000]).problem())
        elif report.final:
            work.extend(session, Batch, row.id, report.attempt, OVERTAKEN_SECONDS)
        return applied.finished

    finished = intake.believing(context, claim, report.batch_id, work_)
    log.info("results", batch=report.batch_id, attempt=report.attempt, results=len(report.results), finished=finished)


def _rank(session: Session, row: Batch) -> None:
    """How well the cost model of the time ranked this batch: its metrics go to the round."""
    if row.predictions is None:
        return
    found = [
        (row.predictions[record.index], math.inf if record.latency is None else record.latency)
        for record in records.of_batch(session, row.id)
        if row.predictions[record.index] is not None and record.failure not in records.BLAMELESS
    ]
    if len(found) < 2:
        return
    scores, latency = (np.array(column, dtype=np.float64) for column in zip(*found, strict=True))
    ranking = evaluate(scores, latency, np.zeros(len(found), dtype=np.int64)).to_json()
    store_ranking(session, row, ranking)


def _retry(context: Context, session: Session, row: Batch | Evaluation, problem: dict[str, Any]) -> None:
    work.retry_or_fail(session, row, context.settings.max_attempts, problem)


def evaluation(context: Context, claim: Claim[EvaluationReport]) -> None:
    """The task ``tunesmith.record_evaluation``: a success of any attempt counts, and ends the job."""
    report = claim.report

    def work_(session: Session) -> None:
        row = lock_row(session, Evaluation, report.evaluation_id)
        if row is None or is_final(row.state):
            log.info("report of an unknown or finished evaluation", evaluation=report.evaluation_id)
            return
        ownership.hold(session, row, report.attempt, report.ticket, claim.worker.id)
        acceptance.evaluation(session, row, claim)
        if not report.final:
            if ownership.newer(row, report.attempt, claim.sequence):
                _record_heartbeat(context, session, row, report)
        elif report.failure is None:
            _finish(session, row, report)
        elif report.attempt == row.attempt:
            _failed(context, session, row, report)

    intake.believing(context, claim, report.evaluation_id, work_)


def _record_heartbeat(context: Context, session: Session, row: Evaluation, report: EvaluationReport) -> None:
    if report.attempt != row.attempt:
        return
    if row.state is WorkState.QUEUED:
        transition(session, row, WorkState.RUNNING, worker=report.worker, data={"worker": report.worker})
    work.extend(session, Evaluation, row.id, report.attempt, context.settings.work_timeout)


def _finish(session: Session, row: Evaluation, report: EvaluationReport) -> None:
    allowed = TOLERANCE if report.tolerance is None else report.tolerance
    store_measured(session, row, report, allowed)
    check = judge(report.error, allowed, report.signal)
    wrong = check is CheckState.DIFFER
    if check is CheckState.NOTHING_CHECKED:
        log.warning(
            "nothing was checked: the model's outputs hardly depend on its inputs", job=row.job_id, signal=report.signal
        )
    if wrong or not report.untuned_samples or not report.tuned_samples:
        detail = "the evaluation measured nothing"
        if wrong:
            detail = (
                f"the tuned model's outputs differ from the untuned model's by {report.error:.3g} of their range, "
                f"more than {allowed:g}"
            )
        failure = FailureKind.WRONG_RESULT if wrong else FailureKind.RUN_ERROR
        outcomes.fail_evaluation(session, row, MeasurementFailed(detail, failure=failure.value).problem())
        return
    transition(
        session,
        row,
        WorkState.DONE,
        finished_at=clock.now(session),
        data={
            "untuned": float(np.median(report.untuned_samples)),
            "tuned": float(np.median(report.tuned_samples)),
            "check": check.value,
        },
    )
    job = lock_job(session, row.job_id)
    assert job is not None, "an evaluation goes with its job"
    if job.state is JobState.FINISHING:
        transition(session, job, JobState.SUCCEEDED, finished_at=clock.now(session))


def _failed(context: Context, session: Session, row: Evaluation, report: EvaluationReport) -> None:
    assert report.failure is not None
    problem = MeasurementFailed(report.message[:1000] or report.failure.value, failure=report.failure.value).problem()
    if report.failure in TRANSIENT:
        _retry(context, session, row, problem)
    else:
        outcomes.fail_evaluation(session, row, problem)


def device(context: Context, claim: Claim[DeviceReport]) -> None:
    """The task ``tunesmith.record_device``."""
    report, timeout = claim.report, context.settings.device_timeout

    def work_(session: Session) -> bool:
        believed = acceptance.device(session, claim, timeout)
        if believed:
            device_reports.store(session, report, timeout, worker_id=claim.worker.id, sequence=claim.sequence)
            if report.unreadable is not None:
                unreadable.note(session, report.unreadable, report.name, context.settings.max_attempts)
        return believed

    if intake.believing(context, claim, report.name, work_) and report.log:
        context.logs.add(of_device(report.name), report.log)
