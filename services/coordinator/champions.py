"""The schedules that a job's model is compiled with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy.orm import Session

from db.models import Job, JobTask, Schedule
from db.queries import champions, models
from tunesmith.alternatives import TaskLatency, in_use


def of_job(session: Session, job: Job, tasks: Sequence[JobTask]) -> dict[str, Schedule | None]:
    """By workload, for every task that the model runs: its champion, or None where the default schedule stands.

    The slower one of a task and its alternative is left out: the compiled model takes the alternative wherever it has a
    schedule for it.

    Args:
        tasks: all of the job's, whose target is known.
    """
    assert job.target_hash is not None
    found = champions.of_workloads(session, models.caches_of(session, job), job.target_hash, simulated=job.simulated)
    better = {task.workload_hash: _better(task, found) for task in tasks}
    return in_place(tasks, better)


def in_place(tasks: Sequence[JobTask], better: Mapping[str, Schedule | None]) -> dict[str, Schedule | None]:
    """Those of the tasks that the model runs."""
    used = in_use(_latencies(tasks, better))
    return {key: champion for key, champion in better.items() if key in used}


def _better(task: JobTask, found: Mapping[str, Schedule]) -> Schedule | None:
    """The champion, if it beats the task's own default schedule; that of an alternative has its direct task to beat,
    too."""
    champion = found.get(task.workload_hash)
    if champion is None:
        return None
    return champion if task.untuned_seconds is None or champion.latency < task.untuned_seconds else None


def _latencies(tasks: Sequence[JobTask], better: Mapping[str, Schedule | None]) -> dict[str, TaskLatency[str]]:
    bests = {key: None if champion is None else champion.latency for key, champion in better.items()}
    measured = {task.alternative_of for task in tasks if bests[task.workload_hash] is not None}
    for task in tasks:
        if bests[task.workload_hash] is None and task.answer is not None and task.workload_hash not in measured:
            bests[task.workload_hash] = task.answer["seconds"]
    return {
        task.workload_hash: TaskLatency(
            task.weight, task.untuned_seconds, bests[task.workload_hash], task.alternative_of
        )
        for task in tasks
    }
