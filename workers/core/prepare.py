"""Prepare a job: settle its target and generate the design spaces of its tasks."""

from __future__ import annotations

import json
from collections.abc import Sequence

import structlog
from sqlalchemy.orm import Session

from db.models import Job, ModelTask, WorkloadRow
from db.queries import by_key, devices, models
from db.transactions import job_plan
from db.transactions.job_plan import PlannedTask
from tunesmith.errors import MissingDependency, NothingToTune
from tunesmith.messages import PrepareJob
from tunesmith.names import AUTO
from tunesmith.targets import Target, choose, parse_target
from workers.core import precision
from workers.core.context import Context
from workers.core.leased import Lease, run_leased
from workers.core.unmeasured import giving_answers
from workers.tvm_backend import host
from workers.tvm_backend.design_space import space
from workers.tvm_backend.design_space.replay import together
from workers.tvm_backend.warm import warm

log = structlog.get_logger(__name__)
NOT_RENDERED = "(not rendered)"
"""What schedules that do not render errors say instead."""


def prepare_job(context: Context, message: PrepareJob) -> bool:
    """The task ``tunesmith.prepare``."""

    def work(lease: Lease) -> None:
        with context.readers() as session:
            job = by_key.existing(session, Job, message.job_id)
        target = resolve(context, job.target_spec)
        warm(target.kind)
        if job.precision == AUTO and precision.settle(context, lease, job, target):
            return  # it is prepared once its model is imported in that precision
        with context.readers() as session:
            job = by_key.existing(session, Job, message.job_id)
        if precision.fit_layout(context, lease, job, target):
            return
        with context.readers() as session:
            tasks = models.tasks(session, job.model_id)

        def prepared(each: tuple[ModelTask, WorkloadRow]) -> PlannedTask:
            lease.check()
            return plan(context, *each, target, job.space)

        with giving_answers(context, lease, job, target, tasks) as give:
            planned = together(prepared, tasks)
            if not any(task.tunable for task in planned):
                raise NothingToTune(_nothing(planned), tasks=len(planned))
            answered = give(planned)
        context.write(lambda session: _store(session, lease, target, answered))

    timeout = context.settings.ingest_timeout
    return run_leased(context, Job, message.job_id, message.attempt, timeout, work)


def resolve(context: Context, spec: str) -> Target:
    """The target; a short name becomes that of a live device of its kind, else that of this host.

    Raises:
        UnknownTarget: the spec does not parse.
        TargetUnavailable: a short name that neither a live device nor this host can serve.
    """
    parsed = parse_target(spec)
    if parsed.target is not None:
        return parsed.target
    with context.readers() as session:
        known = devices.targets_of_kind(session, context.settings.device_timeout, parsed.kind)
    if not known and parsed.kind == "llvm":
        known = [host.describe().target]
    return choose(parsed, known)


def plan(context: Context, task: ModelTask, workload: WorkloadRow, target: Target, name: str) -> PlannedTask:
    """A task with the sketches of its design space of that ``name``; without any where that cannot be opened."""
    module = context.blobs.get_bytes(workload.module_blob)
    bodies, problem = [], None
    try:
        with context.lease.shared():
            bodies = space.generate(module, target, name)
    except MissingDependency:
        raise
    except Exception as error:  # TVM's primitives and rules raise several classes, each of one task
        detail = f"the design space of {task.name!r} cannot be opened for this target: {_line(error)}"
        log.warning("task keeps its default schedule", task=task.name, workload=workload.hash, error=detail)
        problem = NothingToTune(detail).problem()
    return PlannedTask(
        workload=workload.hash,
        name=task.name,
        family=workload.family,
        weight=task.weight,
        sketches={body.hash: json.loads(body.to_json()) for body in bodies},
        tunable=space.tunable(bodies),
        alternative_of=task.alternative_of,
        problem=problem,
    )


def _line(error: Exception) -> str:
    """The last line of an error, which with TVM's is the one that says what is wrong."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines or NOT_RENDERED in lines[-1]:
        return f"TVM cannot schedule the program ({type(error).__name__})"
    return f"{type(error).__name__}: {lines[-1][:500]}"


def _nothing(planned: Sequence[PlannedTask]) -> str:
    """Why there is nothing to tune."""
    text = "no task of the model has a decision to tune for this target"
    first = next((task.problem for task in planned if task.problem is not None), None)
    return text if first is None else f"{text}; {first['detail']}"


def _store(session: Session, lease: Lease, target: Target, planned: Sequence[PlannedTask]) -> None:
    job = lease.hold(session)
    job_plan.store_target(session, target.hash, target.to_json(), target.device_class)
    job_plan.store_plan(session, job, target.hash, planned)
