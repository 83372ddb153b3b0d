"""The values of a function that is being rebuilt, each in the layouts that somebody has asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from numpy.typing import NDArray
from tvm import relax

from tunesmith.analysis.cpu_model import CpuModel
from workers.tvm_backend.passes import fold_constants
from workers.tvm_backend.passes.layout import byte_compute, compute, narrow_compute, packing, requantize
from workers.tvm_backend.passes.layout.blocks import Blocks
from workers.tvm_backend.passes.layout.compute import LANES
from workers.tvm_backend.passes.layout.expressions import Shape, map_shape, numbers, operator, shape, size
from workers.tvm_backend.passes.layout.grids import NO_GRIDS, Grid, Grids
from workers.tvm_backend.passes.layout.outlook import Outlook


@dataclass(frozen=True)
class Algorithms:
    """How convolutions and products with constant weights are computed.

    Attributes:
        winograd: by Winograd's algorithm where it fits.
        bf16: from operands that are rounded to bfloat16, summed in float32.
        int8: from bytes, summed in int32, where a model is quantised.
        widest: most channels of a block.
    """

    winograd: bool = False
    bf16: bool = False
    int8: bool = False
    widest: int = LANES


@dataclass(frozen=True)
class Codes:
    """A value on a grid as bytes.

    Attributes:
        grid: the numbers that the codes stand for, its source left out.
        plain, blocked: the codes in the value's own layout, and in blocks of channels; one of them is known.
    """

    grid: Grid
    plain: relax.Expr | None = None
    blocked: relax.Expr | None = None

    @property
    def scale(self) -> relax.Expr:
        """The grid's scale."""
        return _number(self.grid.scale)

    @property
    def zero(self) -> relax.Expr:
        """The code of zero."""
        return _number(0.0 - self.grid.low)

    def in_blocks(self, codes: relax.Expr) -> Codes:
        """Other codes of the same grid, in blocks of channels."""
        return Codes(self.grid, blocked=codes)

    def in_order(self, codes: relax.Expr) -> Codes:
        """Other codes of the same grid, in the layout of their value."""
        return Codes(self.grid, plain=codes)


@dataclass
class _Value:
    """One value.

    Attributes:
        plain: in its own layout.
        blocked: [N, ceil(C / lanes), H, W, lanes], ``Blocks`` says how many.
        reshaped: the same elements in the same order under another shape of at most four axes.
        codes: as bytes.
    """

    plain: relax.Expr | None = None
    blocked: relax.Expr | None = None
    reshaped: relax.Expr | None = None
    codes: Codes | None = None


