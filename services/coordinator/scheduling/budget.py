"""How much of a budget is left, and how large the next round may be. Pure."""

from __future__ import annotations

from services.coordinator.scheduling.snapshot import ROUND_SIZE, JobSnapshot

FIRST_ROUND_SIZE = 3
"""Of a task, where the allocator wants them small and trials are not few, while others wait for theirs: these still run
their default schedules, and what is constructed first is mostly near the best."""
ONLY_ROUND_SIZE = 8
"""The same where nobody waits: enough for a first cost model."""
GLANCE_SIZE = 2
"""Of a direct task whose alternative is tuned already: mostly that wins, and what is constructed shows by how much."""
LARGE_ROUND_SIZE = 32
"""Of a job with few tasks and a large budget: a round's fixed costs are shared by more candidates."""
ROUNDS_PER_TASK = 6
"""Rounds that each task should get at least before they become large: a search learns from round to round."""
MIN_ROUND_SIZE = 2
WARM_UP_SHARE = 0.5
"""Part of the budget that may go into visiting every task once."""
REFERENCE_SECONDS = 4.0
"""Of onnxruntime: two processes, each of which loads a model and times it for a second."""
GUESSED_TRIALS_PER_SECOND = 2.0
"""Used until the job's own pace is known."""


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
    if job.budget_seconds is None or not job.verify:
        return 0.0
    direct = [task for task in job.tasks if task.alternative_of is None]
    untuned = sum(task.weight * task.untuned for task in direct if task.untuned)
    estimate = 5.0 + 0.2 * len(job.tasks) + 6.5 * untuned + (REFERENCE_SECONDS if job.compared else 0.0)
    return min(estimate, job.budget_seconds / 2)


def seconds_left(job: JobSnapshot) -> float | None:
    """Seconds for further rounds, the reserve taken off; None without a limit."""
    if job.budget_seconds is None:
        return None
    return job.budget_seconds - evaluation_reserve(job) - job.elapsed


def time_for_a_round(job: JobSnapshot) -> bool:
    """False when one more round, after what is under way, would end too late. A job's first round always fits.

    Rounds so far tell how large one is: where they are small, the job's pace is slow because each costs something.
    """
    left = seconds_left(job)
    if left is None:
        return True
    started = job.trials or job.rounds_in_flight
    done = sum(len(task.history) for task in job.tasks)
    usual = min(ROUND_SIZE, job.trials / done) if done else ROUND_SIZE
    return left > ((job.trials_in_flight + usual) / pace(job) if started else 0.0)


def pace(job: JobSnapshot) -> float:
    """Trials per second of the job so far; other jobs and slow candidates set it, too."""
    return job.trials / job.elapsed if job.trials >= ROUND_SIZE and job.elapsed else GUESSED_TRIALS_PER_SECOND


def round_size(
    job: JobSnapshot, *, first: bool, unseen: int, glance: bool = False, second: bool = False, small: bool = True
) -> int:
    """Trials of the next round: fewer while many tasks share a small budget, never beyond what is left.

    First rounds are small unless trials are few, or the allocator's rounds are all of one size; then second ones are as
    small as first ones where the rest of the time has no whole one for each task. Rounds are large when the whole
    budget has room for ``ROUNDS_PER_TASK`` large ones of each task, from the first cost model on and until the last
    seconds.

    Args:
        first: whether it is the task's first one.
        unseen: tasks that had none, this one included: first rounds leave something for them.
        glance: whether a program for the same place of the model is tuned already.
        second: whether it is the task's second one.
        small: whether the allocator wants first rounds small.
    """
    expected = _expected_trials(job)
    learnt = job.cost_model == "none" or job.training.trained_on > 0
    size = LARGE_ROUND_SIZE if _roomy(job) and learnt else ROUND_SIZE
    seconds = seconds_left(job)
    if seconds is not None:
        rest = int(seconds * pace(job)) - job.trials_in_flight
        size = max(min(size, rest), ROUND_SIZE)
        if small and second and rest < ROUND_SIZE * job.tunable:
            size = FIRST_ROUND_SIZE
    if first and not sparing(job):
        usual = (FIRST_ROUND_SIZE if unseen > 1 else ONLY_ROUND_SIZE) if small else size
        size = GLANCE_SIZE if glance else usual
    if first and expected is not None:
        spare = expected * WARM_UP_SHARE - job.trials - job.trials_in_flight
        size = max(MIN_ROUND_SIZE, min(size, int(spare / unseen)))
    left = trials_left(job)
    return size if left is None else min(size, left)


def sparing(job: JobSnapshot) -> bool:
    """True where the job ends after a few trials, and not after some time.

    Then a task's next batch should know what came of the one before, though a device may wait for it.
    """
    return job.budget_trials is not None and _expected_trials(job) == job.budget_trials and not _roomy(job)


def _roomy(job: JobSnapshot) -> bool:
    """True where each task gets ``ROUNDS_PER_TASK`` large rounds."""
    expected = _expected_trials(job)
    return expected is not None and expected >= ROUNDS_PER_TASK * LARGE_ROUND_SIZE * (job.tunable or 1)


def _expected_trials(job: JobSnapshot) -> float | None:
    """Trials of the whole job."""
    limits: list[float] = []
    if job.budget_trials is not None:
        limits.append(job.budget_trials)
    if job.budget_seconds is not None:
        limits.append((job.budget_seconds - evaluation_reserve(job)) * pace(job))
    return min(limits) if limits else None
