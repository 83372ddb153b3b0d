"""How far apart two workloads of one family are, by the extents of their arguments."""

from __future__ import annotations

import math
from collections.abc import Sequence

Shapes = Sequence[Sequence[int]]
"""Shapes of a workload's arguments, the output last."""


def apart(mine: Shapes, other: Shapes) -> float:
    """The sum of how many times each extent is larger or smaller than the other's, as logarithms to base two.

    Infinite where the arguments differ in number or rank: then the programs are not of one form.
    """
    if [len(shape) for shape in mine] != [len(shape) for shape in other]:
        return math.inf
    pairs = [pair for a, b in zip(mine, other, strict=True) for pair in zip(a, b, strict=True)]
    return sum(abs(math.log2(max(a, 1)) - math.log2(max(b, 1))) for a, b in pairs)
