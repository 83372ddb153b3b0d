"""Other workloads of a family, the most alike first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db.models import WorkloadRow
from tunesmith.space.likeness import Shapes, apart


@dataclass(frozen=True)
class Likeness:
    """What is compared of a workload, which need not be stored.

    Attributes:
        workload: the hash.
        family: the operator.
        flops: the arithmetic of a call.
        shapes: what the arguments have, the output last.
    """

    workload: str
    family: str
    flops: float
    shapes: Shapes

    @classmethod
    def of(cls, row: WorkloadRow) -> Likeness:
        """That of a stored one."""
        return cls(row.hash, row.family, row.flops, _shapes(row.args))


def nearest(session: Session, mine: Likeness, known: sa.ColumnElement[bool]) -> list[tuple[str, float]]:
    """Hashes and FLOPs of the other workloads of the family for which ``known`` holds.

    Those whose arguments have the most similar extents come first; where none has arguments of these ranks, those with
    the most similar FLOPs.
    """
    query = sa.select(WorkloadRow.hash, WorkloadRow.flops, WorkloadRow.args).where(
        WorkloadRow.family == mine.family, WorkloadRow.hash != mine.workload, known
    )
    size = math.log1p(mine.flops)
    found = [
        (apart(mine.shapes, _shapes(args)), abs(math.log1p(flops) - size), key, flops)
        for key, flops, args in session.execute(query)
    ]
    return [(key, flops) for *_, key, flops in sorted(found)]


def _shapes(args: Sequence[Sequence[Sequence[int]]]) -> Shapes:
    """The shapes in what a row has: type and shape of each argument."""
    return [shape for _, shape in args]
