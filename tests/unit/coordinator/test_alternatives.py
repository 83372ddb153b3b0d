"""What counts of a task and its alternative: in sums, in the curve, and for who gets the next round."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from snapshots import PLAIN, with_options

from db.models import JobTask, Schedule
from services.coordinator import champions
from services.coordinator.curve import Places, best_so_far
from services.coordinator.scheduling.budget import evaluation_reserve
from services.coordinator.scheduling.choose import dominated, next_round, open_tasks
from services.coordinator.scheduling.plan import plan
from services.coordinator.scheduling.snapshot import JobSnapshot, Snapshot, TaskSnapshot
from tunesmith.allocate.registry import ALLOCATORS
from tunesmith.alternatives import TaskLatency, in_use, places
from tunesmith.states import JobState

SECONDS = st.one_of(st.none(), st.floats(1e-6, 1.0))


@pytest.mark.parametrize(
    ("untuned", "best", "other", "used"),
    [
        (8.0, 4.0, 3.0, "winograd"),
        (8.0, 4.0, 4.0, "direct"),
        (8.0, 4.0, None, "direct"),
        (8.0, None, 9.0, "direct"),
        (8.0, None, 7.0, "winograd"),
        (None, None, 7.0, "winograd"),
        (None, None, None, "direct"),
    ],
)
def test_the_faster_of_a_pair_is_in_use(
    untuned: float | None, best: float | None, other: float | None, used: str
) -> None:
    tasks = {
        "direct": TaskLatency(2, untuned, best),
        "pool": TaskLatency(1, 1.0, None),
        "winograd": TaskLatency(2, 50.0, other, "direct"),
    }
    assert in_use(tasks) == {used, "pool"}


def test_the_default_schedule_of_an_alternative_is_never_in_use() -> None:
    assert TaskLatency(1, 1.0, None, "direct").current is None
    assert TaskLatency(1, 3.0, 2.0, "direct").current == 2.0
    assert TaskLatency(1, None, 2.0, "direct").current == 2.0
    assert TaskLatency(1, 1.0, 2.0, "direct").current is None, "its own default schedule is its reference"
    assert TaskLatency(1, 1.0, 2.0).current == 1.0


def test_an_alternative_of_nothing_does_not_count() -> None:
    tasks = {"winograd": TaskLatency(1, 3.0, 1.0, "direct")}
    assert in_use(tasks) == set()
    assert places(tasks) == {}


@given(st.lists(st.tuples(st.integers(1, 9), SECONDS, SECONDS, st.booleans(), SECONDS), max_size=6))
def test_places_sum_up_what_is_in_use(rows: list[tuple[int, float | None, float | None, bool, float | None]]) -> None:
    tasks: dict[int, TaskLatency[int]] = {}
    for key, (weight, untuned, best, paired, other) in enumerate(rows):
        tasks[key] = TaskLatency(weight, untuned, best)
        if paired:
            tasks[-1 - key] = TaskLatency(weight, 0.5, other, key)
    used, found = in_use(tasks), places(tasks)
    assert len(used) == len(found) == len(rows)
    assert sum(tasks[key].weight * (tasks[key].current or 0.0) for key in used) == pytest.approx(
        sum(place.weight * (place.current or 0.0) for place in found.values())
    )
    assert [place.untuned for place in found.values()] == [untuned for _, untuned, *_ in rows]


def test_the_curve_falls_when_an_alternative_overtakes() -> None:
    tasks = {1: TaskLatency(2, 10.0, 4.0), 2: TaskLatency(2, 30.0, 3.0, 1), 3: TaskLatency(1, 1.0, None)}
    steps = [(2, 20.0), (1, 6.0), (2, 8.0), (1, 4.0), (2, 3.0), (3, None)]
    assert list(best_so_far(Places.of(tasks), steps)) == [21.0, 13.0, 13.0, 9.0, 7.0, 7.0]


def test_a_curve_starts_where_only_the_alternative_runs() -> None:
    tasks = {1: TaskLatency(2, None, None), 2: TaskLatency(2, None, 3.0, 1)}
    assert list(best_so_far(Places.of(tasks), [(2, 5.0), (2, 3.0)])) == [6.0, 6.0]


def task(key: int, history: tuple[float, ...] = (), **values: object) -> TaskSnapshot:
    return TaskSnapshot(**{"id": key, "history": history, "rounds": len(history), **values})


def pair(direct: tuple[float, ...], other: tuple[float, ...], **values: object) -> tuple[TaskSnapshot, ...]:
    return task(1, direct), task(2, other, alternative_of=1, **values)


def slower(tasks: tuple[TaskSnapshot, ...]) -> set[int]:
    return dominated(JobSnapshot(id="a", state=JobState.RUNNING, tasks=tasks, options=PLAIN))


@pytest.mark.parametrize(
    ("direct", "other", "lost"),
    [
        ((9.0, 9.0), (1.0,), set()),  # it has not had its first rounds
        ((9.0, 9.0), (1.0, 1.0), {1}),
        ((1.0, 1.0), (9.0, 1.2), set()),
        ((1.0, 1.0), (9.0, 1.4), {2}),
        ((1.0, 1.0, 1.0, 1.0), (1.2, 1.2, 1.2), set()),
        ((1.0, 1.0, 1.0, 1.0), (1.2, 1.2, 1.2, 1.2), {2}),
        ((1.1, 1.1, 1.1, 1.1), (1.1, 1.1, 1.1, 1.0), {1}),
        ((1.0,) * 4, (1.0,) * 4, set()),
        ((1.0, 1.0), (math.inf, math.inf), {2}),
        ((math.inf,) * 9, (math.inf,) * 9, set()),
    ],
)
def test_who_is_outrun_by_the_other_of_its_pair(
    direct: tuple[float, ...], other: tuple[float, ...], lost: set[int]
) -> None:
    assert slower((*pair(direct, other), task(3, (9.0,) * 9))) == lost


def test_who_has_nothing_left_to_propose_has_had_its_rounds() -> None:
    assert slower(pair((1.0,) * 2, (9.0,), exhausted=True)) == {2}
    assert slower(pair((9.0,) * 4, (1.0,), exhausted=True)) == {1}
    assert slower(pair((1.2,) * 2, (1.0,), exhausted=True)) == set()


def test_an_earlier_jobs_rounds_count_between_the_two_of_a_pair() -> None:
    direct, other = pair((), ())
    assert slower((replace(direct, known=1.4), replace(other, known=1.0))) == {1}
    assert slower((replace(direct, known=1.2), replace(other, known=1.0))) == set()
    assert slower((direct, replace(other, known=1.0))) == set()
    assert slower(pair((1.2,) * 3, (1.0,) * 2)) == set()
    assert slower(tuple(replace(task, known=1.2) for task in pair((1.2,) * 3, (1.0,) * 2))) == {1}


@pytest.mark.parametrize("allocator", sorted(ALLOCATORS))
def test_no_allocator_gives_rounds_to_who_is_outrun(allocator: str) -> None:
    tasks = (*pair((9.0,) * 4, (1.0,) * 4), task(3, (1.0,)))
    job = JobSnapshot(
        id="a", state=JobState.RUNNING, tasks=tasks, budget_trials=10_000, **with_options({"allocator": allocator})
    )
    assert [each.id for each in open_tasks(job)] == [2, 3]
    chosen = set()
    for _ in range(2):
        opened = next_round(job, 1)
        assert opened is not None
        chosen.add(opened[0].task)
        job = opened[1]
    assert chosen == {2, 3}
    assert next_round(job, 1) is None


def test_a_job_ends_when_only_the_outrun_could_go_on() -> None:
    tasks = pair((9.0,) * 4, (1.0,) * 4, exhausted=True)
    job = JobSnapshot(
        id="a",
        state=JobState.RUNNING,
        device_class="c",
        tasks=tasks,
        budget_trials=10_000,
        **with_options({"verify": False}),
    )
    (moved,) = plan(Snapshot((job,), {"c": 1}))
    assert (moved.new, moved.stop_reason) == (JobState.FINISHING, "exhausted")  # type: ignore[union-attr]


def test_the_check_of_the_untuned_model_runs_the_direct_ones() -> None:
    tasks = (task(1, untuned=1.0), task(2, untuned=5.0, alternative_of=1))
    job = JobSnapshot(id="a", state=JobState.RUNNING, tasks=tasks, budget_seconds=1000.0, options=PLAIN)
    assert evaluation_reserve(job) == pytest.approx(5.0 + 0.2 * 2 + 6.5)


def test_a_champion_goes_before_a_schedule_that_was_not_measured() -> None:
    """An estimate of the direct task says nothing against an alternative that was measured."""
    direct = JobTask(workload_hash="d", weight=1, answer={"seconds": 1e-6})
    alternative = JobTask(workload_hash="a", weight=1, alternative_of="d")
    measured = Schedule(latency=1e-3, trace=[])
    assert champions.in_place([direct, alternative], {"d": None, "a": measured}) == {"a": measured}
    assert champions.in_place([direct, alternative], {"d": None, "a": None}) == {"d": None}
