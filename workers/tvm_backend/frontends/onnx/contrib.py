"""onnxruntime's own operators on float32, which the models have that it optimised and saved: what it fused, as parts.

TVM fuses by itself, and knows the parts. Their definitions are those of ``ContribOperators.md`` of onnxruntime. With
them a few of ONNX's that TVM's importer lacks, or does for the last axis alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from tvm import relax

from workers.tvm_backend.frontends.onnx.attention import CONVERTED as ATTENTION
from workers.tvm_backend.frontends.onnx.attention import PREFIX, Attributes, Emit
from workers.tvm_backend.frontends.onnx.fourier import CONVERTED as FOURIER
from workers.tvm_backend.frontends.refusals import fixed_extents, unsupported

STANDARD = ("", "ai.onnx")
"""Names of ONNX's own domain."""
Convert = Callable[[Any, Any, Attributes, int], relax.Expr]


def qualify(nodes: Sequence[onnx.NodeProto]) -> None:
    """Put the domain of operators that are not ONNX's own before their names: some are called like ONNX's."""
    for node in nodes:
        if node.domain not in STANDARD:
            node.op_type = f"{node.domain}.{node.op_type}"
            node.domain = STANDARD[0]


def normalised(
    emit: Emit, x: relax.Expr, gamma: relax.Expr, beta: relax.Expr | None, axis: int, epsilon: float
) -> list[relax.Expr]:
    """A layer's normalisation from ``axis`` on, and the mean and the inverse deviation that it divides by."""
    kind = str(x.ty.dtype)
    axes = list(range(axis % x.ty.ndim, x.ty.ndim))
    if beta is None:
        beta = relax.const(np.zeros([int(extent) for extent in gamma.ty.shape], kind), kind)
    spread = emit(relax.op.add(emit(relax.op.variance(x, axes, keepdims=True)), relax.const(epsilon, kind)))
    return [
        emit(relax.op.nn.layer_norm(x, gamma, beta, axes, epsilon)),
        emit(relax.op.mean(x, axes, keepdims=True)),
        emit(relax.op.rsqrt(spread)),
    ]


def _skip_normalised(importer: Any, inputs: Any, attrs: Attributes, opset: int) -> relax.Expr:
    emit, total = _summed(importer, inputs[0], inputs[1], inputs[4])
    return relax.Tuple([*normalised(emit, total, inputs[2], inputs[3], -1, attrs.get("epsilon", 1e-12)), total])


def _skip_simplified(importer: Any, inputs: Any, attrs: Attributes, opset: int) -> relax.Expr:
    emit, total = _summed(importer, inputs[0], inputs[1], inputs[3])
    found, inverse = _by_root(emit, total, inputs[2], -1, attrs.get("epsilon", 1e-5))
    return relax.Tuple([found, inverse, inverse, total])


def _simplified(importer: Any, inputs: Any, attrs: Attributes, opset: int) -> relax.Expr:
    """``SimplifiedLayerNormalization``, and ONNX's ``RMSNormalization``, which has one result."""
    found = _by_root(importer.bb.emit, inputs[0], inputs[1], attrs.get("axis", -1), attrs.get("epsilon", 1e-5))
    return found[0] if attrs["tvm_custom"]["num_outputs"] == 1 else relax.Tuple(found)


def _by_root(emit: Emit, x: relax.Expr, gamma: relax.Expr, axis: int, epsilon: float) -> list[relax.Expr]:
    """``x`` over the root of its mean square from ``axis`` on, and that root's inverse."""
    axes = list(range(axis % x.ty.ndim, x.ty.ndim))
    square = emit(relax.op.mean(emit(relax.op.multiply(x, x)), axes, keepdims=True))
    inverse = emit(relax.op.rsqrt(emit(relax.op.add(square, relax.const(epsilon, str(x.ty.dtype))))))
    if len(axes) == 1 and gamma.ty.ndim == 1:
        return [emit(relax.op.nn.rms_norm(x, gamma, axes, epsilon)), inverse]
    return [emit(relax.op.multiply(emit(relax.op.multiply(x, inverse)), gamma)), inverse]


def _norm(importer: Any, inputs: Any, attrs: Attributes, opset: int) -> relax.Expr:
    """``LpNormalization``: along an axis, of all absolute values or of squares; zeros stay zeros."""
    emit, x, axis = importer.bb.emit, inputs[0], attrs.get("axis", -1)
    if attrs.get("p", 2) == 1:
        length = emit(relax.op.sum(emit(relax.op.abs(x)), [axis], keepdims=True))
    else:
        length = emit(relax.op.sqrt(emit(relax.op.sum(emit(relax.op.multiply(x, x)), [axis], keepdims=True))))
    zero = emit(relax.op.equal(length, _of_kind(0.0, x)))
    return relax.op.divide(x, emit(relax.op.where(zero, _of_kind(1.0, x), length)))


def _reversed(importer: Any, inputs: Any, attrs: Attributes, opset: int) -> relax.Expr:
    """``ReverseSequence``: the first steps of each sequence, as many as it has."""
    emit, (x, lengths) = importer.bb.emit, inputs[:2]
    time, batch = attrs.get("time_axis", 0), attrs.get("batch_axis", 1)
    extents = fixed_extents("ReverseSequence", x)
    places = relax.const(np.arange(extents[time])[:, None], "int64")
    lengths = emit(relax.op.expand_dims(emit(relax.op.astype(lengths, "int64")), 0))
    back = emit(relax.op.subtract(emit(relax.op.subtract(lengths, relax.const(1, "int64"))), places))
    source = emit(relax.op.where(emit(relax.op.less(places, lengths)), back, places))  # [steps, sequences]
    if time > batch:
        source = emit(relax.op.permute_dims(source, [1, 0]))
    shape = [extent if at in (time, batch) else 1 for at, extent in enumerate(extents)]
    wide = emit(relax.op.broadcast_to(emit(relax.op.reshape(source, shape)), extents))
    return relax.op.gather_elements(x, wide, time)


