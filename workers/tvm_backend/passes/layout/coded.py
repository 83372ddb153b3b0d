"""Values that are on a grid: products of bytes, and what hands codes on.

A value that a model quantises becomes codes where it is rounded. Products of codes with weights on a grid are sums of
whole numbers, exact; scales, and what the code of zero adds, are folded for each channel. Max pools, concatenations and
changes of shape move codes. All other operators read and write float32, which their kernels make of codes, and into.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from tvm import relax

from workers.tvm_backend.dot.codes import CODES, WEIGHTS
from workers.tvm_backend.dot.intrinsics import GROUPS
from workers.tvm_backend.passes import fold_constants
from workers.tvm_backend.passes.layout import byte_compute, compute, grids, operators, packing, row_words
from workers.tvm_backend.passes.layout.blocks import computed_blocks
from workers.tvm_backend.passes.layout.compute import LANES
from workers.tvm_backend.passes.layout.conv_problem import Convolution
from workers.tvm_backend.passes.layout.expressions import map_shape, operator, shape
from workers.tvm_backend.passes.layout.grids import Grid, Shifted
from workers.tvm_backend.passes.layout.values import Codes, Values

QUAD = GROUPS[WEIGHTS]
"""Codes in a 32-bit lane."""
LARGEST_SUM = 2**30
"""Sums of int32 stay below it, and below twice as much with what is added to them."""


def carried(values: Values, var: relax.Var, value: relax.Expr) -> Codes | None:
    """The codes of ``var`` where it is rounded to a grid, or moves codes; None for anything else."""
    grid = values.grids.get(var)
    if grid is None or not grid.fits or shape(var) is None:
        return None
    if grid.rounded_here:
        return _rounded(values, var, grid)
    move = MOVES.get(operator(value))
    return None if move is None else move(values, var, value)


def _rounded(values: Values, var: relax.Var, grid: Grid) -> Codes | None:
    source = grid.source
    if not isinstance(source, relax.Var) or shape(source) != shape(var):
        return None
    before = values.grids.get(source)
    if before is not None and before.numbers == grid.numbers and abs(grid.inverse * grid.scale - 1) < grids.CLOSE:
        return values.codes(source)  # it has been rounded so
    return values.encode(source, grid, grid.inverse)


def _reshape(values: Values, var: relax.Var, call: relax.Call) -> Codes | None:
    codes = values.codes(call.args[0])
    if codes is None:
        return None
    return codes.in_order(values.viewed(values.plain_codes(call.args[0]), shape(var) or ()))


def _permute(values: Values, var: relax.Var, call: relax.Call) -> Codes | None:
    codes = values.codes(call.args[0])
    if codes is None:
        return None
    moved = relax.op.permute_dims(values.plain_codes(call.args[0]), call.attrs.axes)
    return codes.in_order(values.builder.emit(moved))


def _max_pool(values: Values, var: relax.Var, call: relax.Call) -> Codes | None:
    codes = values.codes(call.args[0])
    if codes is None or map_shape(var) is None or not operators.in_nchw(call.attrs):
        return None
    pooled = operators.pooled(relax.op.nn.max_pool2d, values.blocked_codes(call.args[0]), call)
    return codes.in_blocks(values.builder.emit(pooled))


def _concat(values: Values, var: relax.Var, call: relax.Call) -> Codes | None:
    """Channels behind one another: every map except the last must fill its blocks."""
    fields, axis = values.fields(call.args[0]), call.attrs.axis
    if fields is None or axis is None or int(axis) % 4 != 1:
        return None
    every, shapes = [values.codes(field) for field in fields], [map_shape(field) for field in fields]
    first = every[0]
    if first is None or any(each is None or each.grid != first.grid for each in every):
        return None
    dims = map_shape(var)
    if dims is None or not operators.joins(values, dims, shapes):
        return None
    joined = relax.op.concat([values.blocked_codes(field) for field in fields], axis=1)
    return first.in_blocks(values.builder.emit(joined))


def _given(values: Values, var: relax.Var, call: relax.Call) -> Codes | None:
    """What bytes without a sign stand for: they are its codes."""
    source = call.args[0]
    if str(source.ty.dtype) != CODES or not isinstance(source, relax.Var):
        return None
    return Codes(values.grids.found[var].numbers, plain=values.plain(source))


def result(values: Values, call: relax.Call) -> relax.Expr | None:
    """What the model returns quantised: codes as they lie, made by the kernel that computes them."""
    if not values.algorithms.int8 or operator(call) != "relax.quantize" or str(call.ty.dtype) != CODES:
        return None
    scale, zero = (grids.number(each) for each in call.args[1:3])
    source = call.args[0]
    if scale is None or zero is None or not isinstance(source, relax.Var) or not shape(source):
        return None
    codes = values.encode(source, Grid(scale, -zero, grids.CODE_STEPS - zero), 1 / scale)
    dims = map_shape(source)
    if codes.plain is not None or dims is None:
        return codes.plain
    return values.unblocked(codes.blocked, dims)


MOVES = {
    "relax.dequantize": _given,
    "relax.astype": _given,
    "relax.reshape": _reshape,
    "relax.squeeze": _reshape,
    "relax.expand_dims": _reshape,
    "relax.permute_dims": _permute,
    "relax.nn.max_pool2d": _max_pool,
    "relax.concat": _concat,
}
"""Operators that hand codes on, and how."""


def convolution(values: Values, call: relax.Call, found: Convolution) -> relax.Expr | None:
    """A convolution of codes; None where its operands are on no grids. Other depthwise ones than 3×3 are in float32."""
    shifted, options = values.grids.shifted.get(call.args[0]), (found.stride, found.padding, found.dilation)
    data = call.args[0] if shifted is None else shifted.base
    codes = values.codes(data)
    if codes is None or not (shifted is None or (not found.depthwise and _has_code(values, shifted))):
        return None
    if found.fits_words:
        lanes = values.blocks.lanes(len(found.weight))
        if (made := _depthwise(values, codes, data, found, lanes)) is not None:
            return made
    computed = None if shifted is None else shifted.zero
    zero = codes.zero if computed is None else _code_of(values, codes.grid, computed)
    inner, outs = values.blocks.of(found)
    if found.depthwise:
        weight = values.packed.of(call.args[1], packing.depthwise_weight, outs)
        args = values.blocked_codes(data), weight, codes.scale, codes.zero, *options
        return values.call(byte_compute.depthwise_conv2d_codes, *args)
    weights = _weights(found.weight)
    if weights is None:
        return None
    numbers, scales = weights
    of_result: tuple[int, ...] = ()
    if found.groups > 1:
        packed = packing.group_quads(numbers, found.groups, found.joined, inner, outs)
        function, source = byte_compute.group_conv2d_quads, values.blocked_codes(data)
    else:
        blocked = codes.blocked is not None or found.source[1] >= LANES
        source = values.blocked_codes(data) if blocked else values.emit(compute.to_blocked, codes.plain, QUAD)
        blocks = -(-len(numbers) // outs)
        every = computed_blocks(blocks, found.columns, values.cpu, values.blocks)
        packed = packing.conv2d_quads(numbers, inner if blocked else QUAD, outs, every)
        function, of_result = byte_compute.conv2d_quads, (blocks,)
    sums = values.emit_product(function, source, fold_constants.to_constant(packed), zero, *options, *of_result)
    zeros, steps = (fold_constants.to_constant(_of_map(e, outs)) for e in _folded(codes.grid, numbers, scales))
    if computed is not None:
        of_weights = _of_map(numbers.reshape(len(numbers), -1).sum(axis=1, dtype=np.int32), outs)
        zeros = _added(values, zero, of_weights)
    return _times(values, values.call(byte_compute.scaled, sums, zeros, steps), shifted)


def _has_code(values: Values, shifted: Shifted) -> bool:
    """Whether a computed zero is one of the numbers that have codes: a border is made of it."""
    if shifted.zero is None:
        return True
    base, zero = values.grids.get(shifted.base), values.grids.get(shifted.zero)
    if base is None or zero is None or base.scale != 1 or zero.scale != 1:
        return False
    return base.low <= zero.low and zero.high <= base.high


def _code_of(values: Values, grid: Grid, zero: relax.Expr) -> relax.Expr:
    """The code of a computed zero, in float32."""
    found = values.in_shape(zero, ())
    return found if not grid.low else values.builder.emit(relax.op.subtract(found, relax.const(grid.low, "float32")))


def _added(values: Values, zero: relax.Expr, sums: NDArray[Any]) -> relax.Expr:
    """What the code of zero adds to each channel's sum; ``sums`` are those of the weights."""
    emit = values.builder.emit
    return emit(relax.op.multiply(fold_constants.to_constant(sums), emit(relax.op.astype(zero, "int32"))))


