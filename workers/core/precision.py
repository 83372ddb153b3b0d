"""Which precision a job gets that asked for ``auto``: the fastest one whose outputs stay close to float32's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy.orm import Session

from db.models import Job, Model
from db.queries import by_key
from db.transactions import job_plan
from tunesmith.arithmetic import NARROW
from tunesmith.errors import ModelRejected
from tunesmith.names import FLOAT32, TVM_SPACE
from tunesmith.options import JobOptions
from tunesmith.preparation import Preparation, for_target
from tunesmith.targets import Target
from workers.core import ingest
from workers.core.claims import PrecisionClaim
from workers.core.context import Context
from workers.core.leased import Lease
from workers.tvm_backend.design_space.rules.machine import cpu_model_of

FASTEST_FIRST = sorted(NARROW, key=lambda precision: -NARROW[precision].speed)


@dataclass(frozen=True)
class Choice:
    """A precision, and why it was chosen."""

    precision: str
    reason: str


def settle(context: Context, lease: Lease, job: Job, target: Target) -> bool:
    """Choose a job's precision and store it; True where the job waits for its model in that now."""
    choice = _chosen(context, job, target)
    preparation = for_target(target.kind, False, _in(job.options, choice.precision), target.tiled)

    def store(session: Session) -> bool:
        return job_plan.choose_precision(session, lease.hold(session), choice.precision, choice.reason, preparation)

    return context.write(store)


def fit_layout(context: Context, lease: Lease, job: Job, target: Target) -> bool:
    """Let a job have the layout that suits its target; True where it waits for its model in that now.

    When a job is submitted, nobody knows which device ``cpu`` will be.
    """
    if job.precision not in NARROW:
        return False
    with context.readers() as session:
        model = by_key.existing(session, Model, job.model_id)
        known = Preparation.parse(model.preparation)
    wanted = replace(known, tiles=job.precision in target.tiled)
    if wanted == known:
        return False
    return context.write(lambda session: job_plan.prepare_as(session, lease.hold(session), wanted))


def _in(options: JobOptions, precision: str) -> JobOptions:
    return options.model_copy(update={"precision": precision})


def _chosen(context: Context, job: Job, target: Target) -> Choice:
    missing = unavailable(job.space, target)
    wanted = [precision for precision in FASTEST_FIRST if precision not in missing]
    tried: Sequence[PrecisionClaim] = ()
    if wanted:
        with context.readers() as session:
            upload = ingest.upload(context, by_key.existing(session, Model, job.model_id))
        preparations = [
            for_target(target.kind, False, _in(job.options, precision), target.tiled) for precision in wanted
        ]
        try:
            tried = context.importing.try_precisions(upload, preparations, job.tolerance)
        except ModelRejected as error:  # float32 is left, in which the model was imported
            missing |= dict.fromkeys(wanted, error.detail)
    return choose(tried, missing, job.tolerance)


def unavailable(space: str, target: Target) -> dict[str, str]:
    """Why precisions cannot be had, by precision."""
    if target.kind != "llvm":
        return dict.fromkeys(FASTEST_FIRST, f"targets of kind {target.kind} have no kernels for it")
    if space == TVM_SPACE:
        return dict.fromkeys(FASTEST_FIRST, f"the space {space} has no kernels for it")
    cpu = cpu_model_of(target)
    return {
        precision: "the target has no instruction for it"
        for precision in FASTEST_FIRST
        if not cpu.multiplies(precision)
    }


def choose(tried: Sequence[PrecisionClaim], missing: Mapping[str, str], tolerance: float) -> Choice:
    """The first precision within the tolerance, else float32.

    Args:
        tried: what was found of precisions, the fastest first.
        missing: why others were not tried.
    """
    good = [each.precision for each in tried if each.rms is not None and each.rms <= tolerance]
    chosen = good[0] if good else FLOAT32
    said: dict[str, str] = {each.precision: _said(each, tolerance) for each in tried}
    said.update(missing)
    known = [precision for precision in (chosen, *FASTEST_FIRST) if precision in said]
    details = "; ".join(f"{precision}: {said[precision]}" for precision in dict.fromkeys(known))
    return Choice(chosen, f"auto chose {chosen} ({details})"[: job_plan.MOST_REASON])


def _said(found: PrecisionClaim, tolerance: float) -> str:
    if found.rms is None:
        return found.why
    return f"rms {100 * found.rms:.2g} % of float32's outputs, {100 * tolerance:g} % allowed"
