"""How a collecting job is scheduled."""

from __future__ import annotations

from dataclasses import replace

from snapshots import CLASS, job, task

from services.coordinator.scheduling import actions as act
from services.coordinator.scheduling.plan import plan
from services.coordinator.scheduling.snapshot import JobSnapshot, Snapshot, TaskSnapshot
from tunesmith.dataset.collecting import Collecting
from tunesmith.states import JobState


def collecting(*tasks: TaskSnapshot, per_task: int = 64, **values: object) -> JobSnapshot:
    made = job(tasks=0, allocator="even", verify=False, warm_start=False, budget_trials=None)
    return replace(made, tasks=tasks, collecting=Collecting(per_task), **values)


def actions(snapshot: JobSnapshot, slots: int = 1) -> list[act.Action]:
    return plan(Snapshot(jobs=(snapshot,), slots={CLASS: slots}))


def rounds(snapshot: JobSnapshot, slots: int = 1) -> list[tuple[int, int, bool]]:
    found = [a for a in actions(snapshot, slots) if isinstance(a, act.OpenRound)]
    return [(a.task, a.size, a.baseline) for a in found]


def test_rounds_are_large_of_the_task_with_the_fewest_labels_and_time_no_default_schedule() -> None:
    fresh, begun = task(1, trials=40), task(2, earlier_labels=60, alternative_of=1)
    assert rounds(collecting(begun, fresh)) == [(1, 24, False), (2, 4, False)]
    assert rounds(collecting(task(1), task(2)))[0] == (1, 32, False)
    assert rounds(collecting(task(1), task(2), budget_trials=20)) == [(1, 20, False)]


def test_what_is_under_way_is_not_asked_for_again() -> None:
    assert rounds(collecting(task(1, trials=30, rounds=2, in_flight=1, trials_in_flight=32))) == [(1, 2, False)]
    assert rounds(collecting(task(1, trials=32, rounds=2, in_flight=1, trials_in_flight=32))) == []
    assert rounds(collecting(task(1, proposing=True, rounds=1, in_flight=1, trials_in_flight=32))) == []


def test_trials_without_a_label_of_their_own_are_made_up_for() -> None:
    assert rounds(collecting(task(1, trials=64, useless=5, rounds=2))) == [(1, 5, False)]


def test_it_ends_when_each_task_has_its_labels_or_can_have_no_more() -> None:
    done, empty = task(1, trials=70, useless=2), task(2, trials=8, exhausted=True)
    hopeless = task(3, trials=100, useless=99)
    ended = actions(collecting(done, empty, hopeless))
    assert act.MoveJob("a", JobState.RUNNING, JobState.FINISHING, stop_reason="collected") in ended
    assert not any(isinstance(action, act.StartEvaluation) for action in ended)
    before = actions(collecting(task(1, earlier_labels=64)))
    assert [a.stop_reason for a in before if isinstance(a, act.MoveJob)] == ["collected"]
    waits = actions(collecting(replace(done, in_flight=1, rounds=3)))
    assert not [a for a in waits if isinstance(a, act.MoveJob)]


def test_it_fails_where_nothing_at_all_could_be_measured() -> None:
    moved = [a for a in actions(collecting(task(1, trials=80, useless=80))) if isinstance(a, act.MoveJob)]
    assert [(a.new, a.problem["code"]) for a in moved] == [(JobState.FAILED, "measurement_failed")]
