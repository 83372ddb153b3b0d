"""A candidate of one workload as a candidate of a similar one: what is left of its decisions where extents differ."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tunesmith.space.knobs import ComputeLocation, Knob, PerfectTile
from tunesmith.types import Decision

LISTED = 2**16
"""Factorisations that are looked through for the nearest one; a tile with more is not rescaled."""


def rescaled(decisions: Sequence[Decision], old: Sequence[Knob], new: Sequence[Knob]) -> tuple[Decision, ...] | None:
    """The decisions on ``new`` knobs that are most like those on ``old`` ones; None where the knobs differ.

    Inner loops, which fill registers and caches, keep their extents as far as divisors allow and the outermost loop
    takes up the difference: the factorisation that is nearest to that in the logarithms of its factors. Locations are
    clamped to their range, categories stay.
    """
    if len(old) != len(new) or not all(map(_alike, old, new)):
        return None
    return tuple(_nearest(d, knob) for d, knob in zip(decisions, new, strict=True))


def _alike(old: Knob, new: Knob) -> bool:
    if isinstance(old, PerfectTile) and isinstance(new, PerfectTile):
        return old.parts == new.parts and new.size <= LISTED
    if isinstance(old, ComputeLocation) and isinstance(new, ComputeLocation):
        return True
    return old == new


def _nearest(decision: Decision, knob: Knob) -> Decision:
    if isinstance(knob, PerfectTile):
        assert isinstance(decision, tuple)
        wanted = np.log2(np.array(decision, dtype=np.float64))
        wanted[0] = np.log2(knob.extent) - wanted[1:].sum()
        choices = np.log2(knob.values(np.arange(knob.size)))
        return knob.decisions(np.argmin(((choices - wanted) ** 2).sum(axis=1), keepdims=True))[0]
    if isinstance(knob, ComputeLocation):
        assert isinstance(decision, int)
        return min(max(decision, knob.low), knob.high)
    return decision
