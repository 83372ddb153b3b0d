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
"""Added to a float32 between -2^22 and 2^22, it leaves the nearest whole number, half to even, in the lowest bits.

TVM has no vectors of ``nearbyint``.
"""
BITS_OF_ROUNDING = 0x4B400000
"""The float32 ``ROUNDING`` as int32; its lowest byte is zero."""
LOWEST_BYTE = 0xFF


def encoded(value: Any, inverse: Any, zero: Any, top: int) -> Any:
    """The code of the nearest number of a grid with the codes 0 to ``top``; that of NaN is one of these two.

    The place is kept within bounds by its bits, which stand in the order of the numbers as long as these are positive,
    and before zero when they are not: whole numbers are compared by units that products do not need.

    Args:
        inverse: one over the grid's scale.
        zero: the code of zero, in float32.
    """
    place = value * inverse + (zero + tirx.const(ROUNDING, "float32"))
    low, high = (tirx.const(BITS_OF_ROUNDING + each, "int32") for each in (0, top))
    within = tirx.min(tirx.max(tirx.reinterpret("int32", place), low), high)
    # TVM's analysis casts the bounds of what it casts, and bytes do not hold them; LLVM leaves the mask out.
    return tirx.bitwise_and(within, tirx.const(LOWEST_BYTE, "int32")).astype(CODES)


def decoded(code: Any, scale: Any, zero: Any) -> Any:
    """The float32 that a code stands for."""
    return (code.astype("float32") - zero) * scale
