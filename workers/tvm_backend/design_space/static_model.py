"""The static model of a design space: the space's nests, and a description of the CPU that it is for."""

from __future__ import annotations

import contextlib

from tunesmith.analysis.prior import StaticPrior, Unit
from tunesmith.messages import Calibration
from tunesmith.targets import Target
from workers.tvm_backend.design_space.nests.derive import MAX_NESTS
from workers.tvm_backend.design_space.rules.machine import cpu_model_of
from workers.tvm_backend.design_space.space import TraceSpace


def prior_of(
    traces: TraceSpace,
    target: Target,
    found: Calibration | None,
    unit: Unit = contextlib.nullcontext,
    nests: int = MAX_NESTS,
) -> StaticPrior | None:
    """The static model of a space; None for what is no CPU.

    Args:
        found: limits of a device of the kind; None: typical ones.
        unit: is entered for each small piece of work.
        nests: made for it at most, next to those that there are; points of others it does not know.
    """
    if target.kind != "llvm":
        return None
    traces.nests.ration(nests)
    cpu = cpu_model_of(target, found)
    handicap = dict.fromkeys(traces.generated, cpu.generated_penalty)
    return StaticPrior(traces.space, traces.nests, cpu, unit, handicap, traces.samples)
