"""How large rounds are."""

from __future__ import annotations

from dataclasses import replace

from snapshots import with_options

from services.coordinator.scheduling.rounds import NextRound, round_size
from services.coordinator.scheduling.snapshot import JobSnapshot, TaskSnapshot
from tunesmith.states import JobState


def task(key: int, **values: object) -> TaskSnapshot:
    return TaskSnapshot(**{"id": key, "weight": 1.0, "flops": 1e9 / key, "family": "conv2d", **values})


def job(tasks: int = 3, **values: object) -> JobSnapshot:
    base = {
        "id": "a",
        "state": JobState.RUNNING,
        "device_class": "llvm-x-2",
        "budget_trials": 100,
        "tasks": tuple(task(i + 1) for i in range(tasks)),
    }
    return JobSnapshot(**{**base, **with_options(values)})


def test_rounds_are_large_where_each_task_gets_many() -> None:
    assert round_size(job(tasks=1, budget_trials=192), NextRound()) == 32
    assert round_size(job(tasks=1, budget_trials=191), NextRound()) == 16
    assert round_size(job(tasks=4, budget_trials=256), NextRound()) == 16
    assert round_size(job(tasks=1, budget_trials=None, budget_seconds=600.0), NextRound()) == 32
    late = replace(job(tasks=1, budget_trials=None, budget_seconds=600.0), elapsed=585.0)
    assert 16 <= round_size(late, NextRound()) < 32


def test_the_first_pass_keeps_the_pace_that_the_job_has() -> None:
    tasks = (task(1, rounds=1, trials=16), *(task(key) for key in range(2, 22)))
    fast = replace(job(budget_trials=None, budget_seconds=600.0, elapsed=4.0), tasks=tasks)
    assert round_size(fast, NextRound(first=True, unseen=len(fast.tasks))) == 3
    assert round_size(fast, NextRound(first=True, unseen=1)) == 8
    slow = replace(fast, elapsed=50.0)
    assert 2 < round_size(slow, NextRound(first=True, unseen=len(fast.tasks))) < 4
    assert round_size(replace(fast, elapsed=500.0), NextRound(first=True, unseen=len(fast.tasks))) == 2
    assert round_size(slow, NextRound()) == 16


def test_second_rounds_are_small_where_not_every_task_can_have_a_whole_one() -> None:
    tasks = tuple(task(key, rounds=1, trials=2, history=(1.0,)) for key in range(1, 21))
    timed = replace(job(budget_trials=None, budget_seconds=200.0, elapsed=20.0), tasks=tasks)
    assert round_size(timed, NextRound(second=True)) == 16
    late = replace(timed, budget_seconds=100.0)
    assert round_size(late, NextRound(second=True)) == 3
    assert round_size(late, NextRound()) == 16
    assert round_size(replace(late, tasks=tasks[:5]), NextRound(second=True)) == 16


def test_allocators_with_rounds_of_one_size_have_whole_first_ones() -> None:
    timed = replace(job(tasks=20, budget_trials=None, budget_seconds=800.0), elapsed=10.0)
    assert round_size(timed, NextRound(first=True, unseen=20, small_first=False)) == 16
    assert round_size(timed, NextRound(first=True, unseen=1, small_first=False)) == 16
    assert round_size(timed, NextRound(first=True, unseen=20, alternative_tuned=True, small_first=False)) == 2
    late = replace(timed, budget_seconds=60.0)
    assert round_size(late, NextRound(second=True, small_first=False)) == 16
    assert round_size(late, NextRound(first=True, unseen=20, small_first=False)) < 4, "each task has a first round"
