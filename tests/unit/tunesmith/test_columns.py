"""Tasks as columns say what ``tunesmith.alternatives`` defines."""

from __future__ import annotations

import math
from random import Random

import numpy as np
import pytest

from services.coordinator.curve import Places
from tunesmith.alternatives import TaskLatency, in_use, places
from tunesmith.columns import LatencyColumns, total
from tunesmith.space.base import Floats


def seconds(values: list[float | None]) -> Floats:
    return np.array(values, dtype=np.float64)


def columns(tasks: dict[int, TaskLatency[int]]) -> LatencyColumns:
    direct = [
        0 if task.alternative_of is None else task.alternative_of if task.alternative_of in tasks else -1
        for task in tasks.values()
    ]
    rows = list(tasks.values())
    return LatencyColumns(
        np.array(list(tasks), dtype=np.int64),
        np.array(direct, dtype=np.int64),
        seconds([t.weight for t in rows]),
        seconds([t.untuned for t in rows]),
        seconds([t.best for t in rows]),
        seconds([None] * len(rows)),
    )


def some_tasks(draw: Random) -> dict[int, TaskLatency[int]]:
    """In no order of their ids; ties, tasks without any latency, several alternatives, and some of tasks elsewhere."""
    maybe = lambda: draw.choice([None, draw.randint(1, 4) / 8])  # noqa: E731
    keys = draw.sample(range(1, 99), draw.randint(0, 12))
    direct = keys[: len(keys) // 2]
    return {
        key: TaskLatency(draw.randint(1, 4), maybe(), maybe(), None if key in direct else draw.choice([*direct, 100]))
        for key in keys
    }


def known(values: Floats) -> list[float | None]:
    return [None if math.isnan(value) else value for value in values.tolist()]


@pytest.mark.parametrize("seed", range(40))
def test_columns_say_what_the_definition_says(seed: int) -> None:
    tasks = some_tasks(Random(seed))
    found = columns(tasks)
    assert set(found.ids[found.in_use].tolist()) == in_use(tasks)
    assert known(found.current) == [task.current for task in tasks.values()]
    assert found.known.tolist() == [task.known for task in tasks.values()]
    defined = places(tasks)
    assert found.ids[found.is_direct].tolist() == list(defined)
    assert known(found.place[found.is_direct]) == [place.current for place in defined.values()]
    starts = [place.start if place.known else None for place in defined.values()]
    assert known(found.start[found.is_direct]) == starts
    helpers = [task.alternative_of for task in tasks.values() if task.alternative_of is not None and task.improved]
    assert found.helped.tolist() == [
        key in helpers
        if task.alternative_of is None
        else task.alternative_of in tasks and tasks[task.alternative_of].best is not None
        for key, task in tasks.items()
    ]
    there = {key: task for key, task in tasks.items() if task.alternative_of != 100}
    assert Places.of_columns(columns(there), np.ones(len(there), np.bool_)) == Places.of(there)


def test_a_total_is_of_what_is_known() -> None:
    assert total(seconds([None, 0.25, 0.5])) == 0.75
    assert total(seconds([None])) is None
    assert total(seconds([])) is None


def test_a_place_of_which_nothing_is_known_counts_at_its_rough_latency() -> None:
    nan = math.nan
    found = LatencyColumns(
        np.array([1, 2, 3, 4]),
        np.array([0, 0, 0, 3]),
        np.ones(4),
        untuned=np.array([nan, 4.0, nan, nan]),
        best=np.array([nan, nan, nan, 2.0]),
        rough=np.array([7.0, 7.0, 7.0, nan]),
    )
    assert found.place[:3].tolist() == [7.0, 4.0, 2.0]
    assert found.start[:3].tolist() == [7.0, 4.0, 2.0]
    assert found.guessed.tolist() == [True, False, False, False]
