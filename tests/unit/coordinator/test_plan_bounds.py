"""Limits and budgets of a plan, whatever happens."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

from hypothesis import given, settings
from hypothesis import strategies as st
from snapshots import CLASS, job

from services.coordinator.scheduling import actions as act
from services.coordinator.scheduling.plan import plan
from services.coordinator.scheduling.share import Limits
from services.coordinator.scheduling.snapshot import JobSnapshot, Snapshot, TaskSnapshot
from tunesmith.states import JobState

LIMITS = Limits()


@dataclass
class World:
    """Carries out plans the way the database and the workers would, and checks what must always hold."""

    rng: random.Random
    slots: int
    jobs: dict[str, JobSnapshot] = field(default_factory=dict)
    open: list[tuple[str, int, int]] = field(default_factory=list)  # job, task, size
    ended: dict[str, str] = field(default_factory=dict)
    newest: int = 0

    def step(self) -> None:
        for action in plan(Snapshot(tuple(self.jobs.values()), {CLASS: self.slots} if self.slots else {}), LIMITS):
            self.do(action)
        self.check()
        if self.open and self.rng.random() < 0.8:
            self.progress(self.rng.randrange(len(self.open)))

    def do(self, action: act.Action) -> None:
        current = self.jobs.get(action.job)
        if current is None:
            return
        if isinstance(action, act.OpenRound):
            assert current.state is JobState.RUNNING
            assert action.number == current.next_number
            self.open.append((action.job, action.task, action.size))
            self.change(action.job, action.task, action.size, in_flight=1, rounds=1, proposing=True)
            self.newest += 1
            opened_job = self.jobs[action.job]
            self.jobs[action.job] = replace(opened_job, next_number=action.number + 1, last_round=self.newest)
        elif isinstance(action, act.MoveJob):
            if action.new is JobState.FINISHING:
                assert not any(key == action.job for key, _, _ in self.open)
                self.ended[action.job] = str(action.stop_reason)
            if action.new in (JobState.FINISHING, JobState.FAILED):
                del self.jobs[action.job]
        elif isinstance(action, act.SetClock):
            self.jobs[action.job] = replace(current, clock_stopped=action.stopped)

    def progress(self, index: int) -> None:
        key, task_id, size = self.open[index]
        subject = next(t for t in self.jobs[key].tasks if t.id == task_id)
        if subject.proposing:
            self.change(key, task_id, 0, proposing=False)
            return
        del self.open[index]
        best = self.rng.random()
        exhausted = self.rng.random() < 0.05
        self.change(
            key,
            task_id,
            -size,
            in_flight=-1,
            trials=size,
            untuned=2.0,
            best=best,
            exhausted=exhausted,
            history=(*subject.history, best),
        )

    def change(self, key: str, task_id: int, flight: int, **values: object) -> None:
        def update(t: TaskSnapshot) -> TaskSnapshot:
            new = {
                name: getattr(t, name) + value if name in ("in_flight", "rounds", "trials") else value
                for name, value in values.items()
            }
            return replace(t, **new)

        current = self.jobs[key]
        tasks = tuple(update(t) if t.id == task_id else t for t in current.tasks)
        self.jobs[key] = replace(current, tasks=tasks, trials_in_flight=current.trials_in_flight + flight)

    def check(self) -> None:
        assert len(self.open) <= (LIMITS.rounds(self.slots) if self.slots else len(self.jobs))
        for current in self.jobs.values():
            if current.budget_trials is not None:
                assert current.trials + current.trials_in_flight <= current.budget_trials
            assert sum(t.proposing for t in current.tasks) <= current.rounds_in_flight
            for t in current.tasks:
                assert not (t.in_flight and not t.tunable)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    slots=st.integers(0, 3),
    shapes=st.lists(st.tuples(st.integers(1, 6), st.integers(1, 120), st.integers(-2, 2)), min_size=1, max_size=4),
)
def test_whatever_happens_limits_and_budgets_hold(seed: int, slots: int, shapes: list[tuple[int, int, int]]) -> None:
    world = World(random.Random(seed), slots)
    for index, (tasks, trials, priority) in enumerate(shapes):
        world.jobs[str(index)] = job(str(index), tasks, budget_trials=trials, priority=priority)
    for _ in range(120):
        world.step()
    world.slots = max(1, slots)
    for _ in range(3000):
        if not world.jobs:
            break
        world.step()
    assert not world.jobs
    assert set(world.ended) == {str(index) for index in range(len(shapes))}
    assert set(world.ended.values()) <= {"trials", "exhausted"}


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**31))
def test_two_equal_jobs_are_served_equally(seed: int) -> None:
    world = World(random.Random(seed), 1)
    for key in "ab":
        world.jobs[key] = job(key, 8, budget_trials=10_000)
    for _ in range(60):
        world.step()
    rounds = [world.jobs[key].rounds for key in "ab"]
    assert abs(rounds[0] - rounds[1]) <= max(4, sum(rounds) // 3)
