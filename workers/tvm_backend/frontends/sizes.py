"""How large what a model computes is: refused before memory is taken for it."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import tvm
from tvm import relax

from tunesmith.errors import ModelRejected
from tunesmith.model_limits import (
    MAX_ELEMENTS,
    MAX_RANK,
    MAX_TENSOR_BYTES,
    MAX_UNFOLDED_BYTES,
    MAX_UNFOLDED_TOTAL,
    WIDENING,
)

NO_TENSORS = (tvm.ir.GlobalVar, tvm.ir.StringImm, relax.ShapeExpr)
"""Operands of calls that are no tensors."""
BITS = re.compile(r"[a-z]+([0-9]+)")


def bits_of(kind: str) -> int:
    """Bits of one element of a type by its name, such as ``float32``."""
    found = BITS.match(kind)
    return int(found[1]) if found else 8


def check(what: str, shape: Sequence[int], bits: int) -> int:
    """The bytes of a tensor.

    Raises:
        ModelRejected: it is larger than any tensor may be.
    """
    elements = math.prod(shape)
    size = elements * bits // 8
    if len(shape) > MAX_RANK or elements > MAX_ELEMENTS or size > MAX_TENSOR_BYTES or min(shape, default=0) < 0:
        raise ModelRejected(
            f"{what} has the shape {list(shape)[:MAX_RANK]}; a tensor has up to {MAX_RANK} dimensions, "
            f"{MAX_ELEMENTS} elements and {MAX_TENSOR_BYTES} bytes",
            field="file",
            value=list(shape)[:MAX_RANK],
        )
    return size


class Unfolding:
    """Constants that a model computes from less, added up."""

    def __init__(self) -> None:
        self.total = 0

    def add(self, what: str, shape: Sequence[int], bits: int, source: int) -> int:
        """Add a constant that is computed; returns its bytes.

        Args:
            source: bytes of what it is computed from.

        Raises:
            ModelRejected: it unfolds to more than is accepted.
        """
        size = check(what, shape, bits)
        if size > WIDENING * source:
            self.total += size
            if size > MAX_UNFOLDED_BYTES or self.total > MAX_UNFOLDED_TOTAL:
                raise ModelRejected(
                    f"{what} is a constant of the shape {list(shape)} that unfolds from {source} bytes to {size}; one "
                    f"may unfold to {MAX_UNFOLDED_BYTES} bytes, all of them to {MAX_UNFOLDED_TOTAL}",
                    field="file",
                    value=list(shape),
                )
        return size


def check_type(what: str, found: object) -> None:
    """Check the type of what an operator makes, as far as it is known. Raises ModelRejected."""
    if isinstance(found, relax.TupleType):
        for each in found.fields:
            check_type(what, each)
    shape = _extents(found)
    if shape is not None:
        check(what, shape, bits_of(str(found.dtype)))  # type: ignore[attr-defined]


def check_module(mod: tvm.IRModule) -> None:
    """Check all values of an imported module, before its constants are folded. Raises ModelRejected."""
    for number, var in enumerate(mod["main"].params):
        check_type(f"input {number}", var.ty)
    _Sizes().visit(mod["main"].body)


def _extents(found: object) -> list[int] | None:
    if not isinstance(found, relax.TensorType) or not isinstance(found.shape, relax.ShapeExpr):
        return None
    if not all(isinstance(extent, tvm.tirx.IntImm) for extent in found.shape.values):
        return None
    return [int(extent) for extent in found.shape.values]


class _Sizes:
    """Follows constants through a function."""

    def __init__(self) -> None:
        self.unfolding = Unfolding()
        self.constants: dict[relax.Var, int] = {}

    def visit(self, body: relax.Expr) -> None:
        """Check what a function or a branch binds, in order."""
        for block in body.blocks if isinstance(body, relax.SeqExpr) else ():
            for binding in block.bindings:
                self._visit_binding(binding.var, getattr(binding, "value", None))

    def _visit_binding(self, var: relax.Var, value: relax.Expr | None) -> None:
        if isinstance(value, relax.If):
            self.visit(value.true_branch)
            self.visit(value.false_branch)
        what = f"value {str(var.name)!r}"
        source = None if value is None else self._source(value)
        if source is None:
            check_type(what, var.ty)
            return
        types = var.ty.fields if isinstance(var.ty, relax.TupleType) else [var.ty]
        sizes = [
            self.unfolding.add(what, shape, bits_of(str(each.dtype)), source)
            for each in types
            if (shape := _extents(each)) is not None
        ]
        self.constants[var] = sum(sizes) if sizes else source

    def _source(self, value: relax.Expr) -> int | None:
        """Bytes of the constants that a value is made of; None where it is made of something else."""
        if isinstance(value, tvm.ir.GenericConst):
            return math.prod(map(int, value.value.shape)) * bits_of(str(value.value.dtype)) // 8
        if isinstance(value, relax.Var):
            return self.constants.get(value)
        if isinstance(value, relax.TupleGetItem):
            return self._source(value.tuple_value)
        if isinstance(value, relax.Call):
            return self._sum(value.args)
        if isinstance(value, relax.Tuple):
            return self._sum(value.fields)
        return 0 if isinstance(value, NO_TENSORS) or tvm.ir.is_prim_expr(value) else None

    def _sum(self, values: Sequence[relax.Expr]) -> int | None:
        found = [self._source(each) for each in values]
        return None if None in found else sum(each for each in found if each is not None)
