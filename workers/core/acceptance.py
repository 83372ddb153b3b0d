"""Holds reports against what the database knows of the work, the device and the candidates."""

from __future__ import annotations

from typing import Any

from sqlalchemy.orm import Session

from db import clock
from db.models import Batch, Device, EnrolledWorker, Evaluation, Job, WorkloadRow
from db.queries import by_key, devices, sketches, work_parts
from db.queries import tasks as task_rows
from tunesmith.dataset.judge import arguments_of
from tunesmith.measuring import claims
from tunesmith.measuring.claims import ModelWork, Reason, Refused, Work
from tunesmith.measuring.plausibility import fastest_device, peak_ratio
from tunesmith.messages import BatchReport, Calibration, DeviceReport, EvaluationReport, WireResult
from tunesmith.types import Candidate, TensorSpec
from workers.core.intake import Claim


def batch(session: Session, row: Batch, claim: Claim[BatchReport]) -> list[WireResult]:
    """The results of a batch that may be stored, with their verdicts reached anew.

    Raises:
        Refused: the report claims what cannot be.
    """
    report, calibration = claim.report, _calibration(session, row, claim)
    if not report.results:
        claims.storable(report.environment, "environment")
        return []
    candidates = [Candidate.from_json(value) for value in row.candidates]
    workload = work_parts.workload_of(session, row)
    kind, cores = _target(session, row)
    precision = by_key.existing(session, Job, row.job_id).precision
    work = Work(
        candidates=candidates,
        flops=workload.flops,
        args=arguments(workload, precision),
        skeletons=_skeletons(session, candidates, report),
        kind=kind,
        cores=cores,
        calibration=calibration,
    )
    return claims.results(report, work)


def defaults(session: Session, row: Batch, claim: Claim[BatchReport]) -> None:
    """Refuse rough latencies that cannot be true, or of workloads that are not the job's.

    Raises:
        Refused: one of them is such.
    """
    calibration = _calibration(session, row, claim)
    kind, cores = _target(session, row)
    workloads = task_rows.workloads(session, row.job_id, [item.workload for item in claim.report.defaults])
    precision = by_key.existing(session, Job, row.job_id).precision
    work = {
        each.hash: Work((), each.flops, arguments(each, precision), {}, kind, cores, calibration) for each in workloads
    }
    claims.check_defaults(claim.report, work)


def evaluation(session: Session, row: Evaluation, claim: Claim[EvaluationReport]) -> None:
    """Refuse an evaluation that cannot be true.

    Raises:
        Refused: it claims what cannot be.
    """
    calibration = _calibration(session, row, claim)
    kind, cores = _target(session, row)
    tasks = task_rows.evaluated(session, row.job_id)
    # Where one task may replace another, neither need have run.
    optional = {task.alternative_of for task in tasks if task.alternative_of is not None}
    sure = [t for t in tasks if t.alternative_of is None and t.workload_hash not in optional]
    precision, limit = by_key.existing(session, Job, row.job_id).precision, calibration or fastest_device(kind, cores)
    known = {each.hash: each for each in task_rows.workloads(session, row.job_id, [t.workload_hash for t in sure])}
    flops = sum(
        task.weight * task.flops / peak_ratio(arguments(known[task.workload_hash], precision), limit) for task in sure
    )
    claims.check_evaluation(claim.report, ModelWork(flops, len(tasks), kind, cores, calibration))


def device(session: Session, claim: Claim[DeviceReport], timeout: float) -> bool:
    """False for a heartbeat that is older than the last one, or the same: it says nothing.

    Args:
        timeout: seconds after which a device that is silent may be another worker's.

    Raises:
        Refused: it claims what cannot be, or describes the device of another worker.
    """
    report = claim.report
    known = by_key.get(session, Device, report.name)
    for name in report.device_classes:
        _serves(claim, name)
    if known is not None and known.worker_id is not None and known.worker_id != claim.worker.id:
        owner = by_key.get(session, EnrolledWorker, known.worker_id)
        if owner is not None and owner.revoked_at is None and devices.is_live(known, timeout, clock.now(session)):
            raise Refused(Reason.DEVICE, f"{report.name} is the device of worker {known.worker_id}")
        known = None  # what that worker found of it counts no longer
    if known is not None and claim.sequence <= known.sequence:
        return False
    claims.check_device(report, devices.first_calibration(known, report.calibrated))
    return True


def _calibration(
    session: Session, row: Batch | Evaluation, claim: Claim[BatchReport] | Claim[EvaluationReport]
) -> Calibration | None:
    """The calibration of the reporting worker's device; None where that device is unknown or was never calibrated.

    Raises:
        Refused: the device has another class or kind than the report is about.
    """
    report = claim.report
    _serves(claim, row.device_class)
    found = devices.of_worker(session, claim.worker.id, report.worker)
    if found is None:
        return None
    if row.device_class not in found.device_classes:
        raise Refused(Reason.DEVICE, f"{report.worker} serves no {row.device_class}")
    if bool(report.environment.get("simulated")) != found.simulated:
        raise Refused(Reason.DEVICE, f"{found.name} is {'' if found.simulated else 'not '}simulated")
    return devices.calibration_of(found, row.device_class)


def _serves(claim: Claim[Any], device_class: str) -> None:
    allowed = claim.worker.device_classes
    if allowed and device_class not in allowed:
        raise Refused(Reason.DEVICE, f"worker {claim.worker.name} was enrolled for other classes than {device_class}")


def arguments(workload: WorkloadRow, precision: str) -> list[TensorSpec]:
    """A workload's arguments in a job of a precision."""
    return arguments_of(workload.family, workload.args, precision)


def _target(session: Session, row: Batch | Evaluation) -> tuple[str, int]:
    target = work_parts.target_of(session, by_key.existing(session, Job, row.job_id)).json
    return str(target.get("kind", "")), int(target.get("num-cores") or 1)


def _skeletons(session: Session, candidates: list[Candidate], report: BatchReport) -> dict[str, Any]:
    """Instructions of the sketches of the candidates that have a trace."""
    traced = {result.index for result in report.results if result.trace is not None}
    used = {candidates[i].sketch for i in traced if 0 <= i < len(candidates)}
    bodies = sketches.get(session, sorted(sketch for sketch in used if sketch is not None))
    return {key: body["trace"] for key, body in bodies.items() if "trace" in body}
