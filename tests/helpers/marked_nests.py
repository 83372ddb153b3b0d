"""Loop nests with marks, for the static model."""

from __future__ import annotations

from tunesmith.analysis.cpu_model import CpuModel
from tunesmith.analysis.nest import (
    Access,
    Block,
    Buffer,
    Extent,
    Factor,
    Index,
    Kind,
    Loop,
    Marks,
    Nest,
    Product,
)
from tunesmith.messages import Calibration
from tunesmith.space.knobs import Categorical, PerfectTile

MEASURED = Calibration(
    peak_flops=5e11,
    bandwidth=4e10,
    noise_floor=0.02,
    reference_seconds=1e-3,
    latest_seconds=1e-3,
    measured_at="",
    drift=1.0,
    cache_sizes=(32768, 1 << 20, 1 << 24),
)
AVX512 = CpuModel.of(2, 64, 32, MEASURED)


F = 4
"""Bytes of a float."""


def fixed(number: int, steps: int, *axes: int, kind: Kind = Kind.SERIAL, reduction: bool = False) -> Loop:
    return Loop(number, Extent.of(Product(steps)), axes, kind, reduction)


def marked(vector: int = 64, parallel: int = 8) -> tuple[Nest, tuple[PerfectTile, PerfectTile, Categorical]]:
    """Rows and columns, each in two parts, and a reduction of 4 between; marks are left to the postprocessing."""
    parts = [[Extent.of(Product(1, (Factor(knob, part),))) for part in range(2)] for knob in range(2)]
    loops = (
        Loop(0, parts[0][0], (0,)),
        Loop(1, parts[1][0], (1,)),
        fixed(2, 4, 2, reduction=True),
        Loop(3, parts[0][1], (0,)),
        Loop(4, parts[1][1], (1,)),
    )
    i, j, r = (Index(((axis, 1),)) for axis in range(3))
    block = Block("C", (16, 64, 4), loops, Access(0, (i, j)), (Access(1, (i, r)),), 1.0, update=True)
    nest = Nest(
        (block,),
        (Buffer("C", (16, 64), F), Buffer("A", (16, 4), F)),
        ((), (), (0, 16)),
        Marks(parallel, vector, Product(1, (Factor(2),))),
    )
    return nest, (PerfectTile(16, 2), PerfectTile(64, 2), Categorical(2))


class Source:
    """Nests of a space with a location: one is understood, the other is not."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, ...]] = []

    @property
    def made(self) -> int:
        return len(set(self.asked))

    def structural(self, sketch: str) -> tuple[int, ...]:
        return (3,)

    def nest(self, sketch: str, decided: tuple[int, ...]) -> Nest | None:
        self.asked.append(decided)
        return marked()[0] if decided == (-1,) else None

    def primitives(self, sketch: str) -> dict[str, int]:
        return {"Split": 2}
