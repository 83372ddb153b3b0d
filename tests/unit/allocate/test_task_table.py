from __future__ import annotations

import math

from tunesmith.allocate.base import TaskView
from tunesmith.allocate.table import Table


def test_tasks_become_columns() -> None:
    tasks = [
        TaskView(7, 2.0, 1e9, "conv2d", untuned=0.5, history=(0.4, 0.3), seconds=2.0, exhausted=True),
        TaskView(9, 1.0, 0.0, "pool"),
        TaskView(11, 3.0, 5.0, "conv2d", seconds=4.0),
    ]
    table = Table.of(tasks)
    assert (table.ids, table.histories) == ((7, 9, 11), ((0.4, 0.3), (), ()))
    assert (table.weight.tolist(), table.flops.tolist()) == ([2.0, 1.0, 3.0], [1e9, 0.0, 5.0])
    assert table.family.tolist() == [0, 1, 0]
    assert table.untuned.tolist() == [0.5, math.inf, math.inf]
    assert table.seconds.tolist() == [2.0, 3.0, 4.0], "the others' mean where its own is unknown"
    assert table.exhausted.tolist() == [True, False, False]


def test_where_no_round_has_been_timed_all_take_as_long() -> None:
    assert Table.of([TaskView(1, 1.0, 1.0, "f"), TaskView(2, 1.0, 1.0, "f")]).seconds.tolist() == [1.0, 1.0]


def test_no_tasks_are_empty_columns() -> None:
    table = Table.of([])
    assert table.ids == table.histories == ()
    assert len(table.weight) == len(table.family) == len(table.exhausted) == 0
