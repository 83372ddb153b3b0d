"""Softmax along rows that fill no vectors: computed in rows that do, and cut.

A reduction keeps partial results in vectors, and no schedule can give a row of 197 elements a thirteenth vector.
"""

from __future__ import annotations

import math
from typing import Any

from tvm import te, tirx

from workers.tvm_backend.passes.layout.compute import LANES

REGISTERS = (4, 2, 1)
"""Vectors of partial results: the most that lengthen a row by no more than a sixteenth."""
SHORTEST = 128
"""Columns from which on it takes less time: 77 took 21 us and not 15, 197 82 and not 231 (Zen 5)."""


def lengthened(columns: int) -> int:
    """How long a row becomes."""
    widths = [-(-columns // (LANES * many)) * LANES * many for many in REGISTERS]
    return next((wide for wide in widths if 16 * (wide - columns) <= columns), widths[-1])


def softmax_rows(x: te.Tensor) -> te.Tensor:
    """e^(x - m) over its sum along the last axis, where m is the row's maximum.

    What a row is lengthened by is minus infinity. So it is no maximum, and adds 0 to the sum; a row that is minus
    infinity throughout is NaN, as without it.

    Args:
        x: [..., C].

    Returns:
        [..., C].
    """
    *rows, columns = (int(extent) for extent in x.shape)
    wide = lengthened(columns)
    lowest = tirx.const(-math.inf, x.dtype)
    source = te.compute(
        (*rows, wide),
        lambda *at: tirx.if_then_else(at[-1] < columns, x(*at), lowest),
        name="softmax_padded",
    )

    def reduced(name: str, reducer: Any, operand: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, wide), "k")
        return te.compute(tuple(rows), lambda *at: reducer(operand(*at, k), axis=k), name=name)

    most = reduced("softmax_maximum", te.max, source)
    powers = te.compute((*rows, wide), lambda *at: tirx.exp(source(*at) - most(*at[:-1])), name="softmax_exp")
    total = reduced("softmax_sum", te.sum, powers)
    return te.compute((*rows, columns), lambda *at: powers(*at) / total(*at[:-1]), name="softmax_rows")
