"""Tasks that contend for one place: what a round of either is worth."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tunesmith.allocate.bandit import BanditAllocator
from tunesmith.allocate.base import TaskView
from tunesmith.allocate.gradient import GradientAllocator
from tunesmith.allocate.pairs import contenders, expected_improvement, improvement


def view(key: int, *history: float, **values: Any) -> TaskView:
    return TaskView(**{"id": key, "weight": 1.0, "flops": 1e9, "family": "conv2d", "history": history, **values})


DIRECT, OTHER = view(1), view(3, 1e-2)
FAST, SLOW = (view(2, seconds, flops=4e8, family="winograd", alternative_of=1) for seconds in (2e-3, 1.0))


def test_the_expected_improvement_is_that_of_draws() -> None:
    rng = np.random.default_rng(0)
    for best, median in ((1.0, 2.0), (1.0, 0.5), (3.0, 3.0)):
        drawn = np.maximum(best - median * np.exp(0.5 * rng.standard_normal(200_000)), 0.0).mean()
        assert expected_improvement(best, median) == pytest.approx(drawn, rel=0.02)


def test_whom_a_task_contends_with() -> None:
    tasks = [DIRECT, FAST, OTHER, view(4, 1e-3, alternative_of=1)]
    other = contenders(tasks, np.array([math.inf, 2e-3, 1e-2, 1e-3]))
    assert other.tolist() == [1e-3, 1e-3, math.inf, 2e-3]


def test_a_first_round_is_worth_what_the_pace_of_relatives_promises() -> None:
    def worth(*tasks: TaskView) -> dict[int, float]:
        latency = np.array([task.history[-1] if task.history else math.inf for task in tasks])
        return dict(improvement(tasks, latency, contenders(tasks, latency)))

    assert worth(DIRECT, FAST, OTHER) == {0: pytest.approx(expected_improvement(2e-3, 1e-2))}
    assert worth(view(1, weight=3.0), FAST, OTHER)[0] == pytest.approx(3 * expected_improvement(2e-3, 1e-2))
    no_relative = view(3, 1e-2, family="pool")
    assert worth(DIRECT, FAST, no_relative)[0] == pytest.approx(expected_improvement(2e-3, 7.5e-3))
    assert worth(view(1, flops=0.0), FAST)[0] == pytest.approx(expected_improvement(2e-3, 2e-3))
    assert worth(view(1, 3e-3), FAST) == {}


def first(*tasks: TaskView, allocator: Any = BanditAllocator, in_flight: dict[int, int] | None = None) -> int:
    choice = allocator(seed=0).choose(tasks, in_flight or {})
    assert choice is not None
    return int(choice.task)


def test_a_direct_task_that_seems_outclassed_waits_and_one_that_may_win_does_not() -> None:
    assert first(DIRECT, FAST, OTHER) == 3
    assert first(DIRECT, FAST, OTHER, allocator=GradientAllocator) == 1
    assert first(DIRECT, SLOW, OTHER) == 1
    assert first(DIRECT, SLOW, OTHER, in_flight={1: 1}) != 1, "its first round is under way"


def test_it_has_its_turn_when_the_others_have_nothing_left_to_gain() -> None:
    flat = view(3, *(1e-5,) * 40)
    assert first(DIRECT, view(2, *(2e-3,) * 40, flops=4e8, family="winograd", alternative_of=1), flat) == 1
    assert first(DIRECT, view(2, 2e-3, alternative_of=1, exhausted=True), view(3, 1e-5, exhausted=True)) == 1


def test_the_slower_one_gains_nothing_unless_it_overtakes() -> None:
    slow = view(1, 5e-2, 4e-2)
    arms = BanditAllocator(seed=0).arms([slow, FAST, OTHER], {})
    assert arms.gain[0] == 0.0
    assert arms.gain[1] > 0
    near = view(1, 2.5e-3, 2.01e-3)
    assert BanditAllocator(seed=0).arms([near, FAST, OTHER], {}).gain[0] > 0


def test_without_an_alternative_every_task_has_its_first_round_before_any_second() -> None:
    assert first(view(1, 1.0), view(2, weight=1e-6)) == 2
