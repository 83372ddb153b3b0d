from __future__ import annotations

import pytest

from tunesmith.allocate.bandit import BanditAllocator
from tunesmith.allocate.base import TaskView
from tunesmith.allocate.familyseer import FamilySeerAllocator
from tunesmith.allocate.gradient import NO_RESULT, GradientAllocator, GradientOptions
from tunesmith.allocate.random import RandomAllocator
from tunesmith.allocate.registry import ALLOCATORS, make_allocator
from tunesmith.allocate.round_robin import RoundRobinAllocator
from tunesmith.allocate.static import StaticAllocator
from tunesmith.errors import UnknownAllocator

INF = float("inf")


def task(number: int, history: tuple[float, ...] = (), **changes: object) -> TaskView:
    view = TaskView(number, weight=1.0, flops=1e9, family="f", untuned=1.0, history=history)
    return view._replace(**changes)  # type: ignore[arg-type]


def test_the_gradient_by_hand() -> None:
    gradient = GradientAllocator().gradient(task(1, (8.0, 6.0, 5.0, 4.0, 3.0), weight=2.0), 0)
    # backward (6 - 3) / 3 = 1, forward 3 / 5 = 0.6, 2 * (0.2 * 1 + 0.8 * 0.6) = 1.36
    assert gradient.backward == pytest.approx(1.0)
    assert gradient.forward == pytest.approx(0.6)
    assert gradient.total == pytest.approx(1.36)


def test_the_window_must_be_full() -> None:
    short = GradientAllocator().gradient(task(1, (8.0, 6.0, 5.0)), 0)
    assert short.backward == 0
    assert short.total == pytest.approx(0.8 * 5 / 3)
    full = GradientAllocator().gradient(task(1, (8.0, 6.0, 5.0, 5.0)), 0)
    assert full.total == pytest.approx(0.2 * (8 - 5) / 3 + 0.8 * 5 / 4)
    narrow = GradientAllocator(0, GradientOptions(alpha=1.0, window=1)).gradient(task(1, (8.0, 6.0, 5.0)), 0)
    assert narrow.total == pytest.approx(1.0)


def test_a_round_under_way_counts_as_one_without_improvement() -> None:
    flying = GradientAllocator().gradient(task(1, (8.0, 6.0)), 2)
    landed = GradientAllocator().gradient(task(1, (8.0, 6.0, 6.0, 6.0)), 0)
    assert flying == landed
    allocator = GradientAllocator()
    pair = [task(1, (1.0,)), task(2, (0.9,))]
    assert allocator.choose(pair, {}).task == 1  # type: ignore[union-attr]
    assert allocator.choose(pair, {1: 1}).task == 2  # type: ignore[union-attr]


def test_rounds_before_the_first_result_are_no_improvement() -> None:
    late = GradientAllocator().gradient(task(1, (INF, INF, 5.0, 4.0)), 0)
    assert late == GradientAllocator().gradient(task(1, (5.0, 5.0, 5.0, 4.0)), 0)


def test_a_task_without_any_result_comes_last() -> None:
    allocator = GradientAllocator()
    assert allocator.gradient(task(1, (INF, INF)), 0).total == NO_RESULT
    assert allocator.gradient(task(1), 2).total == NO_RESULT
    choice = allocator.choose([task(1, (INF,)), task(2, (1e-9,))], {})
    assert choice is not None
    assert choice.task == 2
    alone = allocator.choose([task(1, (INF,))], {})
    assert alone is not None
    assert "valid" in alone.reason


def test_the_bandit_tries_a_task_without_any_result_again_now_and_then() -> None:
    """Two tasks have results and the third, the longest, none: of 64 rounds it has as many as their logarithm."""
    tasks = [task(1, (0.9,)), task(2, (0.9,)), task(3, (INF,), untuned=50.0)]
    tries = []
    for number in range(61):
        choice = BanditAllocator().choose(tasks, {})
        assert choice is not None
        if choice.task == 3:
            tries.append(number + 3)
            assert "another try" in choice.reason
        at = choice.task - 1
        tasks[at] = tasks[at]._replace(history=(*tasks[at].history, tasks[at].history[-1]))
    assert tries == [3, 6, 12, 24, 48]


