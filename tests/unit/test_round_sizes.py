"""Rounds that are smaller than others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from services.coordinator.scheduling.budget import time_for_a_round
from services.coordinator.scheduling.choose import next_round
from services.coordinator.scheduling.snapshot import JobSnapshot, TaskSnapshot
from tunesmith.states import JobState


def task(key: int, **values: Any) -> TaskSnapshot:
    return TaskSnapshot(**{"id": key, "weight": 1.0, "flops": 1e9, "family": "conv2d", **values})


def job(*tasks: TaskSnapshot, **values: Any) -> JobSnapshot:
    return JobSnapshot(**{"id": "a", "state": JobState.RUNNING, "device_class": "d", "allocator": "gradient",
                          "budget_trials": None, "budget_seconds": 3600.0, "tasks": tasks, **values})


def size(made: JobSnapshot) -> tuple[int, int]:
    """Which task's round is next, and how large it is."""
    opened = next_round(made, 1)
    assert opened is not None
    return opened[0].task, opened[0].size


TUNED = task(2, alternative_of=1, rounds=1, trials=8, history=(1e-3,), best=1e-3, untuned=1.0)


@pytest.mark.parametrize(("alternative", "expected"), [
    pytest.param(TUNED, (1, 2), id="tuned"),
    pytest.param(replace(TUNED, best=None, untuned=None, history=(float("inf"),)), (1, 8), id="fails"),
])  # fmt: skip
def test_a_direct_task_beside_a_tuned_alternative_has_a_glance(alternative: TaskSnapshot, expected: Any) -> None:
    assert size(job(task(1), alternative)) == expected


def test_second_rounds_are_no_glance() -> None:
    seen = task(1, rounds=1, trials=2, history=(9e-4,), best=9e-4, untuned=1.0)
    assert size(job(seen, replace(TUNED, exhausted=True))) == (1, 32)


@pytest.mark.parametrize(("known", "expected"), [(None, 8), (1e-3, 32)])
def test_what_an_earlier_job_tuned_has_no_first_round(known: float | None, expected: int) -> None:
    assert size(job(task(1, known=known, best=known))) == (1, expected)
    assert size(job(task(1, known=1e-3), task(2, known=known), task(3))) == (2 if known is None else 3, 8)


def test_a_slow_pace_of_small_rounds_does_not_end_a_job_early() -> None:
    seen = [task(at, rounds=1, trials=2, history=(1e-3,), best=1e-3, untuned=1.0) for at in range(20)]
    made = job(*seen, task(20), budget_seconds=80.0, verify=False, elapsed=54.0)
    assert time_for_a_round(made)
    assert not time_for_a_round(replace(made, elapsed=78.0))
    large = [replace(one, trials=32) for one in seen]
    assert not time_for_a_round(replace(made, tasks=(*large, task(20)), elapsed=79.0))


@pytest.mark.parametrize(("values", "curve"), [
    ({"history": (3.0, 2.0)}, (3.0, 2.0)),
    ({"known": 4.0, "history": (3.0, 2.0)}, (4.0, 3.0, 2.0)),
    ({"known": 4.0, "adopted": 4.0}, (4.0,)),
    ({"history": (3.0, 2.0), "adopted": 1.0}, (3.0, 2.0, 1.0)),
    ({"adopted": 1.0}, (1.0,)),
])  # fmt: skip
def test_what_others_found_is_a_round(values: dict[str, Any], curve: tuple[float, ...]) -> None:
    made = task(1, **values)
    assert made.curve == curve
    assert not made.fresh
