"""Operators that work on blocked feature maps as they do on plain ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tvm
from numpy.typing import NDArray
from tvm import relax

from workers.tvm_backend.passes import fold_constants
from workers.tvm_backend.passes.layout import narrow_compute, packing
from workers.tvm_backend.passes.layout.compute import LANES
from workers.tvm_backend.passes.layout.expressions import Shape, map_shape, operator, shape
from workers.tvm_backend.passes.layout.values import Values

MOST_PARTS = 32
"""Operands of a concatenation that takes others apart: more make functions that are slow to compile."""
Rule = Callable[[Values, relax.Var, relax.Call], relax.Expr | None]
"""From the values so far, a variable and the call that it is bound to: the call on blocked values. It has one axis more
than the variable's where the result is a feature map; None when the call stays plain."""


def _unary(values: Values, var: relax.Var, call: relax.Call) -> relax.Expr | None:
    """An elementwise operator that is finite wherever its operand is: values in added channels do no harm."""
    if not values.is_blocked(call.args[0]):
        return None
    return relax.Call(call.op, [values.blocked(call.args[0]), *call.args[1:]], call.attrs, call.ty_args)


def _steep_unary(values: Values, var: relax.Var, call: relax.Call) -> relax.Expr | None:
    """An elementwise operator that may make an infinity of the zero in an added channel: only where none was added."""
    dims = map_shape(var)
    return _unary(values, var, call) if dims is not None and dims[1] % LANES == 0 else None


def _binary(values: Values, var: relax.Var, call: relax.Call, fill: float = 0.0) -> relax.Expr | None:
    """An elementwise operator on maps, scalars, and what broadcasts along channels or along all but channels."""
    dims = map_shape(var)
    if dims is None or not values.better_blocked(var, call.args):
        return None
    if not all(_broadcasts(arg, dims[1]) for arg in call.args):
        return None
    return relax.Call(call.op, [_operand(values, arg, dims[1], fill) for arg in call.args], call.attrs, call.ty_args)


def _divide(values: Values, var: relax.Var, call: relax.Call) -> relax.Expr | None:
    """A division by constants, or one where no channel was added."""
    dims = map_shape(var)
    exact = dims is not None and dims[1] % LANES == 0
    constant = isinstance(call.args[1], tvm.ir.GenericConst)
    return _binary(values, var, call, fill=1.0) if exact or constant else None


def _max_pool(values: Values, var: relax.Var, call: relax.Call) -> relax.Expr | None:
    """On bits where maps are stored so: to widen each element, for each window that it is in, takes longer."""
    made = _pool(relax.op.nn.max_pool2d, values, call)
    if made is None or not values.algorithms.bf16:
        return made
    shape = tuple(int(extent) for extent in values.builder.normalize(made).ty.shape.values)
    source = values.rounded(values.blocked(call.args[0]))
    return values.call(narrow_compute.max_pool2d_bits, source, *windows(call), shape)


def _avg_pool(values: Values, var: relax.Var, call: relax.Call) -> relax.Expr | None:
    return _pool(relax.op.nn.avg_pool2d, values, call)


def _pool(make: Callable[..., relax.Call], values: Values, call: relax.Call) -> relax.Expr | None:
    if not values.is_blocked(call.args[0]) or not in_nchw(call.attrs):
        return None
    return pooled(make, values.blocked(call.args[0]), call)


def pooled(make: Callable[..., relax.Call], data: relax.Expr, call: relax.Call) -> relax.Expr:
    """The pool that ``call`` is, of a map in blocks."""
    return make(data, *windows(call), bool(call.attrs.ceil_mode), bool(call.attrs.count_include_pad), _layout(data))


def windows(call: relax.Call) -> list[tuple[int, ...]]:
    """Extents, strides, padding and dilation of a pool's windows."""
    attrs = call.attrs
    return [tuple(int(v) for v in each) for each in (attrs.pool_size, attrs.strides, attrs.padding, attrs.dilation)]


def _adaptive_pool(values: Values, var: relax.Var, call: relax.Call) -> relax.Expr | None:
    if not values.is_blocked(call.args[0]) or not in_nchw(call.attrs):
        return None
    extents = call.attrs.output_size
    target = None if extents is None else tuple(int(v) for v in extents)
    data = values.blocked(call.args[0])
    return relax.op.nn.adaptive_avg_pool2d(data, target, _layout(data))