def test_a_task_without_any_result_waits_where_nothing_depends_on_it() -> None:
    place = [task(1, (0.9, 0.9, 0.9, 0.9)), task(2, (INF,), alternative_of=1)]
    busy = [task(1, (0.9, 0.9, 0.9, 0.9)), task(2, (INF,))]
    small = [task(1, (0.9, 0.8, 0.7, 0.6)), task(2, (INF,), untuned=1e-6)]
    for tasks, flying in ((place, {}), (busy, {2: 1}), (small, {})):
        choice = BanditAllocator().choose(tasks, flying)
        assert choice is not None
        assert choice.task == 1


def test_warm_up_takes_the_most_important_first() -> None:
    for allocator in (GradientAllocator(), RoundRobinAllocator()):
        tasks = [task(1, untuned=1.0, weight=2.0), task(2, untuned=5.0), task(3, untuned=0.1, flops=1e12)]
        order, flying = [], {1: 0, 2: 0, 3: 0}
        for _ in tasks:
            choice = allocator.choose(tasks, flying)
            assert choice is not None
            order.append(choice.task)
            flying[choice.task] += 1
        assert order == [2, 1, 3]


def test_flops_rank_while_a_baseline_is_missing() -> None:
    tasks = [task(1, untuned=None, weight=2.0), task(2, untuned=5.0), task(3, untuned=0.1, flops=1e12)]
    choice = GradientAllocator().choose(tasks, {})
    assert choice is not None
    assert choice.task == 3


def test_equals_are_drawn_by_seed_and_round() -> None:
    tasks = [task(i, (1.0,)) for i in range(20)]
    chosen = {GradientAllocator(seed).choose(tasks, {}).task for seed in range(20)}  # type: ignore[union-attr]
    assert len(chosen) > 5


def test_round_robin_counts_rounds_in_flight() -> None:
    tasks = [task(1, (1.0, 1.0)), task(2, (1.0,)), task(3, (1.0,), exhausted=True)]
    allocator = RoundRobinAllocator()
    assert allocator.choose(tasks, {}).task == 2  # type: ignore[union-attr]
    assert allocator.choose(tasks, {2: 2}).task == 1  # type: ignore[union-attr]


def test_names() -> None:
    assert set(ALLOCATORS) == {"round-robin", "gradient", "bandit", "familyseer", "static", "random", "even"}
    assert ALLOCATORS.check("gradient", "static", "gradient") == ("gradient", "static")
    with pytest.raises(UnknownAllocator) as caught:
        make_allocator("no-such", 0)
    assert "bandit, even, familyseer, gradient" in caught.value.detail
    assert caught.value.field == "allocator"


def test_every_fifth_round_goes_to_the_last_of_the_leaders_family() -> None:
    leader, sibling = task(1, (4.0, 3.0)), task(2, (0.2,))
    stranger = task(3, (0.1,), family="g")
    three = [leader, sibling, stranger]
    chosen = [FamilySeerAllocator().choose(three, {3: flying}) for flying in range(6)]
    assert [choice.task for choice in chosen if choice is not None] == [2, 1, 1, 1, 1, 2]
    alone = FamilySeerAllocator().choose([leader, sibling._replace(family="h"), stranger], {})
    assert alone is not None
    assert alone.task == 1


def test_static_shares_follow_what_tasks_cost_untuned() -> None:
    counts, tasks = {1: 0, 2: 0}, [task(1, weight=3.0), task(2)]
    for _ in range(40):
        choice = StaticAllocator().choose(tasks, counts)
        assert choice is not None
        counts[choice.task] += 1
    assert counts == {1: 30, 2: 10}


def test_random_allocation_is_even() -> None:
    counts, tasks = {1: 0, 2: 0, 3: 0}, [task(n) for n in (1, 2, 3)]
    for _ in range(300):
        choice = RandomAllocator(7).choose(tasks, counts)
        assert choice is not None
        counts[choice.task] += 1
    assert min(counts.values()) > 75
