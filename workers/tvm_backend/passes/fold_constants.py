"""Constant arithmetic of a Relax function, done in NumPy before anything is lowered.

TVM's own ``FoldConstant`` compiles every constant expression with LLVM: 8 to 23 seconds for the image models of the
ONNX package. Here the few operators that make weights from constants are evaluated directly, and an inference-time
batch normalisation, with whatever per-channel factors and shifts follow it, becomes part of the convolution before
it (Jacob et al., "Quantization and Training of Neural Networks…", 2018, section 3.2, without the quantisation).
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tvm
from numpy.typing import NDArray
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, PyExprVisitor, mutator, visitor

Array = NDArray[Any]
PLAIN = frozenset(
    f"{kind}{bits}" for kind, sizes in (("float", (16, 32, 64)), ("int", (8, 16, 32, 64))) for bits in sizes
) | {f"uint{bits}" for bits in (8, 16, 32, 64)}


def constant_array(constant: tvm.ir.GenericConst) -> Array:
    """A constant's data, without a copy for the types that NumPy itself has."""
    value = constant.value
    return np.from_dlpack(value) if str(value.dtype) in PLAIN else value.numpy()


def to_constant(array: Array) -> tvm.ir.GenericConst:
    """A constant that shares ``array``'s memory where TVM's alignment allows."""
    return relax.const(tvm.runtime.tensor(np.asarray(array, order="C")))


def value_of(builder: relax.BlockBuilder, expr: relax.Expr) -> relax.Expr:
    """What a variable is bound to in the function that grows; other expressions are returned as they are."""
    bound = builder.lookup_binding(expr) if isinstance(expr, relax.Var) else None
    return expr if bound is None else bound


def constant_of(builder: relax.BlockBuilder, expr: relax.Expr) -> Array | None:
    """The data of a constant, or of a variable that is bound to one; None for anything else."""
    value = value_of(builder, expr)
    return constant_array(value) if isinstance(value, tvm.ir.GenericConst) else None


def _shape(expr: relax.Expr) -> tuple[int, ...]:
    return tuple(int(dim) for dim in expr.ty.shape.values)


def _axes(value: Any) -> tuple[int, ...] | None:
    return None if value is None else tuple(int(v) for v in value)


def _result(call: relax.Call, value: Array) -> Array:
    return np.asarray(value).reshape(_shape(call))


def _dequantized(axis: int, data: Array, scale: Array, zero: Array) -> Array:
    """The float32 numbers that whole ones stand for; scale and zero point are scalars or vectors along ``axis``."""
    spread = [1] * data.ndim
    if spread:
        spread[axis] = -1
    scale, zero = (each.reshape(() if each.size == 1 else spread) for each in (scale, zero))
    return (data.astype(np.int32) - zero.astype(np.int32)).astype(np.float32) * scale


EVALUATE: Mapping[str, Callable[[relax.Call, list[Array]], Array]] = {
    "relax.broadcast_to": lambda call, args: np.broadcast_to(args[0], _shape(call)),
    "relax.reshape": lambda call, args: _result(call, args[0]),
    "relax.expand_dims": lambda call, args: _result(call, args[0]),
    "relax.squeeze": lambda call, args: _result(call, args[0]),
    "relax.permute_dims": lambda call, args: np.transpose(args[0], _axes(call.attrs.axes)),
    "relax.tile": lambda call, args: np.tile(args[0], _axes(call.attrs.repeats) or ()),
    "relax.full": lambda call, args: np.broadcast_to(args[0], _shape(call)),
    "relax.sqrt": lambda call, args: np.sqrt(args[0]),
    "relax.add": lambda call, args: args[0] + args[1],
    "relax.subtract": lambda call, args: args[0] - args[1],
    "relax.multiply": lambda call, args: args[0] * args[1],
    "relax.divide": lambda call, args: args[0] / args[1],
    "relax.isnan": lambda call, args: np.isnan(args[0]),
    "relax.where": lambda call, args: np.where(*args),
    "relax.astype": lambda call, args: args[0].astype(np.float32),
    "relax.dequantize": lambda call, args: _dequantized(int(call.attrs.axis), *args),
}
MIXED = frozenset({"relax.isnan", "relax.where", "relax.astype", "relax.dequantize"})
"""Operators whose operands and result need not be of one type."""
KINDS = {"relax.astype": "iuf", "relax.dequantize": "iu"}
"""Operators that are evaluated where they make float32 numbers, and of which kinds of NumPy's."""


