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
        latency: of the model then, float64 [rounds]; a task that had no round yet runs with its default schedule.
        untuned, first, best: latency before, with the first round of every curve, and with the best.
    """

    seconds: Floats
    latency: Floats
    untuned: float
    first: float
    best: float

    def reached(self, goal: float) -> float:
        """Seconds until the model took ``goal`` seconds; of all rounds where it never did."""
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
    return course(tasks, order, ends)


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


def course(tasks: Sequence[TaskCurve], order: Sequence[int], ends: Sequence[float]) -> Course:
    """What rounds bring.

    Args:
        order: whose they are.
        ends: seconds at which they end.
    """
    final = latencies(tasks)
    done, steps = dict.fromkeys(range(len(tasks)), 0), list[tuple[int, float | None]]()
    for task in order:
        steps.append((task, tasks[task].bests[done[task]]))
        done[task] += 1
    latency = np.array(list(best_so_far(final, steps)))
    untuned = sum(place.weight * place.start for place in places(final).values() if place.known)
    return Course(np.array(ends), latency, float(untuned), _tuned(latencies(tasks, 1)), _tuned(final))


def latencies(tasks: Sequence[TaskCurve], rounds: int | None = None) -> dict[int, TaskLatency[int]]:
    """What tasks contribute, by place, after so many rounds of each; None: after all."""
    return {i: TaskLatency(task.weight, task.untuned, (task.bests[:rounds] or (None,))[-1], task.alternative_of)
            for i, task in enumerate(tasks)}  # fmt: skip


def _tuned(found: dict[int, TaskLatency[int]]) -> float:
    known = [place for place in places(found).values() if place.known]
    return float(sum(place.weight * min(place.start, place.current or np.inf) for place in known))
