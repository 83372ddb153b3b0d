"""Space, cost model and scorer of a task for which something is proposed."""

from __future__ import annotations

from typing import Any

from sqlalchemy.orm import Session

from db.queries import cost_models, sketches
from db.queries.cost_models import TrainedModel
from db.queries.work_parts import RoundSubject
from tunesmith.messages import Calibration
from tunesmith.names import NO_COST_MODEL, RANKER, features_of
from tunesmith.targets import Target
from workers.core.context import Context
from workers.core.guide import shipped
from workers.core.leased import Lease
from workers.core.scoring import RankedScorer, Scorer
from workers.tvm_backend.design_space.space import SketchBody, TraceSpace
from workers.tvm_backend.design_space.static_model import prior_of
from workers.tvm_backend.warm import visible_cores

NESTS, NESTS_PER_TRIAL = 16, 8
"""How many nests the static model may make for a batch, at some 40 ms each. Few, while a device waits, and for each
candidate where trials are what there is too little of."""
NESTS_IN_HASTE = 2
"""For each candidate where time is: batches are small while many tasks wait for their first one."""

GPU_THREADS = 8
"""Most threads that replay candidates of a GPU."""


def space_of(context: Context, subject: RoundSubject) -> TraceSpace:
    """The design space of a subject's task; the process keeps those that it used last."""
    key, target = (subject.workload, subject.target.hash, subject.sketches), subject.target
    if key not in context.spaces:
        with context.readers() as session:
            stored = sketches.get(session, subject.sketches)
        bodies = [SketchBody.from_json(stored[sketch]) for sketch in subject.sketches]
        with context.lease.shared():
            module = context.blobs.get_bytes(subject.module_blob)
            context.spaces[key] = TraceSpace(module, target, bodies, threads_for(target), context.nest_forms)
    space: TraceSpace = context.spaces[key]
    return space


def threads_for(target: Target) -> int:
    """How many threads replay a task's candidates.

    Few of a GPU's random points are valid, and its device waits for them while cores are idle. Most of a CPU's points
    are valid, and its cores are the device.
    """
    return 1 if target.kind == "llvm" else min(GPU_THREADS, visible_cores())


def cost_model_of(session: Session, subject: RoundSubject) -> TrainedModel | None:
    """The job's newest model; before it has one, with warm start, another job's for the same target."""
    kind = subject.options.cost_model
    if kind == NO_COST_MODEL:
        return None
    own = cost_models.latest(session, subject.job_id)
    if own is not None and own.features == features_of(
        kind
    ):  # an update in the middle of a job may have brought other ones
        return own
    if not subject.options.warm_start:
        return None
    options = {"space": subject.options.space, "precision": subject.options.precision}
    return cost_models.latest_elsewhere(
        session, subject.target_hash, kind, features_of(kind), subject.job_id, **options
    )


def scorer_of(
    context: Context,
    lease: Lease,
    subject: RoundSubject,
    space: TraceSpace,
    model: TrainedModel | None,
    calibration: dict[str, Any] | None,
) -> Scorer:
    """With the cost model, where there is one, and the static model of the device class.

    Args:
        calibration: that of a device of the class, as JSON; None: typical limits.
    """

    trained = context.trained(model) if model else None
    limits = Calibration.model_validate(calibration) if calibration else None
    prior = prior_of(space, subject.target, limits, lease.unit, _nests(subject.size, subject.timed))
    options = subject.options
    if options.cost_model == RANKER and prior is not None:
        about = (subject.family, options.precision)
        return RankedScorer(space, trained, context.lease, lease.check, prior, *about, lease.unit)
    guide = None
    if prior is not None and options.warm_start:
        guide = shipped(prior, subject.family, options.precision, subject.target, lease.unit)
    return Scorer(space, trained, context.lease, lease.check, prior, guide)


def _nests(size: int, timed: bool) -> int:
    """Most nests for a batch of ``size``, in a job that is ``timed`` or one of few trials."""
    return min(NESTS, NESTS_IN_HASTE * size) if timed else max(NESTS, NESTS_PER_TRIAL * size)
