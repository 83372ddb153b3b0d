"""The model on another runtime of the same device, from a job's evaluation: how the tuned build compares with it."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace

from db.models import Evaluation, Job
from tunesmith.answers.jobs import ReferenceBody
from tunesmith.measuring.checked import NARROW_TOLERANCE
from tunesmith.measuring.ratio import Ratio, ratio
from tunesmith.messages import ReferenceTiming
from tunesmith.states import WorkState

CALL_SECONDS = 2e-5
"""A runtime is called from Python, the tuned build by TVM's own timer: so much of a latency may be the call."""
LEAST_SHARE = 0.1
"""Part of a runtime's latency that is its own at least."""


def timings(evaluation: Evaluation | None) -> list[ReferenceBody]:
    """All runtimes that were tried, the fastest first; empty before the check."""
    if evaluation is None or evaluation.state is not WorkState.DONE:
        return []
    tuned: Sequence[float] = evaluation.tuned_samples or []
    found = [ReferenceTiming.model_validate(each) for each in evaluation.references or []]
    return sorted(
        (_body(each, tuned) for each in found),
        key=lambda each: (each.seconds is None, each.seconds or 0.0, each.runtime, each.precision),
    )


def of(found: Sequence[ReferenceBody]) -> ReferenceBody | None:
    """The fastest; None where none ran."""
    return found[0] if found and found[0].seconds is not None else None


def why_none(job: Job, source: str, evaluation: Evaluation | None, found: Sequence[ReferenceBody]) -> str | None:
    """The reason why a job whose check is done has no reference; None where it has one, or is not done.

    Args:
        source: the model's source.
    """
    if evaluation is None or evaluation.state is not WorkState.DONE or of(found) is not None:
        return None
    if source == "operator":
        return "an operator has no file that another runtime reads"
    if job.simulated:
        return "a simulated device runs nothing"
    reasons = dict.fromkeys(each.failure for each in found if each.failure)
    return "; ".join(reasons) or "other runtimes are timed on CPUs of a worker's own host alone"


def _ratio(samples: Sequence[float], tuned: Sequence[float]) -> Ratio:
    """How many times as fast the tuned build is; the interval allows for the call that only the runtime pays."""
    found = ratio(samples, tuned)
    bare = ratio([max(value - CALL_SECONDS, LEAST_SHARE * value) for value in samples], tuned)
    return replace(found, low=min(found.low, bare.low))


def _body(timing: ReferenceTiming, tuned: Sequence[float]) -> ReferenceBody:
    body = ReferenceBody(
        runtime=timing.runtime,
        version=timing.version,
        precision=timing.precision,
        failure=timing.failure,
        error=timing.error,
        rms=timing.rms,
        tolerance=None if timing.error is None else NARROW_TOLERANCE,
    )
    if not timing.samples or not tuned:
        return body
    found = _ratio(timing.samples, tuned)
    return body.model_copy(
        update={
            "seconds": statistics.median(timing.samples),
            "ratio": 1 / found.value,
            "interval": (1 / found.high, 1 / found.low),
            "verdict": found.verdict,
        }
    )