def _times(values: Values, made: relax.Call, shifted: Shifted | None) -> relax.Expr:
    """``made`` times a computed scale, where there is one."""
    if shifted is None or shifted.scale is None:
        return made
    return relax.op.multiply(values.builder.emit(made), values.in_shape(shifted.scale, (1,)))


def depthwise_rows(values: Values, call: relax.Call, found: Convolution) -> relax.Expr | None:
    """A depthwise convolution of plain codes whose rows share lanes; None as for a convolution."""
    data = call.args[0]
    codes = None if data in values.grids.shifted else values.codes(data)
    return None if codes is None else _depthwise(values, codes, data, found, lanes=1)


def _depthwise(values: Values, codes: Codes, data: relax.Expr, found: Convolution, lanes: int) -> relax.Expr | None:
    """A depthwise convolution of codes whose rows share lanes; None where its weights are on no grids.

    Args:
        lanes: channels of a block; a map of one lane is plain.
    """
    weights = _weights(found.weight)
    if weights is None:
        return None
    numbers, scales = weights
    packed = fold_constants.to_constant(packing.depthwise_quads(numbers, lanes))
    source = values.plain_codes(data) if lanes == 1 else values.blocked_codes(data)
    sums = values.emit_product(row_words.depthwise_conv2d_quads, source, packed, codes.zero, found.padding)
    folded = [each.astype(np.float32) for each in _folded(codes.grid, numbers, scales)]
    folded = [each[:, None, None] if lanes == 1 else _of_map(each, lanes) for each in folded]
    return values.call(byte_compute.scaled, sums, *map(fold_constants.to_constant, folded))


