"""Which other workloads of a family are the most alike."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from rows import add_job, add_task

from db.engine import Sessions
from db.models import WorkloadRow
from db.queries.relatives import Likeness, nearest

pytestmark = pytest.mark.parallel

WIDE, LONG = [[1, 512]], [[512, 1]]


def test_extents_come_before_flops_and_those_before_nothing(sessions: Sessions) -> None:
    shapes = {"mine": WIDE, "of the same extents": WIDE, "of the same FLOPs": LONG, "longer": [[1, 2048]]}
    shapes |= {"flat": [[512]], "flat and large": [[4096]]}
    flops = {"mine": 1e6, "of the same extents": 9e6, "of the same FLOPs": 1e6, "longer": 4e6, "flat": 1e6}
    with sessions.begin() as session:
        add_job(session)
        for position, (name, shape) in enumerate(shapes.items()):
            add_task(session, workload=name, position=position)
            row = session.get_one(WorkloadRow, name)
            row.args, row.flops = [["float32", each] for each in shape], flops.get(name, 8e6)
        session.get_one(WorkloadRow, "flat").family = "conv2d"
    with sessions() as session:
        mine = Likeness.of(session.get_one(WorkloadRow, "mine"))
        found = nearest(session, mine, sa.true())
        some = nearest(session, mine, WorkloadRow.flops < 5e6)
    assert [name for name, _ in found] == ["of the same extents", "longer", "of the same FLOPs", "flat and large"]
    assert some == [("longer", 4e6), ("of the same FLOPs", 1e6)]
