"""Users share devices equally, whatever the number and the priority of their jobs."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from effort import some
from snapshots import PLAIN

from benchmarks.fleet.simulation import Demand, Fleet
from services.coordinator.scheduling import actions as act
from services.coordinator.scheduling.plan import plan
from services.coordinator.scheduling.rounds import LARGE_CANDIDATES
from services.coordinator.scheduling.share import Limits, Pace
from services.coordinator.scheduling.snapshot import JobSnapshot, Snapshot, TaskSnapshot
from tunesmith.states import JobState

CLASS = "llvm-x-2"


def job(key: str, owner: str, priority: int = 0, device_class: str = CLASS, last_round: int = 0) -> JobSnapshot:
    tasks = tuple(TaskSnapshot(id=i, flops=1e9, family="dense", rounds=1, history=(1.0,)) for i in range(50))
    return JobSnapshot(
        id=key,
        state=JobState.RUNNING,
        device_class=device_class,
        owner=owner,
        options=PLAIN.model_copy(update={"priority": priority}),
        budget_trials=10_000,
        tasks=tasks,
        last_round=last_round,
    )


def opened(jobs: list[JobSnapshot], slots: dict[str, int], limits: Limits | None = None) -> list[str]:
    found = plan(Snapshot(tuple(jobs), slots), limits)
    return [action.job for action in found if isinstance(action, act.OpenRound)]


def test_users_get_equal_shares_and_divide_them_among_their_jobs() -> None:
    jobs = [job("a1", "ada"), job("a2", "ada"), job("a3", "ada"), job("b1", "ben")]
    assert Counter(opened(jobs, {CLASS: 9}, Limits(spare=0))) == {"a1": 3, "a2": 3, "a3": 3, "b1": 9}


def test_priority_divides_a_users_share_and_takes_nothing_from_others() -> None:
    jobs = [job("a1", "ada", priority=1), job("a2", "ada"), job("b1", "ben")]
    assert Counter(opened(jobs, {CLASS: 9}, Limits(spare=0))) == {"a1": 6, "a2": 3, "b1": 9}


def test_what_a_user_has_elsewhere_does_not_count() -> None:
    jobs = [job("a1", "ada", device_class="cuda"), job("a2", "ada"), job("b1", "ben")]
    found = Counter(opened(jobs, {CLASS: 2, "cuda": 2}, Limits(spare=0)))
    assert found == {"a1": 4, "a2": 2, "b1": 2}


def test_what_one_user_has_no_use_for_goes_to_the_others() -> None:
    small = job("b1", "ben")
    jobs = [job("a1", "ada"), replace(small, tasks=small.tasks[:1])]
    assert Counter(opened(jobs, {CLASS: 8}, Limits(spare=0))) == {"a1": 15, "b1": 1}


def test_on_one_device_users_take_turns_not_jobs() -> None:
    """One place at a time: three jobs of one user get half of the rounds, the one of another the other half."""
    jobs = {key: job(key, owner) for key, owner in (("a1", "ada"), ("a2", "ada"), ("a3", "ada"), ("b1", "ben"))}
    limits, counts = Limits(per_slot=0, spare=1, minimum=1), Counter[str]()
    for number in range(1, 25):
        (key,) = opened(list(jobs.values()), {CLASS: 1}, limits)
        counts[key] += 1
        jobs[key] = job(key, jobs[key].owner, last_round=number)
    assert counts == {"a1": 4, "a2": 4, "a3": 4, "b1": 12}


def test_long_rounds_count_for_more_than_short_ones() -> None:
    """By the devices that they have: a round that takes nine times as long has one 1.8 times as often, with one that
    waits for each that runs."""
    pace = Pace(usual=5.0, size=16.0, queue=1.0)
    long, short = (TaskSnapshot(id=0, seconds=seconds) for seconds in (9.0, 1.0))
    assert pace.weight(TaskSnapshot(id=0), 16) == 1.0
    assert pace.weight(TaskSnapshot(id=0), 8) == pytest.approx(2 / 3)
    assert [pace.weight(task, 16) for task in (long, short)] == pytest.approx([2 * 9 / 14, 2 / 6])
    jobs = [job("a1", "ada"), job("b1", "ben")]
    jobs = [
        replace(each, tasks=tuple(replace(t, seconds=seconds, trials=16) for t in each.tasks))
        for each, seconds in zip(jobs, (9.0, 1.0), strict=True)
    ]
    counts = Counter(opened(jobs, {CLASS: 20}, Limits(spare=0)))
    had = [counts[key] * pace.weight(task, LARGE_CANDIDATES) for key, task in (("a1", long), ("b1", short))]
    assert had[0] == pytest.approx(had[1], rel=0.15)


def test_users_with_long_and_short_rounds_have_the_same_devices() -> None:
    demands = [Demand("ada", 100, pace=4.0), Demand("ben", 100), Demand("cleo", 100, pace=0.5)]
    found = Fleet(40, demands, 0).run(warm_up=120.0, seconds=400.0)
    assert all(abs(share - 1 / 3) <= 0.05 / 3 for share in found.shares.values()), found.shares


@pytest.mark.parametrize("seed", some(range(2)))
def test_on_a_simulated_fleet_devices_are_busy_and_shares_fair(seed: int) -> None:
    demands = [*(Demand("ada", tasks, "gradient") for tasks in (40, 20)), Demand("ben", 60), Demand("cleo", 60)]
    found = Fleet(60, demands, seed).run(warm_up=60.0, seconds=180.0)
    assert found.rounds > 100
    assert found.utilisation >= 0.95
    assert all(abs(share - 1 / 3) <= 0.05 / 3 for share in found.shares.values()), found.shares
    assert len(found.decisions) > 50