def group_matmul(values: Values, call: relax.Call, dims: tuple[int, int, int]) -> relax.Expr | None:
    """A 1×1 convolution of groups as a product for each, its map in the shape ``dims``; None as for a convolution."""
    codes = values.codes(call.args[0])
    weights = None if codes is None else _weights(fold_constants.constant_array(call.args[1]))
    if codes is None or weights is None:
        return None
    numbers, scales = weights
    pixels = values.in_dims(values.plain_codes(call.args[0]), dims)
    packed = fold_constants.to_constant(packing.product_quads(numbers.reshape(dims[0], -1, dims[1])))
    sums = values.emit_product(byte_compute.group_matmul_quads, packed, pixels)
    folded = (each.reshape(dims[0], -1, 1) for each in _folded(codes.grid, numbers, scales))
    return values.call(byte_compute.scaled, sums, *map(fold_constants.to_constant, folded))


def matmul(values: Values, call: relax.Call, lanes: int) -> relax.Expr | None:
    """A product of codes with a constant matrix [K, N] in panels; None where its operands are on no grids."""
    data = call.args[0]
    shifted = values.grids.shifted.get(data) if isinstance(data, relax.Var) else None
    base = data if shifted is None else shifted.base
    codes, matrix = values.codes(base), fold_constants.constant_array(call.args[1])
    weights = None if codes is None or matrix.shape[0] % QUAD else _weights(matrix.T)
    if codes is None or weights is None:
        return None
    numbers, scales = weights
    *rows, depth = shape(data) or ()
    quads = values.viewed(values.plain_codes(base), (*rows, depth // QUAD, QUAD))
    packed = fold_constants.to_constant(packing.panel_quads(numbers.T, lanes))
    sums = values.emit_product(byte_compute.matmul_quads, quads, packed)
    folded = _folded(codes.grid, numbers, scales)
    made = values.call(byte_compute.scaled, sums, *map(fold_constants.to_constant, folded))
    return made if shifted is None else _shifted(values, made, shifted, numbers.sum(axis=1, dtype=np.int64) * scales)


def _shifted(values: Values, product: relax.Call, shifted: Shifted, sums: NDArray[Any]) -> relax.Expr:
    """A product less what a computed zero adds to it, times a computed scale; ``sums`` are those of the weights."""
    emit = values.builder.emit
    if shifted.zero is not None:
        ones = fold_constants.to_constant(sums.astype(np.float32))
        added = emit(relax.op.multiply(values.in_shape(shifted.zero, (1,)), ones))
        product = relax.op.subtract(emit(product), added)
    return _times(values, product, shifted)


def _of_map(channels: NDArray[Any], lanes: int) -> NDArray[Any]:
    """A number for each channel as [CB, 1, 1, lanes]."""
    return packing.in_blocks(channels, lanes)[:, None, None]


def _weights(weight: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """Weights as int8 and the scale of each output channel, the first axis; None where a sum could be too large."""
    found = grids.of_weights(weight)
    if found is None:
        return None
    numbers, scales = found
    largest = np.abs(numbers.reshape(len(numbers), -1).astype(np.int64)).sum(axis=1).max()
    return None if largest * grids.CODE_STEPS >= LARGEST_SUM else (numbers, scales)


def _folded(grid: Grid, numbers: NDArray[Any], scales: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """What the code of zero adds to each channel's sum, and the value of one step of it."""
    sums = numbers.reshape(len(numbers), -1).astype(np.int64).sum(axis=1)
    return (-int(grid.low) * sums).astype(np.int32), (grid.scale * scales).astype(np.float32)
