"""Casts from and to numbers of eight and fewer bits, as ONNX rounds and saturates them, and casts of bits.

TVM's own neither saturate nor know the types without infinities. Here a float8 is read by a table of its 256 values and
made of the bits of a float32. Numbers of fewer than eight bits are kept one to a byte, see :mod:`.packed`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import tvm
from tvm import relax, te, tirx

from workers.tvm_backend.frontends.onnx.attention import Attributes, Emit
from workers.tvm_backend.frontends.onnx.packed import KEPT
from workers.tvm_backend.frontends.refusals import fixed_extents, unsupported

INFINITE = 0x7F800000
"""Bits of infinity in float32."""
MAGNITUDE = 0x7FFFFFFF
"""All bits of a float32 but its sign."""
FRACTION = 23
"""Bits of the fraction in float32."""
BIAS = 127
"""What is added to an exponent in float32."""
SCALES = "float8_e8m0fnu"
"""The type that has powers of two alone."""


@dataclass(frozen=True)
class Format:
    """How few bits hold a number.

    Attributes:
        fraction: bits of the fraction.
        lowest: exponent of the numbers without a leading one, and of the next larger ones.
        largest: code of the largest finite number.
        beyond: code of larger numbers that are not saturated.
        nan: code of NaN.
        sign: code of the sign.
        zeros: whether there is a zero with a sign.
    """

    fraction: int
    lowest: int
    largest: int
    beyond: int
    nan: int
    sign: int = 0x80
    zeros: bool = True


FORMATS: Mapping[str, Format] = {
    "float8_e4m3fn": Format(3, -6, 0x7E, 0x7F, 0x7F),
    "float8_e4m3fnuz": Format(3, -7, 0x7F, 0x80, 0x80, zeros=False),
    "float8_e5m2": Format(2, -14, 0x7B, 0x7C, 0x7E),
    "float8_e5m2fnuz": Format(2, -15, 0x7F, 0x80, 0x80, zeros=False),
    "float4_e2m1fn": Format(1, 0, 7, 7, 0, sign=8),
}
"""ONNX's types by the names that NumPy and TVM have for them."""


def kind_of(element: int) -> str:
    """The name of one of ONNX's types."""
    return str(onnx.helper.tensor_dtype_to_np_dtype(element))


def decoded(emit: Emit, x: relax.Expr) -> relax.Expr:
    """Numbers of eight bits as float32; others as they are."""
    kind = str(x.ty.dtype)
    if not kind.startswith("float8"):
        return x
    table = np.arange(256, dtype=np.uint8).view(getattr(ml_dtypes, kind)).astype(np.float32)
    places = emit(relax.op.astype(_bits(x, "uint8"), "int64"))
    return emit(relax.op.take(relax.const(table), places, 0, mode="fast"))


def encoded(emit: Emit, x: relax.Expr, kind: str, saturate: bool = True, round_mode: bytes = b"up") -> relax.Expr:
    """Floating-point numbers as numbers of a type in ``FORMATS``, or of powers of two."""
    x = x if str(x.ty.dtype) == "float32" else emit(relax.op.astype(x, "float32"))
    builder = relax.BlockBuilder.current()
    if kind == SCALES:
        code = functools.partial(_power_code, saturate=saturate, mode=round_mode.decode())
    else:
        code = functools.partial(_code, form=FORMATS[kind], saturate=saturate)
    codes = builder.emit_te(lambda a: code(a), x, primfunc_name_hint="few_bits")
    if kind not in KEPT:
        return _bits(codes, kind)
    table = np.arange(16, dtype=np.uint8).view(getattr(ml_dtypes, kind)).astype(KEPT[kind])
    places = emit(relax.op.astype(codes, "int64"))
    return emit(relax.op.take(relax.const(table), places, 0, mode="fast"))


def _bits(x: relax.Expr, kind: str) -> relax.Expr:
    """The same bits as another type of the same width."""

    def same(a: te.Tensor) -> te.Tensor:
        return te.compute(a.shape, lambda *at: tirx.reinterpret(kind, a(*at)), name="bits")

    return relax.BlockBuilder.current().emit_te(same, x, primfunc_name_hint="bits")


