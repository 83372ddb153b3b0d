"""Convolutions and products with constant weights: the operators for whose sake a layout changes."""

from __future__ import annotations

from typing import Any

import tvm
from numpy.typing import NDArray
from tvm import relax

from tunesmith.analysis.cpu_model import CpuModel
from workers.tvm_backend.dot.bits import PAIR
from workers.tvm_backend.dot.unit import MIN_ROWS
from workers.tvm_backend.passes import fold_constants
from workers.tvm_backend.passes.layout import coded, compute, narrow_compute, packing, row_words, winograd
from workers.tvm_backend.passes.layout.blocks import Blocks, computed_blocks
from workers.tvm_backend.passes.layout.compute import LANES
from workers.tvm_backend.passes.layout.conv_problem import Convolution
from workers.tvm_backend.passes.layout.expressions import map_shape, operator, shape, size
from workers.tvm_backend.passes.layout.values import Values

PLAIN = ("NCHW", "OIHW", "NCHW")
"""Layouts of input, weights and output."""


def match(call: relax.Expr, cpu: CpuModel, blocks: Blocks) -> Convolution | None:
    """A call as a convolution with a blocked kernel; None when it has none, or is something else.

    These have: constant float32 weights, static shapes, and either one group and ``min_outputs`` outputs, or as
    many groups as inputs and outputs, or groups of which a few fill blocks.
    """
    if (
        operator(call) != "relax.nn.conv2d"
        or not isinstance(call.args[0], relax.Var)
        or not isinstance(call.args[1], tvm.ir.GenericConst)
    ):
        return None
    attrs, source, out = call.attrs, map_shape(call.args[0]), map_shape(call)
    if source is None or out is None or shape(call.args[1]) is None or _layouts(attrs) != PLAIN:
        return None
    weight, groups = fold_constants.constant_array(call.args[1]), int(attrs.groups)
    joined = 1 if groups == 1 or groups == source[1] == out[1] else _joined(weight, groups, cpu.max_joined, blocks)
    if joined is None or (groups == 1 and out[1] < cpu.min_outputs):
        return None
    top, left, bottom, right = (int(v) for v in attrs.padding)
    return Convolution(
        weight,
        source,
        _pair(attrs.strides),
        (top, left, bottom, right),
        _pair(attrs.dilation),
        groups,
        joined,
        out[3],
        size(call) * weight[0].size,
    )


def _joined(weight: NDArray[Any], groups: int, most: int, blocks: Blocks) -> int | None:
    """The fewest groups that fill blocks of inputs and outputs together; None beyond ``most``, and for 1×1 kernels.

    The weights between different groups of them are zeros, and multiplied as any others. See ``group_product``.
    """
    outs, channels = len(weight) // groups, weight.shape[1]
    out, inner = (blocks.lanes(groups * count) for count in (outs, channels))
    if weight.shape[2:] == (1, 1):
        return None
    return next(
        (
            count
            for count in range(1, most + 1)
            if groups % count == count * outs % out == count * channels % inner == 0
        ),
        None,
    )


def block(values: Values, var: relax.Var, call: relax.Call) -> relax.Expr | None:
    """The blocked convolution of ``var``; None when it stays plain."""
    found = match(call, values.cpu, values.blocks)
    if found is None or not _pays(values, found, var, call.args[0]):
        return None
    data = call.args[0]
    lanes, outs = values.blocks.of(found)
    options = found.stride, found.padding, found.dilation
    if values.algorithms.int8 and (made := coded.convolution(values, call, found)) is not None:
        return made
    if values.algorithms.bf16 and found.fits_words:
        weight = values.packed.of(call.args[1], packing.depthwise_pairs, outs)
        source = values.rounded(values.blocked(data))
        return values.call_product(row_words.depthwise_conv2d_pairs, source, weight, found.padding)
    if found.depthwise:
        weight = values.packed.of(call.args[1], packing.depthwise_weight, outs)
        return values.call(compute.depthwise_conv2d_blocked, values.blocked(data), weight, *options)
    if values.algorithms.bf16:
        return _in_pairs(values, call, found)
    if found.groups > 1:
        weight = values.packed.of(call.args[1], packing.group_weight, found.groups, found.joined, lanes, outs)
        return values.call(compute.group_conv2d_blocked, values.blocked(data), weight, *options)
    filled = found.source[1] % LANES == 0
    if values.is_blocked(data) and (filled or not values.is_plain(data)):
        source, inner = values.blocked(data), lanes
    else:  # a kernel that takes one value for all its outputs does not mind how far the next channel lies away
        source, inner = values.in_shape(data, (*found.source, 1)), 1
    tile = winograd.fits(found, inner > 1, values.cpu) if values.algorithms.winograd else None
    if tile is not None:
        transformed = values.packed.of(call.args[1], packing.winograd_weight, tile)
        columns = winograd.columns(found.columns, tile, values.cpu)
        return values.call(winograd.conv2d_winograd, source, transformed, found.padding, tile, columns)
    weight = values.packed.of(call.args[1], packing.conv2d_weight, inner, outs)
    return values.call(compute.conv2d_blocked, source, weight, *options)


