"""When a job that was asked to stop then has converged."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from snapshots import with_options

from services.coordinator.scheduling import actions as act
from services.coordinator.scheduling.plan import plan
from services.coordinator.scheduling.snapshot import JobSnapshot, Snapshot, TaskSnapshot
from tunesmith.states import JobState

CLASS = "llvm-x-2"
FLAT, FALLING = (1.0,) * 60, tuple(0.9**i for i in range(60))


def task(key: int, history: tuple[float, ...], **values: Any) -> TaskSnapshot:
    best = min((value for value in history if math.isfinite(value)), default=None)
    return TaskSnapshot(
        **{
            "id": key,
            "weight": 1.0,
            "flops": 1e9,
            "family": "conv2d",
            "rounds": len(history),
            "history": history,
            "trials": 8 * len(history),
            "untuned": 1.0,
            "best": best,
            **values,
        }
    )


def job(*tasks: TaskSnapshot, **values: Any) -> JobSnapshot:
    return JobSnapshot(
        **{
            "id": "a",
            "state": JobState.RUNNING,
            "device_class": CLASS,
            "budget_trials": 10_000,
            "tasks": tasks,
            "stop_when_converged": True,
            **with_options(values),
        }
    )


def stops(made: JobSnapshot) -> bool:
    actions = plan(Snapshot(jobs=(made,), slots={CLASS: 1}))
    reasons = [action.stop_reason for action in actions if isinstance(action, act.MoveJob)]
    assert reasons in ([], ["converged"])
    return bool(reasons)


@pytest.mark.parametrize(
    ("other", "ends"),
    [
        pytest.param(FLAT, True, id="nothing saved for long"),
        pytest.param(FLAT[:3], False, id="too early to tell"),
        pytest.param(FALLING[:10], False, id="still falling"),
        pytest.param((1e-6, 9e-7, 8e-7), True, id="what falls is nothing of the model"),
        pytest.param((), False, id="waits for its first round"),
        pytest.param((math.inf,) * 3, True, id="fails always, and keeps no job going"),
    ],
)
def test_a_job_of_two_tasks(other: tuple[float, ...], ends: bool) -> None:
    assert stops(job(task(1, FLAT), task(2, other))) is ends


def test_a_job_goes_on_that_was_not_asked_to_stop() -> None:
    assert not stops(job(task(1, FLAT), stop_when_converged=False))


def test_nothing_valid_is_no_convergence() -> None:
    assert not stops(job(task(1, (math.inf,) * 20, untuned=None)))


def test_what_is_exhausted_saves_nothing_more() -> None:
    assert stops(job(task(1, FLAT), task(2, FALLING[:10], exhausted=True)))
    assert stops(job(task(1, FLAT), task(2, (), exhausted=True, untuned=None)))


def test_what_an_earlier_job_tuned_does_not_wait_for_a_first_round() -> None:
    known = task(2, (), known=1e-6, best=1e-6)
    assert stops(job(task(1, FLAT), known))
    assert not stops(job(task(1, FLAT), replace(known, known=1.0, best=1.0)))


def test_of_a_pair_the_one_in_use_decides() -> None:
    direct, alternative = task(1, FALLING[:10]), task(2, (0.1,) * 60, alternative_of=1)
    assert stops(job(direct, alternative))
    assert not stops(job(direct, replace(alternative, history=FALLING[:30], best=FALLING[29])))
