"""Depthwise convolution, in blocks of channels or in NCHW, and convolutions of several groups."""

from __future__ import annotations

from collections.abc import Iterator

from tvm.s_tir import Schedule

from tunesmith.analysis.cpu_model import CpuModel
from workers.tvm_backend.design_space.rules import windows
from workers.tvm_backend.design_space.rules.base import Rule, Variant


class Depthwise(Rule):
    """Applies to ``Y[.., c, y, x] += X[.., c, f(y, ky), g(x, kx)] * W[c, ky, kx]``, channels blocked or not, and to
    any other product in which one operand depends on every axis of the output, as in convolutions of several groups.

    Sketches: padding copied by bands or read where it is; in NCHW also rows that the compiler vectorises. Knobs: rows
    of a band and of a tile, columns of a tile. What follows is computed on the tile. Where rows were made longer, to
    whole vectors, there is one: a thread copies the planes of some channels, zeros around them, and computes whole rows
    of those; knobs: channels of a thread's chunk, rows of a tile.
    """

    def variants(self, sch: Schedule, cpu: CpuModel) -> Iterator[Variant]:
        """See ``Rule``."""
        found = windows.match(sch)
        if found is not None and found.factors > 1:
            yield from windows.variants(found, cpu)
