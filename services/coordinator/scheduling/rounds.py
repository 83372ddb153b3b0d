"""How many candidates the next round of a task has. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from services.coordinator.scheduling import budget
from services.coordinator.scheduling.snapshot import ROUND_SIZE, JobSnapshot, TaskSnapshot
from tunesmith.names import NO_COST_MODEL

FIRST_CANDIDATES = 3
"""A task's first round where the allocator wants it small, trials are not few and other tasks wait for theirs. Those
still run their default schedules, and what is constructed first is mostly near the best."""
PROMISED_CANDIDATES = 1
"""The same of a task that was given a schedule when the job was prepared: that one, chosen by all that is known."""
ONLY_FIRST_CANDIDATES = 8
"""The same where no other task waits: enough for a first cost model."""
BEHIND_ALTERNATIVE_CANDIDATES = 2
"""The first round of a direct task whose alternative is tuned already. Mostly the alternative wins, and what is
constructed shows by how much."""
LARGE_CANDIDATES = 32
"""A round of a job with few tasks and a large budget, which share the round's fixed costs."""
LEAST_CANDIDATES = 2
"""Fewest of a first round."""
ROUNDS_PER_TASK = 6
"""Rounds that each task should get before they become large: a search learns from round to round."""
WARM_UP_SHARE = 0.5
"""Part of the budget that may go into a first round of every task."""


@dataclass(frozen=True)
class NextRound:
    """What is known of a round before its size.

    Attributes:
        first: whether it is the task's first one.
        second: whether it is the task's second one.
        unseen: tasks that had none, this one included: first rounds leave something for them.
        alternative_tuned: whether a program for the same place of the model is tuned already.
        small_first: whether the allocator wants first rounds small.
        promised: whether the task was given a schedule when the job was prepared.
    """

    first: bool = False
    second: bool = False
    unseen: int = 0
    alternative_tuned: bool = False
    small_first: bool = True
    promised: bool = False


def round_size(job: JobSnapshot, coming: NextRound) -> int:
    """Candidates of the next round: fewer while many tasks share a small budget, never more than the budget has left.

    First rounds are small unless trials are few, or the allocator's rounds are all of one size. Second rounds are as
    small as first ones where the rest of the time has no whole round for each task. Rounds are large when the whole
    budget has room for ``ROUNDS_PER_TASK`` large ones of each task, from the first cost model on and until the last
    seconds.
    """
    size = _first(job, coming) if coming.first else _later(job, coming)
    left = budget.trials_left(job)
    return size if left is None else min(size, left)


def labels_wanted(job: JobSnapshot, task: TaskSnapshot) -> int:
    """Candidates of a collecting job's next round of a task: what it lacks, those under way left out, in large rounds.

    Nothing is learnt from round to round, so only the fixed costs of a round count.
    """
    if job.collecting is None:
        return 0
    left = budget.trials_left(job)
    most = LARGE_CANDIDATES if left is None else min(LARGE_CANDIDATES, left)
    return max(0, min(most, task.lacks(job.collecting) - task.trials_in_flight))


def trial_limited(job: JobSnapshot) -> bool:
    """True where the job ends after a few trials, and not after some time.

    Then a task's next batch should know what came of the one before, though a device may wait for it.
    """
    counts = job.budget_trials is not None and budget.expected_trials(job) == job.budget_trials
    return counts and not _room_for_large(job)


def _later(job: JobSnapshot, coming: NextRound) -> int:
    learnt = job.options.cost_model == NO_COST_MODEL or job.training.trained_on > 0
    size = LARGE_CANDIDATES if learnt and _room_for_large(job) else ROUND_SIZE
    seconds = budget.seconds_left(job)
    if seconds is None:
        return size
    rest = int(seconds * budget.pace(job)) - job.trials_in_flight
    if coming.small_first and coming.second and rest < ROUND_SIZE * job.tunable:
        return FIRST_CANDIDATES
    return max(min(size, rest), ROUND_SIZE)


def _first(job: JobSnapshot, coming: NextRound) -> int:
    size = _later(job, coming)
    if not trial_limited(job):
        if coming.alternative_tuned:
            size = BEHIND_ALTERNATIVE_CANDIDATES
        elif coming.promised and coming.small_first:
            return PROMISED_CANDIDATES
        elif coming.small_first:
            size = FIRST_CANDIDATES if coming.unseen > 1 else ONLY_FIRST_CANDIDATES
    expected = budget.expected_trials(job)
    if expected is None:
        return size
    spare = expected * WARM_UP_SHARE - job.trials - job.trials_in_flight
    return max(LEAST_CANDIDATES, min(size, int(spare / coming.unseen)))


def _room_for_large(job: JobSnapshot) -> bool:
    """True where each task gets ``ROUNDS_PER_TASK`` large rounds."""
    expected = budget.expected_trials(job)
    return expected is not None and expected >= ROUNDS_PER_TASK * LARGE_CANDIDATES * (job.tunable or 1)