@visitor
class _Uses(PyExprVisitor):  # type: ignore[misc]
    """Counts the uses of every variable."""

    def __init__(self) -> None:
        super().__init__()
        self.count: collections.Counter[Any] = collections.Counter()

    def visit_var_(self, op: relax.Var) -> None:
        self.count[op] += 1

    def visit_dataflow_var_(self, op: relax.Var) -> None:
        self.count[op] += 1

    def visit_var_def_(self, op: relax.Var) -> None:
        """Definitions are not uses."""

    def visit_dataflow_var_def_(self, op: relax.Var) -> None:
        """Definitions are not uses."""


@mutator
class _Fold(PyExprMutator):  # type: ignore[misc]
    def __init__(self, mod: tvm.IRModule, uses: Mapping[Any, int]) -> None:
        super().__init__(mod)
        self.uses = uses

    def visit_call_(self, op: relax.Call) -> relax.Expr:
        call = self.visit_expr_post_order(op)
        name = getattr(call.op, "name", "")
        folded = self._evaluate(name, call)
        if folded is not None:
            return folded
        if name in ("relax.add", "relax.multiply"):
            return self._absorb(name, call)
        return call

    def visit_tuple_getitem_(self, op: relax.TupleGetItem) -> relax.Expr:
        item = self.visit_expr_post_order(op)
        source = self._value(item.tuple_value)
        if item.index == 0 and _is_call(source, "relax.nn.batch_norm"):
            folded = self._batch_norm(source)
            return item if folded is None else folded
        return item

    def _value(self, expr: relax.Expr) -> relax.Expr:
        return value_of(self.builder_, expr)

    def _array(self, expr: relax.Expr) -> Array | None:
        return constant_of(self.builder_, expr)

    def _evaluate(self, name: str, call: relax.Call) -> tvm.ir.GenericConst | None:
        if name not in EVALUATE or not isinstance(call.ty, relax.TensorType):
            return None
        arrays = [self._array(arg) for arg in call.args if isinstance(arg.ty, relax.TensorType)]
        if not arrays or any(array is None for array in arrays) or not _is_static(call):
            return None
        if name not in MIXED and any(str(array.dtype) != str(call.ty.dtype) for array in arrays if array is not None):
            return None
        if name in KINDS and (
            arrays[0] is None or arrays[0].dtype.kind not in KINDS[name] or str(call.ty.dtype) != "float32"
        ):
            return None
        if name == "relax.divide" and arrays[0] is not None and arrays[0].dtype.kind != "f":
            return None  # TVM truncates, NumPy would not
        return to_constant(EVALUATE[name](call, [array for array in arrays if array is not None]))

    def _channel(self, expr: relax.Expr, channels: int) -> Array | None:
        """A constant that varies over axis 1 of NCHW alone, as a vector of ``channels``."""
        array = self._array(expr)
        if array is None or array.dtype != np.float32:
            return None
        if array.size == 1:
            return np.broadcast_to(array.reshape(()), (channels,))
        if array.ndim in (3, 4) and array.size == channels and array.shape[-3] == channels:
            return array.reshape(channels)
        return None

    def _batch_norm(self, call: relax.Call) -> relax.Expr | None:
        data, (gamma, beta, mean, variance) = call.args[0], [self._array(arg) for arg in call.args[1:5]]
        if gamma is None or beta is None or mean is None or variance is None:
            return None
        attrs = call.attrs
        if len(data.ty.shape.values) != 4 or int(attrs.axis) != 1 or str(data.ty.dtype) != "float32":
            return None
        scale = (gamma if attrs.scale else 1.0) / np.sqrt(variance + np.float32(attrs.epsilon))
        return self._affine(data, scale, (beta if attrs.center else 0.0) - mean * scale)

    def _absorb(self, name: str, call: relax.Call) -> relax.Expr:
        """A per-channel factor or shift after a convolution or another shift joins what stands before it."""
        for data, other in (call.args, reversed(call.args)):
            if not _is_feature_map(data) or _shape(data) != _shape(call):
                continue
            vector = self._channel(other, _shape(data)[1])
            if vector is None or not self._absorbs(name, data):
                continue
            one, zero = np.ones_like(vector), np.zeros_like(vector)
            return self._affine(data, *((vector, zero) if name == "relax.multiply" else (one, vector)))
        return call

    def _absorbs(self, name: str, data: relax.Expr) -> bool:
        """True when ``name``, applied to ``data``, can join what ``data`` is bound to."""
        if not self._once(data):
            return False
        if self._linear(data) is not None:
            return True
        return name == "relax.multiply" and self._is_convolution(self._value(data))

    def _linear(self, data: relax.Expr) -> tuple[relax.Expr, str, Array] | None:
        """Operand, operator and vector when ``data`` is a per-channel product or sum with a constant."""
        call = self._value(data)
        for name in ("relax.add", "relax.multiply"):
            if _is_call(call, name) and _shape(call.args[0]) == _shape(data):
                vector = self._channel(call.args[1], _shape(data)[1])
                return None if vector is None else (call.args[0], name, vector)
        return None

    def _once(self, expr: relax.Expr) -> bool:
        return self.uses.get(expr, 1) == 1

    def _is_convolution(self, value: relax.Expr) -> bool:
        return (
            _is_call(value, "relax.nn.conv2d")
            and self._array(value.args[1]) is not None
            and str(value.attrs.data_layout) == "NCHW"
            and str(value.attrs.kernel_layout) == "OIHW"
        )

    def _affine(self, data: relax.Expr, scale: Array, shift: Array) -> relax.Expr:
        """``data * scale + shift`` per channel, with what can be absorbed moved into the weights."""
        while self._once(data) and (before := self._linear(data)) is not None:
            data, name, inner = before
            if name == "relax.add":
                shift = shift + scale * inner
            else:
                scale = scale * inner
        value = self._value(data)
        if np.all(scale == 1):
            pass
        elif self._once(data) and self._is_convolution(value):
            weight = self._array(value.args[1])
            assert weight is not None
            scaled = to_constant(weight * scale.reshape(-1, 1, 1, 1).astype(weight.dtype))
            data = self.builder_.emit(relax.Call(value.op, [value.args[0], scaled], value.attrs, value.ty_args))
        else:
            data = self.builder_.emit(relax.op.multiply(data, to_constant(_per_channel(scale))))
        return self.builder_.normalize(relax.op.add(data, to_constant(_per_channel(shift))))


def _per_channel(vector: Array) -> Array:
    return vector.astype(np.float32).reshape(1, -1, 1, 1)


def _is_call(expr: relax.Expr, name: str) -> bool:
    return isinstance(expr, relax.Call) and getattr(expr.op, "name", "") == name


def _is_static(expr: relax.Expr) -> bool:
    shape = expr.ty.shape
    return isinstance(shape, relax.ShapeExpr) and all(isinstance(dim, tvm.tirx.IntImm) for dim in shape.values)


def _is_feature_map(expr: relax.Expr) -> bool:
    return (
        isinstance(expr.ty, relax.TensorType)
        and expr.ty.ndim == 4
        and _is_static(expr)
        and str(expr.ty.dtype) == "float32"
    )


def fold(mod: tvm.IRModule) -> tvm.IRModule:
    """Evaluate constant weights and absorb batch normalisations in ``main``; dead code is left to a later pass."""
    uses = _Uses()
    uses.visit_expr(mod["main"])
    folder = _Fold(mod, uses.count)
    mod = tvm.IRModule(dict(mod.functions.items()), attrs=mod.attrs)
    mod["main"] = folder.visit_expr(mod["main"])
    return mod