def _code(x: te.Tensor, form: Format, saturate: bool) -> te.Tensor:
    """Codes of the nearest numbers, of two equally near ones the even one."""

    lowest = BIAS + form.lowest

    def of(*at: Any) -> tirx.PrimExpr:
        bits = tirx.reinterpret("uint32", x(*at))
        magnitude = bits & _number(MAGNITUDE)
        exponent = tirx.max(magnitude >> _number(FRACTION), _number(lowest))
        unit = tirx.reinterpret("float32", (_number(2 * BIAS + form.fraction) - exponent) << _number(FRACTION))
        steps = tirx.nearbyint(tirx.reinterpret("float32", magnitude) * unit).astype("uint32")
        code = ((exponent - _number(lowest)) << _number(form.fraction)) + steps
        over = tirx.any(magnitude >= _number(INFINITE), code > _number(form.largest))
        code = tirx.Select(over, _number(form.largest if saturate else form.beyond), code)
        code = tirx.Select(magnitude > _number(INFINITE), _number(form.nan), code)
        negative = bits > _number(MAGNITUDE)
        if not form.zeros:
            negative = tirx.all(negative, code > _number(0), code < _number(form.sign))
        return tirx.Select(negative, code | _number(form.sign), code).astype("uint8")

    return te.compute(x.shape, of, name="code")


def _number(value: int) -> tirx.PrimExpr:
    """A constant of uint32: TVM takes arithmetic on int32 for that of indices, and widens it."""
    return tirx.const(value, "uint32")


def _power_code(x: te.Tensor, saturate: bool, mode: str) -> te.Tensor:
    """Codes of powers of two: the next larger one, the next smaller one or the nearer one; 255 is NaN."""
    over = {"up": 0, "nearest": (1 << (FRACTION - 1)) - 1, "down": (1 << FRACTION) - 1}[mode]

    def of(*at: Any) -> tirx.PrimExpr:
        bits = tirx.reinterpret("uint32", x(*at))
        more = (bits & _number((1 << FRACTION) - 1)) > _number(over)
        code = (bits & _number(MAGNITUDE)) >> _number(FRACTION)
        code = tirx.Select(more, code + _number(1), code)
        code = tirx.min(code, _number(254 if saturate else 255))
        return tirx.Select(bits > _number(INFINITE), _number(255), code).astype("uint8")

    return te.compute(x.shape, of, name="code")


def _cast(importer: Any, inputs: Any, attrs: Attributes, opset: int) -> relax.Expr | None:
    """A cast to a type that ``to`` has the number of."""
    return _to(importer, inputs[0], kind_of(attrs["to"]), attrs, opset)


def _cast_like(importer: Any, inputs: Any, attrs: Attributes, opset: int) -> relax.Expr | None:
    if isinstance(inputs[1].ty, relax.ShapeType):
        return None
    return _to(importer, inputs[0], str(inputs[1].ty.dtype), attrs, opset)


def _to(importer: Any, x: relax.Expr, kind: str, attrs: Attributes, opset: int) -> relax.Expr | None:
    """A cast from or to few bits; None for others."""
    emit = importer.bb.emit
    if isinstance(x.ty, relax.ShapeType):
        return None
    few = kind in FORMATS or kind in KEPT or kind == SCALES
    if not few and not str(x.ty.dtype).startswith("float8"):
        return None
    x = decoded(emit, x)
    if kind in FORMATS or kind == SCALES:
        return encoded(emit, x, kind, bool(attrs.get("saturate", 1)), attrs.get("round_mode", b"up"))
    if kind not in KEPT:
        own = {"to": onnx.helper.np_dtype_to_tensor_dtype(np.dtype(kind)), "tvm_custom": attrs["tvm_custom"]}
        return importer._converted("Cast", [x], own, opset)
    width = 4 if kind.endswith("4") else 2
    x = emit(relax.op.astype(x, "int32"))
    low = relax.const(0 if kind.startswith("u") else 1 << (width - 1), "int32")
    turned = emit(relax.op.bitwise_and(emit(relax.op.add(x, low)), relax.const((1 << width) - 1, "int32")))
    return relax.op.astype(emit(relax.op.subtract(turned, low)), KEPT[kind])


def _bit_cast(importer: Any, inputs: Any, attrs: Attributes, opset: int) -> relax.Expr:
    kind = kind_of(attrs["to"])
    if kind in KEPT or (kind == "bool") != (str(inputs[0].ty.dtype) == "bool"):
        if str(inputs[0].ty.dtype) == "bool" and kind in {"uint8", "int8"}:
            return relax.op.astype(inputs[0], kind)
        raise unsupported("BitCast", f"the types {inputs[0].ty.dtype} and {kind}")
    return _bits(inputs[0], kind)


