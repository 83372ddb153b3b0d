"""A fleet of simulated devices under the real scheduling function: a discrete-event simulation.

Simulated are the devices, the searchers and what tuning finds; the plan (``services.coordinator.scheduling.plan``) is
the one that the coordinator carries out, and what it asks for is done to its snapshots as the database would do it.
"""

from __future__ import annotations

import heapq
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from services.coordinator.scheduling.actions import OpenRound
from services.coordinator.scheduling.plan import plan
from services.coordinator.scheduling.snapshot import JobSnapshot, Snapshot, TaskSnapshot
from tunesmith.names import NO_COST_MODEL
from tunesmith.options import JobOptions
from tunesmith.states import JobState

CLASS = "simulated"
LOOK = 0.25
"""Simulated seconds between two looks of the scheduler, in which something has happened."""
PROPOSAL = 1.0
"""Mean seconds of a proposal, exponentially distributed."""
ROUND = 8.0
"""Median seconds of a round of ``SIZE`` candidates; those of tasks and rounds are lognormally distributed."""
SIZE = 16
"""Candidates of such a round."""
SPREAD = 0.5
"""Standard deviation of the logarithm of a task's seconds around ``ROUND``, and of a round's around its task's."""

WARM_UP = 60.0
"""Seconds that are simulated before anything counts: by then each device has had several rounds."""
UNTUNED = 1e10
"""FLOP/s of untuned tasks."""
GAIN = 1.0
"""Mean of what the first round takes off the logarithm of a task's latency; the n-th takes an n-th of that."""


@dataclass(frozen=True)
class Demand:
    """A job that is there from the start and has more to do than there is time for.

    Attributes:
        pace: how many times ``ROUND`` its rounds take.
    """

    owner: str
    tasks: int
    allocator: str = "bandit"
    pace: float = 1.0


@dataclass
class FleetRun:
    """What was seen after the warm-up.

    Attributes:
        busy: device seconds by owner.
        available: device seconds in all.
        rounds: that ended.
        decisions: wall seconds of each look that opened rounds, over the rounds that it opened.
    """

    busy: dict[str, float]
    available: float
    rounds: int = 0
    decisions: list[float] = field(default_factory=list)

    @property
    def utilisation(self) -> float:
        """Share of the device seconds that were used."""
        return sum(self.busy.values()) / self.available

    @property
    def shares(self) -> dict[str, float]:
        """Each owner's part of the device seconds that were used."""
        total = sum(self.busy.values())
        return {owner: seconds / total for owner, seconds in self.busy.items()}


@dataclass(frozen=True)
class _Round:
    job: str
    task: int
    size: int