class Values:
    """What each variable of the old function has become; conversions are emitted once, at the first use.

    Attributes:
        builder: where the new function grows.
        outlook: what follows each variable.
        algorithms: how convolutions and products are computed.
        packed: constants in other shapes.
        cpu: CPU that the function is laid out for.
        grids: which variables of the old function are on a grid.
        blocks: how many channels are in a block.
    """

    def __init__(
        self,
        builder: relax.BlockBuilder,
        params: Iterable[relax.Var],
        outlook: Outlook,
        algorithms: Algorithms,
        packed: packing.Packed,
        cpu: CpuModel,
        grids: Grids = NO_GRIDS,
        blocks: Blocks = Blocks(),
    ) -> None:
        self.builder, self.outlook, self.algorithms, self.packed, self.cpu = builder, outlook, algorithms, packed, cpu
        self.grids, self.blocks = grids, blocks
        self._values: dict[relax.Var, _Value] = {param: _Value(plain=param) for param in params}
        self._tuples: dict[relax.Var, relax.Tuple] = {}
        self._parts: dict[relax.Var, list[relax.Expr]] = {}
        self._rounded: dict[relax.Var, relax.Var] = {}

    def bind(self, var: relax.Var, result: relax.Expr) -> None:
        """Emit ``result`` for ``var``. Where its shape is another than the variable's, it is another layout of it."""
        done = self.builder.emit(result, name_hint=str(var.name))
        dims = shape(done)
        if dims == shape(var):
            self._values[var] = _Value(plain=done)
        else:
            self._values[var] = _Value(blocked=done) if dims is not None and len(dims) == 5 else _Value(reshaped=done)

    def bind_codes(self, var: relax.Var, codes: Codes) -> None:
        """``var`` is known as codes."""
        self._values[var] = _Value(codes=codes)

    def bind_same(self, var: relax.Var, other: relax.Var) -> None:
        """``var`` is another name of ``other``."""
        if other in self._tuples:
            self._tuples[var] = self._tuples[other]
        else:
            self._values[var] = self._values[other]
            self._parts[var] = self._parts.get(other, [])

    def bind_tuple(self, var: relax.Var, fields: relax.Tuple) -> None:
        """Remember a tuple; it is emitted when it is asked for as a whole."""
        self._tuples[var] = fields

    def parts(self, expr: relax.Expr) -> list[relax.Expr]:
        """What a feature map is put together from, each in blocks; the map itself where that is not known."""
        known = self._parts.get(expr) if isinstance(expr, relax.Var) else None
        return known or [self.blocked(expr)]

    def bind_parts(self, var: relax.Var, parts: list[relax.Expr]) -> None:
        """Remember what ``var`` is put together from."""
        self._parts[var] = parts

    def fields(self, expr: relax.Expr) -> list[relax.Expr] | None:
        """The old function's expressions in a tuple; None when they are not known."""
        found = self._tuples.get(expr) if isinstance(expr, relax.Var) else expr
        return list(found.fields) if isinstance(found, relax.Tuple) else None

    def is_blocked(self, expr: relax.Expr) -> bool:
        """Whether there is a blocked layout of it already."""
        value = self._known(expr)
        return value is not None and (value.blocked is not None or _has(value.codes, "blocked"))

    def is_plain(self, expr: relax.Expr) -> bool:
        """Whether there is a plain layout of it already, or one that a reshape makes plain."""
        value = self._known(expr)
        return value is None or not (value.plain is value.reshaped is None) or _has(value.codes, "plain")

    def better_blocked(self, var: relax.Var, operands: Iterable[relax.Expr]) -> bool:
        """Whether ``var``, an operator on these, converts no more in blocked than in plain layout; some are blocked."""
        some = [each for each in operands if isinstance(each, relax.Var)]
        blocked = sum(size(each) for each in some if not self.is_blocked(each)) + self.outlook.leaving(var)
        plain = sum(size(each) for each in some if not self.is_plain(each))
        return any(self.is_blocked(each) for each in some) and blocked <= plain

    def plain(self, expr: relax.Expr) -> relax.Expr:
        """``expr`` of the old function in the new one, as it was laid out."""
        if isinstance(expr, relax.Tuple):
            return relax.Tuple([self.plain(field) for field in expr.fields])
        if not isinstance(expr, relax.Var):
            return expr
        if expr in self._tuples and expr not in self._values:
            self._values[expr] = _Value(plain=self.builder.emit(self.plain(self._tuples[expr])))
        value = self._known(expr)
        if value is None:
            return expr
        if value.codes is not None:  # anew for each reader, whose kernel decodes them
            return self.emit(byte_compute.from_codes, self.plain_codes(expr), value.codes.scale, value.codes.zero)
        if value.plain is None:
            dims = shape(expr)
            assert dims is not None
            value.plain = (
                self.builder.emit(relax.op.reshape(value.reshaped, dims))
                if value.blocked is None
                else self.unblocked(value.blocked, (dims[0], dims[1], dims[2], dims[3]))
            )
        return value.plain

    def blocked(self, expr: relax.Expr) -> relax.Expr:
        """A feature map of the old function in blocks of channels."""
        if isinstance(expr, tvm.ir.GenericConst):
            return self.blocked_constant(fold_constants.constant_array(expr))
        value, dims = self._values[expr], map_shape(expr)
        assert dims is not None
        if value.codes is not None:
            return self.emit(byte_compute.from_codes, self.blocked_codes(expr), value.codes.scale, value.codes.zero)
        if value.blocked is None:
            if _is_vector(dims):
                value.blocked = self.in_shape(expr, self._one_pixel(dims))
            else:
                value.blocked = self.emit(compute.to_blocked, self.plain(expr), self.blocks.lanes(dims[1]))
        return value.blocked

    def blocked_constant(self, array: NDArray[Any], fill: float = 0.0) -> tvm.ir.GenericConst:
        """A constant map in blocks of channels; those beyond its own are ``fill``."""
        return fold_constants.to_constant(packing.feature_map(array, self.blocks.lanes(array.shape[1]), fill))

    def _one_pixel(self, dims: Shape) -> tuple[int, ...]:
        lanes = self.blocks.lanes(dims[1])
        return dims[0], dims[1] // lanes, 1, 1, lanes

    def is_reshaped(self, expr: relax.Expr) -> bool:
        """Whether there is nothing but another shape of it."""
        value = self._known(expr)
        return value is not None and value.reshaped is not None and value.plain is None

    def reshaped(self, expr: relax.Var) -> relax.Expr:
        """``expr`` in the shape that there is, its own where there is a choice."""
        value = self._known(expr)
        return value.reshaped if value is not None and self.is_reshaped(expr) else self.plain(expr)

    def in_shape(self, expr: relax.Var, dims: tuple[int, ...]) -> relax.Expr:
        """``expr`` in the shape ``dims``, of as many elements."""
        value, found = self._known(expr), None
        if value is not None and value.plain is None and _is_vector(map_shape(expr)):
            found = value.blocked
        found = self.reshaped(expr) if found is None else found
        return found if shape(found) == dims else self.viewed(found, dims)

    def viewed(self, expr: relax.Expr, dims: tuple[int, ...]) -> relax.Var:
        """An expression of the new function in another shape."""
        return self.builder.emit(relax.op.reshape(self._unshaped(expr), dims))

    def in_dims(self, expr: relax.Expr, dims: tuple[int, ...]) -> relax.Expr:
        """An expression of the new function, of any type, in the shape ``dims``."""
        return expr if numbers(expr.ty.shape.values) == dims else self.viewed(expr, dims)

    def _unshaped(self, expr: relax.Expr) -> relax.Expr:
        """What ``expr`` is another shape of: two reshapes in a row would be a copy, one is a view."""
        value = fold_constants.value_of(self.builder, expr)
        if operator(value) == "relax.reshape":
            return self._unshaped(value.args[0])
        return expr if value is expr or not isinstance(value, relax.Var) else self._unshaped(value)

    def unblocked(self, blocked: relax.Expr, dims: Shape) -> relax.Expr:
        """A blocked expression of the new function as [N, C, H, W]."""
        if _is_vector(dims):
            return self.viewed(blocked, dims)
        return self.emit(compute.to_plain, blocked, dims[1])

    def codes(self, expr: relax.Expr) -> Codes | None:
        """A value of the old function as bytes; None where it is on no grid that has codes."""
        value, grid = self._known(expr), self.grids.get(expr)
        if value is None or grid is None or not grid.fits:
            return None
        if value.codes is None:
            return self.encode(expr, grid, 1 / grid.scale)
        return value.codes

    def encode(self, expr: relax.Expr, grid: Grid, inverse: float) -> Codes:
        """A value of the old function as codes, in blocks where it is in blocks.

        Args:
            inverse: one over the scale, as the model has it.
        """
        kept, blocked, dims = Codes(grid.numbers), self.is_blocked(expr), map_shape(expr)
        as_made = dims is not None and not blocked and isinstance(expr, relax.Var)
        value = self.blocked(expr) if blocked else self.reshaped(expr) if as_made else self.plain(expr)
        sums = requantize.sums_of(self.builder, value, kept.grid, inverse) if self.outlook.used_once(expr) else None
        made = (
            self.emit(byte_compute.to_codes, value, _number(inverse), kept.zero, grid.top)
            if sums is None
            else self.emit(byte_compute.requantized, *sums.operands, kept.zero, grid.top)
        )
        if blocked:
            return kept.in_blocks(made)
        return kept.in_order(made if dims is None else self.in_dims(made, dims))

    def plain_codes(self, expr: relax.Expr) -> relax.Expr:
        """The codes of a value that has them, in its own layout."""
        codes, dims = self.codes(expr), map_shape(expr)
        assert codes is not None
        if codes.plain is not None:
            return codes.plain
        assert dims is not None
        return self.unblocked(codes.blocked, dims)

    def blocked_codes(self, expr: relax.Expr) -> relax.Expr:
        """The codes of a feature map that has them, in blocks of channels."""
        codes, dims = self.codes(expr), map_shape(expr)
        assert codes is not None
        assert dims is not None
        if codes.blocked is not None:
            return codes.blocked
        if _is_vector(dims):
            return self.viewed(codes.plain, self._one_pixel(dims))
        return self.emit(compute.to_blocked, codes.plain, self.blocks.lanes(dims[1]))

    def rounded(self, value: relax.Var) -> relax.Var:
        """A variable of the new function as the bits of bfloat16."""
        if value not in self._rounded:
            self._rounded[value] = self.builder.emit(narrow_compute.round_to_bf16(self.builder, value))
        return self._rounded[value]

    def call(self, function: Callable[..., Any], *args: Any) -> relax.Call:
        """A call of a tensor expression, which names the function."""
        return self.builder.call_te(function, *args, primfunc_name_hint=function.__name__)

    def call_product(self, function: Callable[..., Any], *args: Any) -> relax.Call:
        """The same of a product, behind which element by element operators are fused whatever its types are."""
        attrs = {narrow_compute.PATTERN: narrow_compute.OUT_ELEMENTWISE}
        return self.builder.call_te(function, *args, primfunc_name_hint=function.__name__, primfunc_attrs=attrs)

    def emit(self, function: Callable[..., Any], *args: Any) -> relax.Var:
        """Emit a call of a tensor expression."""
        return self.builder.emit(self.call(function, *args))

    def emit_product(self, function: Callable[..., Any], *args: Any) -> relax.Var:
        """Emit a call of a product."""
        return self.builder.emit(self.call_product(function, *args))

    def _known(self, expr: relax.Expr) -> _Value | None:
        return self._values.get(expr) if isinstance(expr, relax.Var) else None


def _is_vector(dims: Shape | None) -> bool:
    """Whether the elements of a map have the same order in both layouts: one pixel, whose channels fill blocks."""
    return dims is not None and dims[1] % LANES == 0 and dims[2:] == (1, 1)


def _has(codes: Codes | None, layout: str) -> bool:
    return codes is not None and getattr(codes, layout) is not None


def _number(value: float) -> relax.Expr:
    return relax.const(np.float32(value), "float32")
