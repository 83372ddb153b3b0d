"""How much of a budget is left. Pure."""

from __future__ import annotations

from services.coordinator.scheduling.snapshot import ROUND_SIZE, JobSnapshot

REFERENCE_SECONDS = 4.0
"""Seconds that onnxruntime takes: two processes, each of which loads a model and times it for a second."""
ANSWER_SECONDS = 0.3
"""What it takes to choose a schedule of a task without a measurement."""
ANSWER_GRACE = 0.1
"""Part of a budget by which the check waits for schedules of tasks without one: these are tens of times slower."""
GUESSED_TRIALS_PER_SECOND = 2.0
"""Used until the job's own pace is known."""
GUESSED_UNTUNED_RATE = 2.5e9
"""FLOP/s of default schedules on a CPU, used until one is timed."""


def trials_left(job: JobSnapshot) -> int | None:
    """Trials that may still be handed out; None without a limit."""
    if job.budget_trials is None:
        return None
    return max(0, job.budget_trials - job.trials - job.trials_in_flight)


def evaluation_reserve(job: JobSnapshot) -> float:
    """Seconds that a budget of seconds keeps back for the end-to-end check.

    Two compilations at a time (a share of a second per task), some six runs of the untuned model, another runtime
    where there may be one, and a constant; never more than half of the budget.
    """
    if job.budget_seconds is None or not job.options.verify:
        return 0.0
    estimate = 5.0 + 0.2 * len(job.tasks) + 6.5 * _untuned(job) + (REFERENCE_SECONDS if job.compared else 0.0)
    return min(estimate, job.budget_seconds / 2)


def _untuned(job: JobSnapshot) -> float:
    """Seconds that the untuned model takes. Tasks that are not timed yet run as fast as the others."""
    direct = [task for task in job.tasks if task.alternative_of is None]
    timed = sum(task.weight * task.untuned for task in direct if task.untuned)
    done = sum(task.weight * task.flops for task in direct if task.untuned)
    rest = sum(task.weight * task.flops for task in direct if not task.untuned)
    if timed and done:
        return timed + rest * timed / done
    return timed + (rest / GUESSED_UNTUNED_RATE if job.on_cpu else 0.0)


def seconds_left(job: JobSnapshot) -> float | None:
    """Seconds for further rounds, the reserve taken off; None without a limit."""
    if job.budget_seconds is None:
        return None
    return job.budget_seconds - evaluation_reserve(job) - job.elapsed


def answer_seconds(job: JobSnapshot) -> float:
    """Seconds that it takes to give a schedule to each task that has none."""
    return ANSWER_SECONDS * len(job.unanswered)


def seconds_for_answers(job: JobSnapshot) -> float | None:
    """Seconds for schedules of tasks that have none; None without a limit."""
    left = seconds_left(job)
    return None if left is None else left + ANSWER_GRACE * (job.budget_seconds or 0.0)


def out_of_time(job: JobSnapshot) -> bool:
    """True when one more round, after those in flight, would end too late. A job's first round always fits.

    Rounds so far tell how large one is: where they are small, the job's pace is slow because each costs something.
    Time is kept for tasks that would end without a schedule: what the static model chooses is mostly far better than
    the default one, and costs less than a round.
    """
    left = seconds_left(job)
    if left is None:
        return False
    started = job.trials or job.rounds_in_flight
    done = sum(len(task.history) for task in job.tasks)
    usual = min(ROUND_SIZE, job.trials / done) if done else ROUND_SIZE
    left -= answer_seconds(job) if started else 0.0
    return left <= ((job.trials_in_flight + usual) / pace(job) if started else 0.0)


def pace(job: JobSnapshot) -> float:
    """Trials per second of the job so far; other jobs and slow candidates set it, too."""
    return job.trials / job.elapsed if job.trials >= ROUND_SIZE and job.elapsed else GUESSED_TRIALS_PER_SECOND


def expected_trials(job: JobSnapshot) -> float | None:
    """Trials of the whole job, by its budget and pace; None without a limit."""
    limits: list[float] = []
    if job.budget_trials is not None:
        limits.append(job.budget_trials)
    if job.budget_seconds is not None:
        limits.append((job.budget_seconds - evaluation_reserve(job)) * pace(job))
    return min(limits) if limits else None
