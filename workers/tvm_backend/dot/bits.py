"""bfloat16 as expressions of its bits.

TVM's own ``bfloat16`` becomes float32 inside of a PrimFunc (``BF16ComputeLegalize``), which breaks whatever takes its
bits. So a tensor of bfloat16 holds its bits as uint16.
"""

from __future__ import annotations

from typing import Any

from tvm import tirx

BITS = "uint16"
"""Type that holds them."""
QUIET_NAN, INFINITY = 0x7FC0, 0x7F800000
"""Bits of a bfloat16 and of a float32."""
SIGN = 0x8000
LEAST_KEY = 0xFF80 ^ 0xFFFF
"""The key of minus infinity."""
PAIR = 2
"""Values in a 32-bit lane."""


def widened(bits: Any) -> Any:
    """The float32 whose upper half ``bits`` are; exact."""
    return tirx.reinterpret("float32", bits.astype("uint32") << tirx.const(16, "uint32"))


def rounded(value: Any) -> Any:
    """A float32 as the bits of the nearest bfloat16, half to even; NaN stays NaN."""
    whole = tirx.reinterpret("uint32", value)
    odd = (whole >> tirx.const(16, "uint32")) & tirx.const(1, "uint32")
    nearest = (whole + odd + tirx.const(0x7FFF, "uint32")) >> tirx.const(16, "uint32")
    # Adding to a NaN's bits could make a zero of it. It is told by its bits: TVM takes value == value for true.
    # It is written as TVM simplifies it, so that a rule knows it again.
    is_nan = tirx.LT(tirx.const(INFINITY, "uint32"), whole & tirx.const(0x7FFFFFFF, "uint32"))
    return tirx.Select(is_nan, tirx.const(QUIET_NAN, "uint32"), nearest).astype(BITS)


def key_of(bits: Any) -> Any:
    """Bits as a whole number in the order of what they stand for: those of negative numbers are in the opposite one."""
    negative = tirx.const(0, BITS) - (bits >> tirx.const(15, BITS))
    return bits ^ (negative | tirx.const(SIGN, BITS))


def of_key(key: Any) -> Any:
    """Inverse of :func:`key_of`."""
    negative = (key >> tirx.const(15, BITS)) - tirx.const(1, BITS)
    return key ^ (negative | tirx.const(SIGN, BITS))


def widened_load(expression: Any) -> Any | None:
    """The load of bits that ``expression`` widens; None when it is something else."""
    if type(expression).__name__ != "Call" or not str(getattr(expression.op, "name", "")).endswith("reinterpret"):
        return None
    shifted = expression.args[0]
    if type(shifted).__name__ != "LShift":
        return None
    cast = shifted.a
    load: Any = cast.value if type(cast).__name__ == "Cast" else None
    return load if type(load).__name__ == "TensorLoad" and str(load.source.dtype) == BITS else None