def _summed(importer: Any, x: relax.Expr, skip: relax.Expr, bias: relax.Expr | None) -> tuple[Emit, relax.Expr]:
    emit: Emit = importer.bb.emit
    total = emit(relax.op.add(x, skip))
    return emit, total if bias is None else emit(relax.op.add(total, bias))


def _convolution(importer: Any, inputs: Any, attrs: Attributes, opset: int) -> relax.Expr:
    """``FusedConv``: a sum with a fourth operand comes before the activation."""
    own = {"activation", "activation_params"}
    rest = {name: value for name, value in attrs.items() if name not in own}
    found = importer.bb.emit(importer._convert_operator("Conv", type(inputs)(inputs[:3]), rest, opset))
    if len(inputs) > 3 and inputs[3] is not None:
        found = importer.bb.emit(relax.op.add(found, inputs[3]))
    return _activated("FusedConv", found, attrs, attrs.get("activation_params", []))


def _product(importer: Any, inputs: Any, attrs: Attributes, opset: int) -> relax.Expr:
    """``FusedGemm``."""
    names = ("activation_alpha", "activation_beta", "activation_gamma")
    rest = {name: value for name, value in attrs.items() if name not in {"activation", *names}}
    found = importer.bb.emit(importer._convert_operator("Gemm", inputs, rest, opset))
    return _activated("FusedGemm", found, attrs, [attrs[name] for name in names if name in attrs])


def _activated(name: str, x: relax.Expr, attrs: Attributes, values: Sequence[float]) -> relax.Expr:
    activation = attrs.get("activation", b"").decode()
    if not activation:
        return x
    if activation not in ACTIVATIONS:
        raise unsupported(name, f"the activation {activation}")
    usual, make = ACTIVATIONS[activation]
    return make(x, *[*values, *usual[len(values) :]])


def _of_kind(value: float, x: relax.Expr) -> relax.Expr:
    return relax.const(value, str(x.ty.dtype))


def _hard_sigmoid(x: relax.Expr, alpha: float, beta: float) -> relax.Expr:
    return relax.op.clip(relax.op.add(relax.op.multiply(x, _of_kind(alpha, x)), _of_kind(beta, x)), 0.0, 1.0)


ACTIVATIONS: Mapping[str, tuple[tuple[float, ...], Callable[..., relax.Expr]]] = {
    "Relu": ((), lambda x, *_: relax.op.nn.relu(x)),
    "Tanh": ((), lambda x, *_: relax.op.tanh(x)),
    "Sigmoid": ((), lambda x, *_: relax.op.sigmoid(x)),
    "LeakyRelu": ((0.01,), relax.op.nn.leakyrelu),
    "Clip": ((-3.4e38, 3.4e38), relax.op.clip),
    "HardSigmoid": ((0.2, 0.5), _hard_sigmoid),
}
"""Parameters that are left out, and how each is made."""


def _matmul(importer: Any, inputs: Any, attrs: Attributes, opset: int) -> relax.Expr:
    """``FusedMatMul``."""
    if attrs.get("transBatchA") or attrs.get("transBatchB"):
        raise unsupported("FusedMatMul", "transBatchA or transBatchB")
    sides = []
    for side, flag in zip(inputs[:2], ("transA", "transB"), strict=True):
        axes = list(range(side.ty.ndim))
        swapped = attrs.get(flag) and len(axes) > 1
        sides.append(importer.bb.emit(relax.op.permute_dims(side, [*axes[:-2], *axes[:-3:-1]])) if swapped else side)
    found = importer.bb.emit(relax.op.matmul(*sides))
    return found if attrs.get("alpha", 1.0) == 1.0 else relax.op.multiply(found, _of_kind(attrs["alpha"], found))


def _quick_gelu(importer: Any, inputs: Any, attrs: Attributes, opset: int) -> relax.Expr:
    x = inputs[0]
    steep = relax.op.multiply(x, _of_kind(attrs.get("alpha", 1.702), x))
    return relax.op.multiply(x, relax.op.sigmoid(steep))


def _as_tvm(name: str) -> Convert:
    return lambda importer, inputs, attrs, opset: importer._convert_operator(name, inputs, attrs, opset)


CONVERTED: Mapping[str, Convert] = {
    "SimplifiedLayerNormalization": _simplified,
    "RMSNormalization": _simplified,
    "LpNormalization": _norm,
    "ReverseSequence": _reversed,
    PREFIX + "SkipLayerNormalization": _skip_normalised,
    PREFIX + "SkipSimplifiedLayerNormalization": _skip_simplified,
    PREFIX + "FusedConv": _convolution,
    PREFIX + "FusedGemm": _product,
    PREFIX + "FusedMatMul": _matmul,
    PREFIX + "QuickGelu": _quick_gelu,
    PREFIX + "Gelu": lambda importer, inputs, attrs, opset: relax.op.nn.gelu(inputs[0]),
    **{PREFIX + name: _as_tvm(name) for name in ("BiasGelu", "EmbedLayerNormalization", "FastGelu", "MatMulInteger16")},
    **ATTENTION,
    **FOURIER,
}
"""How each is converted, by its name with its domain."""
NOT_ONNX = frozenset(
    {
        "BiasGelu",
        "EmbedLayerNormalization",
        "FastGelu",
        "MatMulInteger16",
        "SkipLayerNormalization",
    }
)
"""What TVM's importer has among ONNX's operators, and means onnxruntime's."""