class Fleet:
    """Devices of one class, and the jobs on them."""

    def __init__(self, devices: int, demands: Sequence[Demand], seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._devices, self._free = devices, devices
        self._queue: deque[_Round] = deque()
        self._events: list[tuple[float, int, _Round]] = []
        self._proposed: set[int] = set()
        self._now, self._number, self._newest = 0.0, 0, 0
        self._jobs = {f"job-{i}": _job(f"job-{i}", demand, i) for i, demand in enumerate(demands)}
        self._tasks = {key: self._new_tasks(demand.tasks) for key, demand in zip(self._jobs, demands, strict=True)}
        self._pace = {
            key: demand.pace * ROUND * self._rng.lognormal(0.0, SPREAD, demand.tasks)
            for key, demand in zip(self._jobs, demands, strict=True)
        }

    def run(self, warm_up: float, seconds: float) -> FleetRun:
        """Simulate ``warm_up`` seconds, then ``seconds`` more that count."""
        owners = dict.fromkeys((job.owner for job in self._jobs.values()), 0.0)
        outcome, end = FleetRun(owners, self._devices * seconds), warm_up + seconds
        self._look(None)
        for tick in range(1, int(end / LOOK) + 1):
            happened = False
            while self._events and self._events[0][0] <= tick * LOOK:
                self._now, number, round_ = heapq.heappop(self._events)
                self._pass(number, round_, outcome if self._now >= warm_up else None)
                self._dispatch(outcome, warm_up, end)
                happened = True
            self._now = tick * LOOK
            if happened:
                self._look(outcome if self._now >= warm_up else None)
        return outcome

    def _new_tasks(self, count: int) -> list[TaskSnapshot]:
        weights, flops = self._rng.integers(1, 9, count), self._rng.lognormal(18.0, 1.5, count)
        return [
            TaskSnapshot(id=i, weight=float(weights[i]), flops=float(flops[i]), family=f"family {i % 25}")
            for i in range(count)
        ]

    def _look(self, outcome: FleetRun | None) -> None:
        """One look of the scheduler, and what it asks for."""
        jobs = tuple(replace(job, tasks=tuple(self._tasks[key])) for key, job in self._jobs.items())
        started = time.perf_counter()
        actions = [a for a in plan(Snapshot(jobs, {CLASS: self._devices})) if isinstance(a, OpenRound)]
        took = time.perf_counter() - started
        for action in actions:
            self._open(action)
        if outcome is not None and actions:
            outcome.decisions.append(took / len(actions))

    def _open(self, action: OpenRound) -> None:
        self._newest += 1
        job, task = self._jobs[action.job], self._tasks[action.job][action.task]
        self._jobs[action.job] = replace(
            job,
            next_number=action.number + 1,
            last_round=self._newest,
            trials_in_flight=job.trials_in_flight + action.size,
        )
        self._tasks[action.job][action.task] = replace(
            task, in_flight=task.in_flight + 1, rounds=task.rounds + 1, proposing=True
        )
        self._proposed.add(self._after(self._rng.exponential(PROPOSAL), _Round(action.job, action.task, action.size)))

    def _pass(self, number: int, round_: _Round, outcome: FleetRun | None) -> None:
        """A round is proposed, or ends."""
        if number in self._proposed:
            self._proposed.discard(number)
            self._propose(round_)
            return
        self._finish(round_)
        if outcome is not None:
            outcome.rounds += 1

    def _propose(self, round_: _Round) -> None:
        tasks = self._tasks[round_.job]
        tasks[round_.task] = replace(tasks[round_.task], proposing=False)
        self._queue.append(round_)

    def _finish(self, round_: _Round) -> None:
        self._free += 1
        job, task = self._jobs[round_.job], self._tasks[round_.job][round_.task]
        untuned = task.flops / UNTUNED
        gain = self._rng.exponential(GAIN / (1 + len(task.history)))
        best = (task.history[-1] if task.history else untuned) * float(np.exp(-gain))
        self._jobs[round_.job] = replace(job, trials_in_flight=job.trials_in_flight - round_.size)
        self._tasks[round_.job][round_.task] = replace(
            task,
            in_flight=task.in_flight - 1,
            trials=task.trials + round_.size,
            untuned=untuned,
            best=best,
            seconds=float(self._pace[round_.job][round_.task]) / SIZE,
            history=(*task.history, best),
        )

    def _dispatch(self, outcome: FleetRun, start: float, end: float) -> None:
        """Free devices take what has waited longest."""
        while self._free and self._queue:
            round_ = self._queue.popleft()
            self._free -= 1
            pace = self._pace[round_.job][round_.task] * round_.size / SIZE
            seconds = float(pace * self._rng.lognormal(0.0, SPREAD))
            self._after(seconds, round_)
            used = min(self._now + seconds, end) - max(self._now, start)
            outcome.busy[self._jobs[round_.job].owner] += max(used, 0.0)

    def _after(self, seconds: float, round_: _Round) -> int:
        self._number += 1
        heapq.heappush(self._events, (self._now + seconds, self._number, round_))
        return self._number


def _job(key: str, demand: Demand, number: int) -> JobSnapshot:
    return JobSnapshot(
        id=key,
        state=JobState.RUNNING,
        device_class=CLASS,
        owner=demand.owner,
        options=JobOptions(allocator=demand.allocator, cost_model=NO_COST_MODEL, seed=number),
        budget_trials=10**9,
    )


def ten_jobs(tasks: int) -> list[Demand]:
    """Five of one user, three of another, two of a third; ``tasks`` in all."""
    owners = ("ada",) * 5 + ("ben",) * 3 + ("cleo",) * 2
    return [Demand(owner, tasks // len(owners)) for owner in owners]
