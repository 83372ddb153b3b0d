"""What first rounds are worth, and the rounds of tasks that contend for one place."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tunesmith.allocate.alternatives import contenders, expected_improvement, places, shared_first_gains
from tunesmith.allocate.bandit import BanditAllocator
from tunesmith.allocate.base import TaskView
from tunesmith.allocate.first_rounds import DOUBT, first_gains
from tunesmith.allocate.gradient import GradientAllocator
from tunesmith.allocate.table import Table


def view(key: int, *history: float, **values: Any) -> TaskView:
    return TaskView(**{"id": key, "weight": 1.0, "flops": 1e9, "family": "conv2d", "history": history, **values})


DIRECT, OTHER = view(1), view(3, 1e-2)
FAST, SLOW = (view(2, seconds, flops=4e8, family="winograd", alternative_of=1) for seconds in (2e-3, 1.0))


def test_the_expected_improvement_is_that_of_draws() -> None:
    rng = np.random.default_rng(0)
    for best, median in ((1.0, 2.0), (1.0, 0.5), (3.0, 3.0)):
        drawn = np.maximum(best - median * np.exp(0.5 * rng.standard_normal(200_000)), 0.0).mean()
        assert expected_improvement(best, median, 0.5) == pytest.approx(drawn, rel=0.02)


def test_whom_a_task_contends_with() -> None:
    tasks = [DIRECT, FAST, OTHER, view(4, 1e-3, alternative_of=1)]
    other = contenders(places(tasks), np.array([math.inf, 2e-3, 1e-2, 1e-3]))
    assert other.tolist() == [1e-3, 1e-3, math.inf, 2e-3]


def test_the_first_program_of_a_place_replaces_the_default_one_whichever_it_is() -> None:
    tasks, waiting = [DIRECT, view(2, flops=4e8, alternative_of=1), OTHER], np.array([0, 1])
    gains, nobody = np.array([3.0, 1.0]), np.array([math.inf, math.inf, 1e-2])
    assert shared_first_gains(places(tasks), waiting, gains, nobody).tolist() == [3.0, 3.0]
    assert shared_first_gains(places(tasks), waiting, gains[::-1], nobody).tolist() == [3.0, 3.0]
    known = np.array([math.inf, 2e-3, 1e-2])
    assert shared_first_gains(places(tasks), waiting[:1], gains[:1], known).tolist() == [3.0]
    assert shared_first_gains(places([DIRECT, FAST]), waiting, gains, known[:2]).tolist() == [3.0, 1.0], "one is known"


def test_an_alternative_comes_as_soon_as_its_direct_task_would() -> None:
    known = view(4, 1e-2, untuned=0.3), view(5, 1e-2, untuned=0.04, flops=4e8, family="winograd")
    direct, alternative, middle = (
        view(1, exhausted=True),
        view(2, flops=4e8, family="winograd", alternative_of=1),
        view(3, flops=8e8),
    )
    assert first(direct, alternative, middle, *known) == 2
    assert first(view(2, flops=4e8, family="winograd"), middle, *known) == 3


def worth(*tasks: TaskView) -> dict[int, float]:
    latency = np.array([task.history[-1] if task.history else math.inf for task in tasks])
    at, gain = first_gains(Table.of(tasks), latency, contenders(places(tasks), latency))
    return dict(zip(at.tolist(), gain.tolist(), strict=True))


def test_a_first_round_is_worth_what_those_of_relatives_brought() -> None:
    conv, pool = view(1, 1e-2, untuned=0.5), view(2, 1e-3, untuned=0.3, family="pool", weight=2.0)
    gains = {"conv2d": 0.49, "pool": 0.299}
    assert worth(conv, pool, view(3, flops=2e9, weight=3.0)) == {2: pytest.approx(2 * 3 * gains["conv2d"])}
    assert worth(conv, pool, view(3, family="other"))[2] == pytest.approx(sum(gains.values()) / 2)
    assert worth(conv, pool, view(3, flops=0.0))[2] == pytest.approx(np.quantile([0.49, 0.598], 0.25))
    joins = [view(key, 1e-5 * key, untuned=2e-5 * key, flops=0.0, family="concatenate") for key in (4, 5)]
    assert worth(conv, *joins, view(3, flops=0.0, family="concatenate", weight=2.0))[3] == pytest.approx(9e-5)
    assert worth(conv, *joins, view(3, flops=0.0, family="reshape"))[3] == pytest.approx(4.5e-5), "a quartile of gains"
    small = view(4, flops=1e7, weight=2.0)
    assert worth(conv, pool, small, view(3, flops=0.0))[3] == pytest.approx(2e-2 * 0.49), "no more than the small one"
    assert worth(conv, pool) == {}
    assert worth(view(1), view(2)) == {}, "nothing is known of any task"
    assert worth(view(1, 1.0), view(2)) == {1: 0.0}, "nobody gained anything"


def test_where_there_is_a_tuned_program_that_is_to_be_beaten() -> None:
    def better(median: float) -> float:
        return expected_improvement(2e-3, median, DOUBT)

    assert worth(DIRECT, FAST, OTHER) == {0: pytest.approx(better(1e-2))}
    assert worth(view(1, weight=3.0), FAST, OTHER)[0] == pytest.approx(3 * better(1e-2))
    assert worth(DIRECT, FAST, view(3, 1e-2, family="pool"))[0] == pytest.approx(better(7.5e-3))
    assert worth(view(1, flops=0.0), FAST)[0] == pytest.approx(better(2e-3))
    assert worth(view(1, 3e-3), FAST) == {}
    brought = view(3, 1e-2, untuned=0.41, weight=2.0), view(4, 1e-2, untuned=1.01, weight=2.0)
    assert worth(DIRECT, FAST, *brought)[0] == pytest.approx(0.8), "as little as any first round brought"


def first(*tasks: TaskView, allocator: Any = BanditAllocator, in_flight: dict[int, int] | None = None) -> int:
    choice = allocator(seed=0).choose(tasks, in_flight or {})
    assert choice is not None
    return int(choice.task)


def test_as_long_as_nothing_is_known_those_come_first_that_may_cost_most() -> None:
    assert first(view(1, flops=1e6), view(2, flops=1e9), view(3, flops=1e8)) == 2
    assert first(view(1, flops=1e6), view(2, flops=1e9), view(3, flops=1e8), in_flight={2: 1}) == 3
    assert first(view(1), view(2), in_flight={1: 1, 2: 1}) in (1, 2)


def test_first_rounds_go_where_they_are_expected_to_save_most_before_any_second() -> None:
    slow, fast = view(1, 8e-3, untuned=9e-3), view(2, 1e-3, untuned=9e-3)
    assert first(slow, fast, view(3, flops=1e6), view(4, flops=1e5, weight=20.0)) == 4
    assert first(slow, fast, view(3, flops=1e6), view(4, flops=1e5)) == 3
    assert first(slow, fast, view(3, flops=1e6), in_flight={3: 1}) == 1, "the slow one is expected to catch up"


def test_a_direct_task_that_seems_outclassed_waits_and_one_that_may_win_does_not() -> None:
    assert first(DIRECT, FAST, OTHER) == 3
    assert first(DIRECT, FAST, OTHER, allocator=GradientAllocator) == 1
    assert first(DIRECT, SLOW, OTHER) == 1
    assert first(DIRECT, SLOW, OTHER, in_flight={1: 1}) != 1, "its first round is under way"
    begun = view(2, alternative_of=1)
    assert first(DIRECT, begun, OTHER, in_flight={2: 1}) == 3, "the alternative's is"


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
