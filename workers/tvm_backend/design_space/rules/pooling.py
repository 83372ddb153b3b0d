"""Pooling over windows or whole planes, in blocks of channels or in NCHW, and sums along axes that are not the last."""

from __future__ import annotations

from collections.abc import Iterator

from tvm.s_tir import Schedule

from tunesmith.analysis.cpu_model import CpuModel
from workers.tvm_backend.design_space.rules import windows
from workers.tvm_backend.design_space.rules.base import Rule, Variant


class Pooling(Rule):
    """Applies to a reduction of one tensor whose last axis stays.

    Sketches: padding copied by bands or read where it is; in NCHW also rows that the compiler vectorises. Knobs: rows
    of a band and of a tile, columns of a tile. What follows, as the division of a mean, is computed on the tile.
    """

    def variants(self, sch: Schedule, cpu: CpuModel) -> Iterator[Variant]:
        """See ``Rule``."""
        found = windows.match(sch)
        if found is not None and found.factors == 1:
            yield from windows.variants(found, cpu)
