"""A job replayed on recorded curves: the service's own rules and an allocator decide which task's next round it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.allocation.curves import ModelCurves, TaskCurve
from services.coordinator.curve import Places, best_so_far
from services.coordinator.scheduling.choose import next_round
from services.coordinator.scheduling.snapshot import ROUND_SIZE, JobSnapshot, TaskSnapshot
from tunesmith.alternatives import TaskLatency, places
from tunesmith.names import NO_COST_MODEL
from tunesmith.options import JobOptions
from tunesmith.space.base import Floats
from tunesmith.states import JobState

SLOTS = 1


@dataclass(frozen=True)
class ReplayedRun:
    """What a job came to.

    Attributes:
        seconds: at the end of each round, float64 [rounds].
        latency: of the model then, float64 [rounds]; a task that had no round yet runs with its default schedule.
        untuned, first, best: latency before, with the first recorded round of every curve, and with the best.
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


def replay(tasks: Sequence[TaskCurve], allocator: str, seed: int, equal: bool = False) -> ReplayedRun:
    """Give rounds away, one after the other, until every curve has come to its end.

    Args:
        equal: rounds of one size, whatever the allocator wants.
    """
    job = _job(tasks, allocator, seed)
    now, order, ends = 0.0, list[tuple[int, int]](), list[float]()
    while (opened := next_round(job, SLOTS)) is not None:
        action, job = opened
        curve, begin = tasks[action.task], job.tasks[action.task].trials
        # The budget is far away, so that it decides nothing; rounds would be large for it.
        end = min(begin + (ROUND_SIZE if equal else min(action.size, ROUND_SIZE)), len(curve.bests))
        took = curve.took(begin, end)
        now += took
        order.append((action.task, end))
        ends.append(now)
        job = _after(job, action.task, curve, end, took)
    return course(tasks, order, ends)


def _job(tasks: Sequence[TaskCurve], allocator: str, seed: int) -> JobSnapshot:
    made = tuple(
        TaskSnapshot(
            id=i,
            weight=task.weight,
            flops=task.flops,
            family=task.family,
            alternative_of=task.alternative_of,
            exhausted=not task.bests,
        )
        for i, task in enumerate(tasks)
    )
    seconds = sum(sum(task.seconds) + sum(task.overheads) for task in tasks)
    return JobSnapshot(
        id="replay",
        state=JobState.RUNNING,
        options=JobOptions(allocator=allocator, cost_model=NO_COST_MODEL, seed=seed, verify=False),
        budget_seconds=10 * seconds,
        tasks=made,
    )


def _after(job: JobSnapshot, task: int, curve: TaskCurve, end: int, took: float) -> JobSnapshot:
    """The job when a round of the task is over, which ended with its candidate before ``end``."""
    before = job.tasks[task]
    best = curve.bests[end - 1]
    done = replace(
        before,
        in_flight=0,
        proposing=False,
        trials=end,
        untuned=curve.untuned,
        best=best,
        history=(*before.history, np.inf if best is None else best),
        seconds=((before.seconds or 0.0) * before.trials + took) / end,
        exhausted=end >= len(curve.bests),
    )
    tasks = (*job.tasks[:task], done, *job.tasks[task + 1 :])
    return replace(job, tasks=tasks, trials_in_flight=0, elapsed=job.elapsed + took)


def course(tasks: Sequence[TaskCurve], order: Sequence[tuple[int, int]], ends: Sequence[float]) -> ReplayedRun:
    """What rounds bring.

    Args:
        order: whose they are, and how many candidates the task had by then.
        ends: seconds at which they end.
    """
    final = latencies(tasks)
    steps = [(task, tasks[task].bests[had - 1]) for task, had in order]
    standing = Places.of(final)
    latency = np.array(list(best_so_far(standing, steps)))
    return ReplayedRun(
        np.array(ends), latency, float(standing.total), _tuned(latencies(tasks, first=True)), _tuned(final)
    )


def latencies(tasks: Sequence[TaskCurve], first: bool = False) -> dict[int, TaskLatency[int]]:
    """What tasks contribute, by place, at the ends of their curves, or of the first recorded round of each."""
    known = [task.bests[: task.sizes[0]] if first and task.sizes else task.bests for task in tasks]
    return {
        i: TaskLatency(task.weight, task.untuned, (bests or (None,))[-1], task.alternative_of)
        for i, (task, bests) in enumerate(zip(tasks, known, strict=True))
    }


def _tuned(found: dict[int, TaskLatency[int]]) -> float:
    known = [place for place in places(found).values() if place.known]
    return float(sum(place.weight * min(place.start, place.current or np.inf) for place in known))
