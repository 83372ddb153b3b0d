"""How far TVM's sketches may fuse axes into one vector.

MetaSchedule fuses a block's innermost loops up to 64 steps and makes one vector of them. Where the innermost axis holds
whole registers already, as in blocked layouts, that takes in axes along which an operand repeats or jumps (a bias, a
stride): each of the 64 lanes is then loaded by itself, at an address that a division finds. Such kernels are slow, and
LLVM has been seen to take more than a minute over one that takes a third of a second without the fusing.
"""

from __future__ import annotations

from typing import Any

import tvm

from tunesmith.targets import Target
from tunesmith.types import TensorSpec
from workers.tvm_backend.design_space.rules.machine import cpu_model_of

VECTORIZE = "meta_schedule.vectorize"
CPU = "llvm"


def widest(output: TensorSpec, target: Target) -> int | None:
    """Steps of the innermost axis of a CPU's kernel where they fill registers of its vectors; else None."""
    if target.kind != CPU or not output.shape:
        return None
    lanes = cpu_model_of(target).lanes(int(tvm.DataType(output.dtype).itemsize))
    return output.shape[-1] if output.shape[-1] % lanes == 0 else None


def limited(instructions: Any, widest: int | None) -> Any:
    """Instructions of a trace, as JSON, that fuse no more than ``widest`` steps into a vector."""
    if widest is None:
        return instructions
    return [_limited(each, widest) for each in instructions]


def _limited(instruction: Any, widest: int) -> Any:
    kind, inputs, attributes, outputs = instruction
    if kind != "Annotate" or attributes != [VECTORIZE]:
        return instruction
    block, steps = inputs
    return [kind, [block, min(steps, widest)], attributes, outputs]
