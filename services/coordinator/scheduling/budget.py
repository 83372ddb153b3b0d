"""How much of a budget is left, and how large the next round may be. Pure."""

from __future__ import annotations

from services.coordinator.scheduling.snapshot import JobSnapshot

ROUND_SIZE = 16
MIN_ROUND_SIZE = 2
WARM_UP_SHARE = 0.5
"""Part of the budget that may go into visiting every task once."""
GUESSED_TRIALS_PER_SECOND = 2.0
"""Used until the job's own pace is known."""
CONVERGED_GAIN = 0.01
"""A job has converged when its latest rounds improved the model by less than this share."""


def trials_left(job: JobSnapshot) -> int | None:
    """Trials that may still be handed out; None without a limit."""
    if job.budget_trials is None:
        return None
    return max(0, job.budget_trials - job.trials - job.trials_in_flight)


def evaluation_reserve(job: JobSnapshot) -> float:
    """Seconds that a budget of seconds keeps back for the end-to-end check.

    Two compilations (a share of a second per task), some eight runs of the untuned model, and a constant;
    never more than half of the budget.
    """
    if job.budget_seconds is None or not job.verify:
        return 0.0
    untuned = sum(task.weight * task.untuned for task in job.tasks if task.untuned)
    estimate = 5.0 + 0.3 * len(job.tasks) + 8.0 * untuned
    return min(estimate, job.budget_seconds / 2)


def round_seconds(job: JobSnapshot) -> float:
    """Rough seconds that a round takes from proposal to its last result."""
    finished = sum(len(task.history) for task in job.tasks)
    if not finished:
        return 0.0
    return min(15.0, job.elapsed * max(1, job.rounds_in_flight) / finished)


def seconds_left(job: JobSnapshot) -> float | None:
    """Seconds for further rounds, the reserve taken off; None without a limit."""
    if job.budget_seconds is None:
        return None
    return job.budget_seconds - evaluation_reserve(job) - job.elapsed


def round_size(job: JobSnapshot, warm: bool) -> int:
    """Trials of the next round: fewer while many tasks share a small budget, never beyond what is left.

    ``warm`` is True once every task was visited.
    """
    size = ROUND_SIZE
    if not warm:
        expected = _expected_trials(job)
        if expected is not None:
            unseen = sum(1 for task in job.tasks if task.tunable and not task.rounds) or 1
            spare = expected * WARM_UP_SHARE - job.trials - job.trials_in_flight
            size = max(MIN_ROUND_SIZE, min(size, int(spare / unseen)))
    left = trials_left(job)
    return size if left is None else min(size, left)


def _expected_trials(job: JobSnapshot) -> float | None:
    """Trials of the whole job, at its own pace once that is known: other jobs and slow candidates set it, too."""
    limits: list[float] = []
    if job.budget_trials is not None:
        limits.append(job.budget_trials)
    if job.budget_seconds is not None:
        pace = job.trials / job.elapsed if job.trials >= ROUND_SIZE else GUESSED_TRIALS_PER_SECOND
        limits.append((job.budget_seconds - evaluation_reserve(job)) * pace)
    return min(limits) if limits else None


def converged(job: JobSnapshot) -> bool:
    """True when the latest rounds, as many as twice the tasks and at least eight, gained next to nothing."""
    tunable = [task for task in job.tasks if task.tunable]
    window = max(8, 2 * len(tunable))
    if len(job.curve) <= window or any(not task.history for task in tunable):
        return False
    before, now = job.curve[-window - 1], job.curve[-1]
    return before < float("inf") and before > 0 and (before - now) / before < CONVERGED_GAIN