def _in_pairs(values: Values, call: relax.Call, found: Convolution) -> relax.Call:
    """The convolution of operands that are rounded to bfloat16; a few channels are read in pairs instead of blocks."""
    data, options = call.args[0], (found.stride, found.padding, found.dilation)
    lanes, outs = values.blocks.of(found)
    if found.groups > 1:
        weight = values.packed.of(call.args[1], packing.group_pairs, found.groups, found.joined, lanes, outs)
        source = values.rounded(values.blocked(data))
        return values.call_product(narrow_compute.group_conv2d_pairs, source, weight, *options)
    if values.is_blocked(data) or found.source[1] >= LANES:
        source, inner = values.rounded(values.blocked(data)), lanes
    else:
        source, inner = values.emit(narrow_compute.to_pairs, values.plain(data)), PAIR
    if values.algorithms.winograd and inner == outs == LANES and winograd.fits_pairs(found, values.cpu):
        weight = values.packed.of(call.args[1], packing.winograd_pairs, winograd.TILE_OF_PAIRS)
        columns = winograd.columns(found.columns, winograd.TILE_OF_PAIRS, values.cpu)
        return values.call_product(winograd.conv2d_winograd_pairs, source, weight, found.padding, columns)
    blocks = -(-len(found.weight) // outs)
    computed = computed_blocks(blocks, found.columns, values.cpu, values.blocks)
    weight = values.packed.of(call.args[1], packing.conv2d_pairs, inner, outs, computed)
    return values.call_product(narrow_compute.conv2d_pairs, source, weight, *options, blocks)


def depthwise_rows(values: Values, call: relax.Expr) -> relax.Expr | None:
    """A depthwise convolution that stays plain, and whose rows share lanes or fill no vectors; None for the rest."""
    found = match(call, values.cpu, values.blocks)
    if found is None or not found.depthwise:
        return None
    made = _rows_of_words(values, call, found) if found.fits_words and found.columns > LANES // 2 else None
    if made is not None or found.stride[1] != 1 or found.columns % LANES == 0:
        return made
    return values.call(
        compute.depthwise_conv2d_rows,
        values.plain(call.args[0]),
        call.args[1],
        found.stride[0],
        found.padding,
        found.dilation,
    )


def _rows_of_words(values: Values, call: relax.Call, found: Convolution) -> relax.Expr | None:
    """The same of bits, or of codes; None of float32."""
    if values.algorithms.bf16:
        weight = values.packed.of(call.args[1], packing.depthwise_pairs, 1)
        source = values.rounded(values.plain(call.args[0]))
        return values.call_product(row_words.depthwise_conv2d_pairs, source, weight, found.padding)
    return coded.depthwise_rows(values, call, found) if values.algorithms.int8 else None


def pack_matmul(values: Values, call: relax.Expr) -> relax.Expr | None:
    """A product with a constant matrix, packed in panels; None when ``call`` is something else or no panel fits."""
    if operator(call) != "relax.matmul" or not isinstance(call.args[1], tvm.ir.GenericConst):
        return None
    data, weight, out = shape(call.args[0]), shape(call.args[1]), shape(call)
    if data is None or out is None or weight is None or len(weight) != 2 or len(data) < 2:
        return None
    lanes = packing.panel_lanes(weight[1], values.cpu.min_lanes)
    if lanes is None:
        return None
    if values.algorithms.bf16 and weight[0] % PAIR == 0:
        return _matmul_in_pairs(values, call, lanes)
    if values.algorithms.int8 and (made := coded.matmul(values, call, lanes)) is not None:
        return made
    packed = values.packed.of(call.args[1], packing.panels, lanes)
    return values.call(compute.matmul_packed, values.reshaped(call.args[0]), packed)


def _matmul_in_pairs(values: Values, call: relax.Call, lanes: int) -> relax.Call:
    bits = values.rounded(values.reshaped(call.args[0]))
    *rows, depth = (int(extent) for extent in bits.ty.shape.values)
    pairs = values.builder.emit(relax.op.reshape(bits, (*rows, depth // PAIR, PAIR)))
    packed = values.packed.of(call.args[1], packing.panel_pairs, lanes)
    return values.call_product(narrow_compute.matmul_pairs, pairs, packed)


def group_product(values: Values, call: relax.Expr) -> relax.Expr | None:
    """A 1×1 convolution of groups on one image as a product for each group: [G, M, K] with [G, K, pixels].

    None when ``call`` is something else. Channels of a group seldom fill blocks, but pixels fill registers.
    """
    if operator(call) != "relax.nn.conv2d" or not isinstance(call.args[1], tvm.ir.GenericConst):
        return None
    attrs, groups = call.attrs, int(call.attrs.groups)
    source, kernel, out = map_shape(call.args[0]), map_shape(call.args[1]), map_shape(call)
    if source is None or kernel is None or out is None or _layouts(attrs) != PLAIN:
        return None
    same = source[0] == 1 and kernel[2:] == (1, 1) and source[2:] == out[2:] and _pair(attrs.strides) == (1, 1)
    if not same or groups == 1 or kernel[1] == 1 or any(int(v) for v in attrs.padding):
        return None
    weight = fold_constants.constant_array(call.args[1]).reshape(groups, -1, kernel[1])
    dims = groups, kernel[1], source[2] * source[3]
    if values.algorithms.bf16:
        bits = values.in_dims(values.rounded(values.reshaped(call.args[0])), dims)
        depth = depth_of_product(*weight.shape[1:], values.algorithms.widest)
        packed = fold_constants.to_constant(packing.product_pairs(weight, depth))
        return values.call_product(narrow_compute.group_matmul_pairs, packed, bits)
    if values.algorithms.int8 and (made := coded.group_matmul(values, call, dims)) is not None:
        return made
    return values.call(compute.group_matmul, fold_constants.to_constant(weight), values.in_shape(call.args[0], dims))


def depth_of_product(rows: int, depth: int, widest: int) -> int:
    """What the reduction of a product of bfloat16 is filled up to a multiple of: pairs, or tiles of a matrix unit.

    A tile takes as long as half of one, so that a half is for what fits in it. Few rows are no tile.

    Args:
        rows, depth: extents of the weights of a group.
        widest: most channels of a block, as many as a tile is deep.
    """
    if widest == LANES or rows < MIN_ROWS:
        return PAIR
    return widest // 2 if depth <= widest // 2 else widest


def _pays(values: Values, found: Convolution, var: relax.Var, data: relax.Var) -> bool:
    """Whether the faster kernel is worth the conversions that it causes, less those that a plain one would."""
    into = size(data) if found.takes_blocks and not values.is_blocked(data) else 0
    back = 0 if values.is_plain(data) else size(data)
    return found.macs >= values.cpu.conversion_macs * (into + values.outlook.leaving(var) - back)


def _layouts(attrs: Any) -> tuple[str, str, str]:
    return str(attrs.data_layout), str(attrs.kernel_layout), str(attrs.out_layout or attrs.data_layout)


def _pair(pair: Any) -> tuple[int, int]:
    first, second = pair
    return int(first), int(second)