def _scaled(importer: Any, name: str, inputs: Any, attrs: Attributes) -> tuple[relax.Expr, relax.Expr | None]:
    """Scale and zero point, as float32, of each element of operand 0: of it all, of a slice or of a block."""
    emit, extents = importer.bb.emit, fixed_extents(name, inputs[0])
    axis, block = attrs.get("axis", 1), attrs.get("block_size", 0)

    def spread(x: relax.Expr | None) -> relax.Expr | None:
        if x is None:
            return None
        x = emit(relax.op.astype(decoded(emit, x), "float32"))
        if block:
            wide = emit(relax.op.repeat(x, block, axis))
            return emit(relax.op.strided_slice(wide, [axis % len(extents)], [0], [extents[axis]]))
        if x.ty.ndim != 1 or not extents:
            return x
        shape = [extent if at == axis % len(extents) else 1 for at, extent in enumerate(extents)]
        return emit(relax.op.reshape(x, shape if fixed_extents(name, x)[0] > 1 else [1]))

    scale = spread(inputs[1])
    assert scale is not None  # ONNX's checker has seen it
    return scale, spread(inputs[2] if len(inputs) > 2 else None)


def _is_few(x: Any) -> bool:
    return x is not None and str(x.ty.dtype).startswith("float8")


def _quantize(importer: Any, inputs: Any, attrs: Attributes, opset: int) -> relax.Expr | None:
    """To float8, or by blocks."""
    _check_scale(inputs[1])
    point = inputs[2] if len(inputs) > 2 else None
    made = attrs.get("output_dtype", 0)
    kind = kind_of(made) if made else "uint8" if point is None else str(point.ty.dtype)
    if not (kind in FORMATS or kind in KEPT or attrs.get("block_size")):
        return None
    emit = importer.bb.emit
    scale, zero = _scaled(importer, "QuantizeLinear", inputs, attrs)
    x = emit(relax.op.divide(emit(relax.op.astype(inputs[0], "float32")), scale))
    if kind in FORMATS:
        return encoded(emit, x, kind, bool(attrs.get("saturate", 1)))
    x = emit(relax.op.round(x))
    x = x if zero is None else emit(relax.op.add(x, zero))
    return relax.op.astype(emit(relax.op.clip(x, *bounds_of(kind))), KEPT.get(kind, kind))


def _check_scale(scale: relax.Expr) -> None:
    """Refuse to divide by what is no scale."""
    if not isinstance(scale, tvm.ir.GenericConst):
        return
    wrong = [value for value in np.asarray(scale.value.numpy(), np.float64).reshape(-1) if not abs(value) > 0]
    if wrong:
        raise unsupported(
            "QuantizeLinear", f"a scale of {wrong[0]:g}", "quantise the model with other calibration data"
        )


def bounds_of(kind: str) -> tuple[float, float]:
    """The least and the largest number of a type of whole numbers."""
    found = ml_dtypes.iinfo(kind)
    return float(found.min), float(found.max)


def _dequantize(importer: Any, inputs: Any, attrs: Attributes, opset: int) -> relax.Expr | None:
    """From float8, or by blocks."""
    if not (_is_few(inputs[0]) or attrs.get("block_size") or str(inputs[0].ty.dtype).startswith("float")):
        return None
    emit = importer.bb.emit
    scale, zero = _scaled(importer, "DequantizeLinear", inputs, attrs)
    x = emit(relax.op.astype(decoded(emit, inputs[0]), "float32"))
    x = x if zero is None else emit(relax.op.subtract(x, zero))
    made = attrs.get("output_dtype", 0)
    kind = kind_of(made) if made else str(inputs[1].ty.dtype)
    found = emit(relax.op.multiply(x, scale))
    return found if kind == "float32" else relax.op.astype(found, kind)


Convert = Callable[[Any, Any, Attributes, int], relax.Expr | None]
CONVERTED: Mapping[str, Convert] = {
    "BitCast": _bit_cast,
    "Cast": _cast,
    "CastLike": _cast_like,
    "DequantizeLinear": _dequantize,
    "QuantizeLinear": _quantize,
}
"""How each is converted; a converter returns None for what TVM's importer does rightly."""
