"""Say which candidates that were proposed from outside are valid, and what is expected of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from db.models import ProposalSet
from db.queries import devices, proposals, tasks, work_parts
from db.transactions.proposals import Verdict, judge
from tunesmith.messages import JudgeProposals
from tunesmith.types import Candidate
from workers.core.context import Context
from workers.core.leased import Lease, run_leased
from workers.core.scoring import Scorer
from workers.core.subjects import cost_model_of, scorer_of, space_of
from workers.tvm_backend.design_space.space import TraceSpace
from workers.tvm_backend.warm import warm

HOPELESS = "the static model expects it to be far slower than others"


def judge_proposals(context: Context, message: JudgeProposals) -> bool:
    """The task ``tunesmith.judge_proposals``."""

    def work(lease: Lease) -> None:
        with context.readers() as session:
            rows = proposals.of_set(session, message.set_id)
            given = [Candidate.from_json([row.sketch_hash, row.decisions]) for row in rows]
            subject = work_parts.of_proposals(session, message.set_id, len(given))
            earlier = proposals.earlier(session, subject.task_id, set(subject.sketches), message.set_id)
            earlier.update(dict.fromkeys(tasks.pending(session, subject.task_id), "a candidate that is being measured"))
            model, calibration = cost_model_of(session, subject), devices.calibration(session, subject.device_class)
        warm(subject.target.kind)
        space = space_of(context, subject)
        scorer = scorer_of(context, lease, subject, space, model, calibration)
        verdicts = _verdicts(space, scorer, given, earlier)
        context.write(lambda session: judge(session, lease.hold(session), verdicts))

    timeout = context.settings.work_timeout
    return run_leased(context, ProposalSet, message.set_id, message.attempt, timeout, work)


def _verdicts(
    space: TraceSpace,
    scorer: Scorer,
    given: Sequence[Candidate],
    earlier: Mapping[Candidate, str],
) -> list[Verdict]:
    """A verdict on each candidate, in their order.

    Args:
        earlier: what the task had already, and what each of that is in words.
    """
    found = scorer(space.space.batch(given))
    estimates = np.full(len(given), np.nan)
    if scorer.guide is not None and found.valid.any():
        estimates[found.valid] = scorer.guide(found.batch.take(found.valid))
    canonical = iter(space.space.candidates(found.batch.take(found.valid)))
    had = dict(earlier)
    verdicts = []
    for index, candidate in enumerate(given):
        if not found.valid[index]:
            verdicts.append(Verdict(None, space.why_invalid(candidate)))
            continue
        taken = next(canonical)
        if taken in had:
            verdicts.append(Verdict(None, f"it makes the same program as {had[taken]}"))
            continue
        had[taken] = f"candidate {index} of the same request"
        score = float(found.mean[index]) if scorer.model is not None else None
        verdicts.append(Verdict(taken, _remark(candidate, taken, estimates[index]), _plain(estimates[index]), score))
    return verdicts


def _remark(given: Candidate, taken: Candidate, estimate: float) -> str | None:
    """What is odd about a valid candidate."""
    said = []
    if given != taken:
        said.append("a compute location that no loop has became the nearest one")
    if math.isinf(estimate):
        said.append(HOPELESS)
    return "; ".join(said) or None


def _plain(estimate: float) -> float | None:
    return float(estimate) if math.isfinite(estimate) else None
