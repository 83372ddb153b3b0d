"""Sums of codes that become codes again: their scale, what is added to each channel, and the new scale in one step.

A quantised model keeps its biases in whole steps of the sums (Jacob et al., "Quantization and Training of Neural
Networks…", 2018, section 2.4): they are added to what the code of zero adds. Both scales are one factor.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from numpy.typing import NDArray
from tvm import relax

from workers.tvm_backend.passes import fold_constants
from workers.tvm_backend.passes.layout import byte_compute
from workers.tvm_backend.passes.layout.expressions import operator
from workers.tvm_backend.passes.layout.grids import Grid

Array = NDArray[Any]
LARGEST_ADDED = 2.0**30
"""Steps that may be added to a sum: what is added to one in int32 stays below it, as the sum itself does."""
CLOSE = 1 / 128
"""How far from what a model adds whole steps may be, in codes."""
HALF = 0.49
"""A bound is within half a step of the lowest or highest code, where rounding makes that code of it."""


@dataclass(frozen=True)
class Sums:
    """Sums, and what makes codes of them.

    Attributes:
        sums: whole numbers.
        zeros: what is subtracted from them; its shape broadcasts.
        factors: a step of theirs in steps of the codes, float32; its shape broadcasts.
    """

    sums: relax.Expr
    zeros: Array
    factors: Array

    @property
    def operands(self) -> tuple[relax.Expr, relax.Expr, relax.Expr]:
        """The first arguments of ``byte_compute.requantized``."""
        return self.sums, fold_constants.to_constant(self.zeros), fold_constants.to_constant(self.factors)


def sums_of(builder: relax.BlockBuilder, value: relax.Expr, grid: Grid, inverse: float) -> Sums | None:
    """The sums that ``value``, which is quantised next, is made of; None where it is made otherwise.

    Args:
        value: scaled sums, constants added to them, within bounds that the codes have; of the function that grows.
        grid: what it is rounded to.
        inverse: one over the grid's scale.
    """
    bound = _bound(builder, value)
    while _is_within(bound, grid):
        bound = _bound(builder, bound.args[0])
    added: Array = np.zeros((), np.float64)
    while operator(bound) == "relax.add" and isinstance(bound.args[1], tvm.ir.GenericConst):
        added = added + fold_constants.constant_array(bound.args[1])
        bound = _bound(builder, bound.args[0])
    if not _is_scaled(bound):
        return None
    sums, *constants = bound.args[1].fields
    if not all(isinstance(each, tvm.ir.GenericConst) for each in constants):
        return None
    zeros, steps = map(fold_constants.constant_array, constants)
    return _folded(sums, zeros, steps.astype(np.float64), added, inverse)


def _folded(sums: relax.Expr, zeros: Array, steps: Array, added: Array, inverse: float) -> Sums | None:
    factors = steps * inverse
    shape = np.broadcast_shapes(added.shape, steps.shape)
    if math.prod(shape) != steps.size:
        return None
    added = np.broadcast_to(added, shape).reshape(steps.shape)
    # Lanes beyond the channels have steps of zero, and nothing is added to them.
    exact = np.divide(added, steps, out=np.where(added == 0, 0.0, np.inf), where=steps > 0)
    if not (np.abs(exact) < LARGEST_ADDED).all():
        return None
    whole = np.rint(exact)
    if (np.abs(whole - exact) * factors > CLOSE).any():
        return None
    return Sums(sums, (zeros - whole).astype(zeros.dtype), factors.astype(np.float32))


def _bound(builder: relax.BlockBuilder, expr: relax.Expr) -> relax.Expr:
    """What a variable is bound to, seen through other names of it."""
    value = fold_constants.value_of(builder, expr)
    return value if value is expr or not isinstance(value, relax.Var) else _bound(builder, value)


def _is_within(value: relax.Expr, grid: Grid) -> bool:
    """Whether it keeps a value within bounds that the codes of a grid have anyway."""
    if operator(value) == "relax.nn.relu":
        return grid.low == 0
    if operator(value) != "relax.clip":
        return False
    low, high = (float(getattr(each, "value", each)) / grid.scale for each in value.args[1:3])
    return low < grid.low + HALF and high > grid.high - HALF


def _is_scaled(value: relax.Expr) -> bool:
    """Whether it calls ``byte_compute.scaled``; functions of one name are numbered."""
    if operator(value) != "relax.call_tir":
        return False
    return str(value.args[0].name_hint).rstrip("0123456789") == byte_compute.scaled.__name__
