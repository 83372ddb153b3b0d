"""The static model of a design space: the space's nests, and a description of the CPU that it is for."""

from __future__ import annotations

import contextlib

from tunesmith.analysis.device import DeviceDescription, describe_cpu
from tunesmith.analysis.prior import StaticPrior, Unit
from tunesmith.messages import Calibration
from tunesmith.targets import Target
from workers.tvm_backend.design_space.nests.derive import MOST
from workers.tvm_backend.design_space.rules.machine import machine_of
from workers.tvm_backend.design_space.space import TraceSpace

GENERATED = 1.6
"""How much longer picked sketches of TVM take than Tunesmith's, for the same estimate. TVM's have hundreds of
structures, and the lowest of so many estimates is the most mistaken. Measured on convolutions of two models: TVM's took
1.36 times their estimate in the median, Tunesmith's 0.8 to 1.04 times."""


def device_of(target: Target, found: Calibration | None) -> DeviceDescription:
    """A CPU target: registers from its features, limits as they were measured, or typical ones."""
    machine = machine_of(target)
    if found is None:
        return describe_cpu(target.num_cores, machine.vector_bytes, machine.registers)
    return describe_cpu(
        target.num_cores,
        machine.vector_bytes,
        machine.registers,
        peak_flops=found.peak_flops,
        bandwidth=found.bandwidth,
        cache_sizes=tuple(found.cache_sizes),
    )


def prior_of(
    traces: TraceSpace,
    target: Target,
    found: Calibration | None,
    unit: Unit = contextlib.nullcontext,
    nests: int = MOST,
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
    handicap = dict.fromkeys(traces.generated, GENERATED)
    return StaticPrior(traces.space, traces.nests, device_of(target, found), unit, handicap)
