"""A job replayed on recorded curves: the service's own rules and an allocator decide which task's next round it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.allocation.curves import ModelCurves, TaskCurve
from services.coordinator.curve import best_so_far
from services.coordinator.scheduling.choose import next_round
from services.coordinator.scheduling.snapshot import JobSnapshot, TaskSnapshot
from tunesmith.alternatives import TaskLatency, places
from tunesmith.space.base import Floats
from tunesmith.states import JobState

SLOTS = 1


@dataclass(frozen=True)
class Course:
    """What a job came to.

    Attributes:
        seconds: at the end of each round, float64 [rounds].
        latency: of the model then, float64 [rounds], infinite until every task was measured.
        untuned, best: latency before, and with the best of every curve.
    """

    seconds: Floats
    latency: Floats
    untuned: float
    best: float

    def reached(self, share: float) -> float:
        """Seconds until so much of the gain that can be had was there; of all rounds where it never was."""
        goal = self.untuned - share * (self.untuned - self.best)
        there = np.flatnonzero(self.latency <= goal * (1 + 1e-12))
        return float(self.seconds[there[0]]) if len(there) else float(self.seconds[-1])


def mixed(runs: Sequence[ModelCurves], seed: int) -> tuple[TaskCurve, ...]:
    """A model whose tasks each have the curve of one of the runs, drawn anew for each seed."""
    rng = np.random.default_rng(seed)
    return tuple(runs[int(rng.integers(len(runs)))].tasks[i] for i in range(len(runs[0].tasks)))


def replay(tasks: Sequence[TaskCurve], allocator: str, seed: int) -> Course:
    """Give rounds away, one after the other, until every curve has come to its end."""
    job = _job(tasks, allocator, seed)
    now, order, ends = 0.0, list[int](), list[float]()
    while (opened := next_round(job, SLOTS)) is not None:
        action, job = opened
        curve, at = tasks[action.task], len(job.tasks[action.task].history)
        now += curve.seconds[at]
        order.append(action.task)
        ends.append(now)
        job = _after(job, action.task, curve, action.size)
    return _course(tasks, order, ends)


def _job(tasks: Sequence[TaskCurve], allocator: str, seed: int) -> JobSnapshot:
    made = tuple(
        TaskSnapshot(
            id=i, weight=task.weight, flops=task.flops, family=task.family, alternative_of=task.alternative_of,
            exhausted=not task.bests,
        )
        for i, task in enumerate(tasks)
    )  # fmt: skip
    seconds = sum(sum(task.seconds) for task in tasks)
    return JobSnapshot(
        id="replay", state=JobState.RUNNING, allocator=allocator, seed=seed, budget_seconds=10 * seconds, verify=False,
        tasks=made)


def _after(job: JobSnapshot, task: int, curve: TaskCurve, size: int) -> JobSnapshot:
    """The job when a round of the task is over."""
    before = job.tasks[task]
    at = len(before.history)
    best = curve.bests[at]
    done = replace(
        before, in_flight=0, proposing=False, trials=before.trials + size, untuned=curve.untuned, best=best,
        history=(*before.history, np.inf if best is None else best),
        seconds=sum(curve.seconds[:at + 1]) / sum(curve.sizes[:at + 1]),
        exhausted=at + 1 >= len(curve.bests),
    )  # fmt: skip
    tasks = (*job.tasks[:task], done, *job.tasks[task + 1:])
    return replace(job, tasks=tasks, trials_in_flight=0, elapsed=job.elapsed + curve.seconds[at])


def _course(tasks: Sequence[TaskCurve], order: Sequence[int], ends: Sequence[float]) -> Course:
    ids = range(len(tasks))
    final = {i: TaskLatency(t.weight, t.untuned, _last(t), t.alternative_of) for i, t in zip(ids, tasks, strict=True)}
    done, steps = dict.fromkeys(ids, 0), list[tuple[int, float | None]]()
    for task in order:
        steps.append((task, tasks[task].bests[done[task]]))
        done[task] += 1
    latency = np.array(list(best_so_far(final, steps)))
    seen = np.array([len(set(order[:n])) for n in range(1, len(order) + 1)])
    latency = np.where(seen == len(set(order)), latency, np.inf)
    known = [place for place in places(final).values() if place.known]
    untuned = sum(place.weight * place.start for place in known)
    best = sum(place.weight * min(place.start, place.current or np.inf) for place in known)
    return Course(np.array(ends), latency, float(untuned), float(best))


def _last(task: TaskCurve) -> float | None:
    return task.bests[-1] if task.bests else None
