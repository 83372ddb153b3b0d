"""PyTorch's operators on quantised tensors (``quantized_decomposed``, as its PT2E quantisation writes them) in float32.

A value that is quantised and dequantised equally never becomes a whole number: what follows has the same
float32.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import relax

from workers.tvm_backend.frontends import refusals
from workers.tvm_backend.frontends.torch import constants, resize

OPERATORS = "torch.ao.quantization.fx._decomposed"
"""The module that registers the operators, without which PyTorch cannot load a model that has them."""
QUANTISING = ("quantize_per_tensor.default", "quantize_per_tensor.tensor", "quantize_per_channel.default")
DEFAULT_ZERO = {"uint8": 128}
"""Zero points of symmetric scales, by type; 0 for others."""


def converters() -> Mapping[str, resize.Convert]:
    """For TVM's importer of exported programs, by the operator's name."""
    return {
        **dict.fromkeys(QUANTISING, _quantised),
        **dict.fromkeys((f"de{name}" for name in QUANTISING), _dequantised),
        "choose_qparams.tensor": _chosen,
        "choose_qparams_symmetric.tensor": _chosen,
    }


def check_scales(program: Any) -> None:
    """Refuse to divide by what is no scale.

    Raises:
        UnsupportedOperator: a constant scale of a value that is quantised is 0 or not a number.
    """
    known = constants.constants_of(program)
    for node in program.graph_module.graph.nodes:
        if node.op != "call_function" or getattr(node.target, "__name__", "") not in QUANTISING:
            continue
        scale = node.args[1]
        value = scale if isinstance(scale, float) else known.get(scale)
        given: Any = [] if value is None else np.asarray(value, np.float64).reshape(-1)
        wrong = [each for each in given if not abs(each) > 0]
        if wrong:
            with refusals.at(f"{node.target}, which makes {node.name!r},"):
                raise refusals.unsupported(
                    str(node.target), f"a scale of {wrong[0]:g}", "quantise the model with other calibration data"
                )


@dataclass(frozen=True)
class _Steps:
    """The whole numbers that a tensor is quantised to.

    Attributes:
        scale: float32, in the shape in which it meets the tensor.
        inverse: 1 over the scale, divided in the type that the operator's scale has.
        zero: float32; None for 0.
        least, most: what is kept.
    """

    scale: relax.Expr
    inverse: relax.Expr
    zero: relax.Expr | None
    least: float
    most: float


def _steps(node: Any, importer: Any) -> _Steps:
    _, scale, zero, *rest = node.args
    shape: list[int] = []
    if "per_channel" in str(node.target):
        shape = [1] * importer.env[node.args[0]].ty.ndim
        shape[rest.pop(0)] = -1
    least, most, _ = rest
    if isinstance(scale, float):
        return _Steps(_number(scale), _number(1.0 / scale), _number(zero) if zero else None, least, most)
    emit = importer.block_builder.emit
    scale = emit(relax.op.reshape(importer.env[scale], shape))
    inverse = emit(relax.op.divide(relax.const(1.0, str(scale.ty.dtype)), scale))
    if zero is not None:
        zero = _single(emit, emit(relax.op.reshape(importer.env[zero], shape)))
    return _Steps(_single(emit, scale), _single(emit, inverse), zero, least, most)


def _number(value: float) -> relax.Expr:
    return relax.const(np.float32(value), "float32")


def _single(emit: Any, x: relax.Expr) -> relax.Expr:
    return x if str(x.ty.dtype) == "float32" else emit(relax.op.astype(x, "float32"))


def _whole(node: Any, importer: Any) -> relax.Expr:
    """The steps of what ``node`` quantises, in float32."""
    emit, steps = importer.block_builder.emit, _steps(node, importer)
    x = _single(emit, importer.env[node.args[0]])
    found = emit(relax.op.round(emit(relax.op.multiply(x, steps.inverse))))
    if steps.zero is not None:
        found = emit(relax.op.add(found, steps.zero))
    return emit(relax.op.clip(found, float(steps.least), float(steps.most)))


def _quantised(node: Any, importer: Any) -> relax.Var:
    return importer.block_builder.emit(relax.op.astype(_whole(node, importer), _name(node.args[-1])))


def _dequantised(node: Any, importer: Any) -> relax.Var:
    emit, steps = importer.block_builder.emit, _steps(node, importer)
    source = node.args[0]
    same_scale = getattr(source.target, "__name__", "") in QUANTISING and source.args[1:] == node.args[1:]
    found = _whole(source, importer) if same_scale else _single(emit, importer.env[source])
    if steps.zero is not None:
        found = emit(relax.op.subtract(found, steps.zero))
    made = emit(relax.op.multiply(found, steps.scale))
    wanted = _name(node.kwargs.get("out_dtype") or "float32")
    return made if wanted == "float32" else emit(relax.op.astype(made, wanted))


def _chosen(node: Any, importer: Any) -> relax.Var:
    """A scale and a zero point by a tensor's least and largest value, 0 among them."""
    emit, (x, least, most, smallest, kind) = importer.block_builder.emit, node.args
    x = _single(emit, importer.env[x])
    low = emit(relax.op.minimum(emit(relax.op.min(x)), _number(0.0)))
    high = emit(relax.op.maximum(emit(relax.op.max(x)), _number(0.0)))
    if "symmetric" in str(node.target):
        reach, steps = emit(relax.op.maximum(emit(relax.op.negative(low)), high)), (most - least) / 2
    else:
        reach, steps = emit(relax.op.subtract(high, low)), most - least
    scale = emit(relax.op.maximum(emit(relax.op.divide(reach, _number(steps))), _number(smallest)))
    if "symmetric" in str(node.target):
        zero = relax.const(DEFAULT_ZERO.get(_name(kind), 0), "int64")
    else:
        origin = emit(relax.op.round(emit(relax.op.divide(low, scale))))
        kept = emit(relax.op.clip(emit(relax.op.subtract(_number(least), origin)), float(least), float(most)))
        zero = emit(relax.op.astype(kept, "int64"))
    wide = emit(relax.op.astype(scale, "float64"))
    return emit(relax.Tuple([emit(relax.op.reshape(each, [1])) for each in (wide, zero)]))


def _name(kind: Any) -> str:
    """TVM's, of a type of PyTorch's."""
    return str(kind).removeprefix("torch.")
