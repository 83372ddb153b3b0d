"""Operands of an instruction for narrow products: 32-bit lanes, each of which some values share."""

from __future__ import annotations

import enum
from dataclasses import replace

from tunesmith.analysis.nest import Index


class Lanes(enum.Enum):
    """Which part of a buffer's shape shares 32-bit lanes."""

    NONE = enum.auto()
    DIMENSION = enum.auto()
    PART = enum.auto()


def of_lanes(indices: tuple[Index, ...], pair: int, group: int) -> tuple[Lanes, tuple[Index, ...]]:
    """Indices of lanes: what shares one is the last dimension, or the fastest part of it."""
    *outer, last = indices
    strides = dict(last.strides)
    if strides.pop(pair, 0) != 1 or last.divide != 1 or last.modulo:
        return Lanes.NONE, indices
    if not strides:
        return Lanes.DIMENSION, tuple(outer)
    if any(stride % group for stride in strides.values()):
        return Lanes.NONE, indices
    moved = tuple(sorted((axis, stride // group) for axis, stride in strides.items()))
    return Lanes.PART, (*outer, replace(last, strides=moved))