def _prelu(values: Values, var: relax.Var, call: relax.Call) -> relax.Expr | None:
    """A rectifier with slopes of its own for negative values."""
    slopes, dims = call.args[1], map_shape(var)
    if dims is None or not values.is_blocked(call.args[0]) or not isinstance(slopes, tvm.ir.GenericConst):
        return None
    array = fold_constants.constant_array(slopes).reshape(1, -1, 1, 1)
    if array.size > 1 and int(call.attrs.axis) % 4 != 1:
        return None
    slope = relax.const(float(array.item()), "float32") if array.size == 1 else values.blocked_constant(array)
    data, zero, emit = values.blocked(call.args[0]), relax.const(0.0, "float32"), values.builder.emit
    negative = emit(relax.op.multiply(emit(relax.op.minimum(data, zero)), slope))
    return relax.op.add(emit(relax.op.maximum(data, zero)), negative)


def _slice(values: Values, var: relax.Var, call: relax.Call) -> relax.Expr | None:
    """Whole blocks of channels, or those up to the last channel."""
    data, dims, source = call.args[0], map_shape(var), map_shape(call.args[0])
    if dims is None or source is None or not values.is_blocked(data):
        return None
    axes, begins, _, *strides = ([int(field) for field in each.fields] for each in call.args[1:])
    if axes != [1] or strides not in ([], [[1]]):
        return None
    first = max(begins[0] + (source[1] if begins[0] < 0 else 0), 0)
    last = first + dims[1]
    lanes = values.blocks.lanes(source[1])
    if first % lanes or (last % lanes and last != source[1]) or values.blocks.lanes(dims[1]) != lanes:
        return None
    return relax.op.strided_slice(values.blocked(data), [1], [first // lanes], [-(-last // lanes)])


def _resize(values: Values, var: relax.Var, call: relax.Call) -> relax.Expr | None:
    """An interpolation: in blocks its coordinates are computed once for all channels of one."""
    if not values.is_blocked(call.args[0]) or str(call.attrs.layout) != "NCHW":
        return None
    data = values.blocked(call.args[0])
    return _resized(data, call, _layout(data))


def whole_resize(values: Values, call: relax.Expr) -> relax.Expr | None:
    """An interpolation that stays plain and repeats rows and columns; None for anything else."""
    if operator(call) != "relax.image.resize2d" or not _repeats(call):
        return None
    return _resized(values.plain(call.args[0]), call, str(call.attrs.layout))


def _resized(data: relax.Expr, call: relax.Call, layout: str) -> relax.Expr:
    """The interpolation of ``data``; integers divide where rows and columns are repeated."""
    attrs = call.attrs
    mode = (
        ("asymmetric", "floor")
        if _repeats(call)
        else (str(attrs.coordinate_transformation_mode), str(attrs.rounding_method))
    )
    return relax.op.image.resize2d(
        data,
        call.args[1],
        tuple(float(v) for v in attrs.roi),
        layout,
        str(attrs.method),
        *mode,
        float(attrs.cubic_alpha),
        int(attrs.cubic_exclude),
        float(attrs.extrapolation_value),
    )


def _repeats(call: relax.Call) -> bool:
    """Whether each row and column is repeated a whole number of times, rounded from the middles of pixels.

    Pixel i comes from (i + 1/2) / s - 1/2, which is less than half a pixel away from i // s, so it does not matter how
    a half would be rounded.
    """
    attrs, before, after = call.attrs, map_shape(call.args[0]), map_shape(call)
    if before is None or after is None or str(attrs.layout) != "NCHW" or str(attrs.method) != "nearest_neighbor":
        return False
    whole = after[2] % before[2] == after[3] % before[3] == 0
    rounded = str(attrs.rounding_method).startswith("round")
    return whole and rounded and str(attrs.coordinate_transformation_mode) == "half_pixel"


def _reduce(values: Values, var: relax.Var, call: relax.Call) -> relax.Expr | None:
    """A reduction over rows and columns; without them the result is plain."""
    data, axes = call.args[0], call.attrs.axis
    dims = map_shape(data)
    if dims is None or not values.is_blocked(data) or axes is None or sorted(int(a) % 4 for a in axes) != [2, 3]:
        return None
    make = getattr(relax.op, operator(call).removeprefix("relax."))
    reduced = make(values.blocked(data), [2, 3], keepdims=True)
    if bool(call.attrs.keepdims):
        return reduced
    n, channels = dims[:2]
    return relax.op.reshape(values.unblocked(values.builder.emit(reduced), (n, channels, 1, 1)), (n, channels))


def _concat(values: Values, var: relax.Var, call: relax.Call) -> relax.Expr | None:
    """Channels behind one another: every map except the last must fill its blocks.

    What was concatenated before is taken apart again, so that a chain as in a DenseNet (Huang et al., "Densely
    connected convolutional networks", 2017) does not have to store each of its links.
    """
    fields, dims, axis = values.fields(call.args[0]), map_shape(var), call.attrs.axis
    if fields is None or dims is None or axis is None or int(axis) % 4 != 1 or not values.better_blocked(var, fields):
        return None
    shapes = [map_shape(field) for field in fields]
    if not joins(values, dims, shapes):
        return None
    parts = [part for field in fields for part in values.parts(field)]
    if len(parts) > MOST_PARTS:
        parts = [values.blocked(field) for field in fields]
    values.bind_parts(var, parts)
    return relax.op.concat(parts, axis=1)


def joins(values: Values, dims: Shape, parts: Sequence[Shape | None]) -> bool:
    """Whether blocks of ``parts`` behind one another are those of ``dims``: all but the last one fill theirs."""
    lanes = values.blocks.lanes(dims[1])
    if any(each is None or values.blocks.lanes(each[1]) != lanes for each in parts):
        return False
    return all(each is not None and each[1] % lanes == 0 for each in parts[:-1])


def _layout(blocked: relax.Expr) -> str:
    """TVM's name of the layout of a map in blocks."""
    return f"NCHW{int(blocked.ty.shape.values[-1])}c"


def in_nchw(attrs: Any) -> bool:
    """Whether a pool takes and makes plain maps."""
    return str(attrs.layout) == "NCHW" and str(attrs.out_layout or attrs.layout) == "NCHW"


def _as_map(constant: relax.Expr) -> NDArray[Any]:
    """A constant with as many axes as a feature map."""
    array = fold_constants.constant_array(constant)
    return array.reshape((1,) * (4 - array.ndim) + array.shape)


def _broadcasts(arg: relax.Expr, channels: int) -> bool:
    """Whether ``arg`` is a float32 operand with all channels or one."""
    dims = shape(arg)
    if dims is None or len(dims) > 4:
        return False
    if isinstance(arg, tvm.ir.GenericConst):
        return _as_map(arg).shape[1] in (1, channels)
    return len(dims) == 4 and dims[1] in (1, channels)


def _operand(values: Values, arg: relax.Expr, channels: int, fill: float) -> relax.Expr:
    """``arg`` so that it broadcasts against blocked maps of ``channels``."""
    if isinstance(arg, tvm.ir.GenericConst):
        array = _as_map(arg)
        if array.size == 1:
            return relax.const(float(array.item()), "float32")
        single = array.shape[1] == 1
        return fold_constants.to_constant(
            array[..., None] if single else packing.feature_map(array, values.blocks.lanes(channels), fill)
        )
    dims = map_shape(arg)
    assert dims is not None
    if dims[1] == 1 < channels:
        return values.builder.emit(relax.op.expand_dims(values.plain(arg), 4))
    return values.blocked(arg)


FINITE = (
    "relax.nn.relu",
    "relax.nn.relu6",
    "relax.nn.leakyrelu",
    "relax.nn.silu",
    "relax.nn.gelu",
    "relax.nn.gelu_tanh",
    "relax.clip",
    "relax.sigmoid",
    "relax.tanh",
    "relax.erf",
    "relax.abs",
    "relax.negative",
    "relax.round",
)
"""Elementwise operators that are finite wherever their operand is."""
STEEP = ("relax.exp", "relax.log", "relax.sqrt", "relax.rsqrt")
"""Elementwise operators that are not."""
BINARY = ("relax.add", "relax.subtract", "relax.multiply", "relax.maximum", "relax.minimum")
"""Elementwise operators on two tensors; division has a rule of its own."""
RULES: Mapping[str, Rule] = {
    **dict.fromkeys(FINITE, _unary),
    **dict.fromkeys(STEEP, _steep_unary),
    **dict.fromkeys(BINARY, _binary),
    **dict.fromkeys(("relax.mean", "relax.sum", "relax.max", "relax.min"), _reduce),
    "relax.divide": _divide,
    "relax.nn.max_pool2d": _max_pool,
    "relax.nn.avg_pool2d": _avg_pool,
    "relax.nn.adaptive_avg_pool2d": _adaptive_pool,
    "relax.concat": _concat,
    "relax.image.resize2d": _resize,
    "relax.nn.prelu": _prelu,
    "relax.strided_slice": _slice,
}
"""The rule of each operator."""
