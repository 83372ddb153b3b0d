"""Numbers on a grid as bytes: what quantises them, and what gives the numbers back, as expressions.

A grid is at most 256 multiples of a scale. Scales and the codes of zero are tensors without axes, and no literals: so
layers with other scales are the same task.
"""

from __future__ import annotations

from typing import Any

from tvm import tirx

CODES = "uint8"
"""Type of the codes: 0 for the lowest number of a grid."""
WEIGHTS = "int8"
"""Type of weights that are multiplied with codes."""
ROUNDING = 1.5 * 2**23
"""Added to a float32 below 2^22, it leaves the nearest whole number, half to even, in the lowest bits.

TVM has no vectors of ``nearbyint``."""


def encoded(value: Any, inverse: Any, zero: Any, top: int) -> Any:
    """The code of the nearest number of a grid with the codes 0 to ``top``; that of NaN is one of these two.

    Args:
        inverse: one over the grid's scale.
        zero: the code of zero, in float32.
    """
    place = value * inverse + zero
    low, high = tirx.const(0.0, "float32"), tirx.const(float(top), "float32")
    kept = tirx.min(tirx.max(place, low), high)
    return tirx.reinterpret("int32", kept + tirx.const(ROUNDING, "float32")).astype(CODES)


def decoded(code: Any, scale: Any, zero: Any) -> Any:
    """The float32 that a code stands for."""
    return (code.astype("float32") - zero) * scale
