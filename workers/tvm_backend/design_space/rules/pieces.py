"""Where a concatenation goes from one of its operands to the next: pieces of the output that each read one of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from workers.tvm_backend.design_space.rules.stages import Stage, conditions

ABOVE = {"LE": 0, "LT": 1}
"""Comparisons of a constant with an axis, as TVM writes them, and how far above the constant the other piece begins."""


@dataclass(frozen=True)
class Pieces:
    """An output in pieces of equal length, in each of which every condition holds throughout or nowhere.

    Attributes:
        axis: axis of the output that is in pieces.
        count: number of pieces.
    """

    axis: int
    count: int


def pieces(stages: Sequence[Stage], most: int) -> Pieces | None:
    """The pieces of a workload's output, by the conditions in its stages.

    None without conditions, where they are on several axes, and where there would be more than ``most`` pieces.
    """
    shape = stages[-1].spatial
    found: dict[int, list[int]] = {}
    for stage in stages:
        for condition in conditions(stage.block.body):
            axis, begin = _boundary(stage, condition)
            if axis is None or stage.spatial != shape:
                return None
            found.setdefault(axis, []).append(begin)
    if len(found) != 1:
        return None
    ((axis, begins),) = found.items()
    count = shape[axis] // math.gcd(shape[axis], *begins)
    return Pieces(axis, count) if 1 < count <= most else None


def _boundary(stage: Stage, condition: Any) -> tuple[int | None, int]:
    """The axis of a condition, and the first place of it where the condition holds."""
    above = ABOVE.get(type(condition).__name__)
    if above is None or type(condition.a).__name__ != "IntImm":
        return None, 0
    axes = [at for at, variable in enumerate(stage.variables[: len(stage.spatial)]) if condition.b.same_as(variable)]
    return (axes[0], int(condition.a) + above) if axes else (None, 0)
