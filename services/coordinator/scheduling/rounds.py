"""How many candidates the next round of a task has. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from services.coordinator.scheduling import budget
from services.coordinator.scheduling.snapshot import ROUND_SIZE, JobSnapshot
from tunesmith.names import NO_COST_MODEL


@dataclass(frozen=True)
class RoundPolicy:
    """Sizes of rounds, in candidates, and what they depend on.

    Attributes:
        usual: candidates of a round without a reason for another size.
        first: candidates of a task's first round where the allocator wants it small, trials are not few and other
            tasks wait for theirs. Those still run their default schedules, and what is constructed first is mostly near
            the best.
        only_first: the same where no other task waits: enough for a first cost model.
        behind_alternative: candidates of the first round of a direct task whose alternative is tuned already. Mostly
            the alternative wins, and what is constructed shows by how much.
        large: candidates of a round of a job with few tasks and a large budget, which share the round's fixed costs.
        smallest: fewest candidates of a first round.
        rounds_per_task: rounds that each task should get before they become large: a search learns from round to round.
        warm_up_share: part of the budget that may go into a first round of every task.
    """

    usual: int = ROUND_SIZE
    first: int = 3
    only_first: int = 8
    behind_alternative: int = 2
    large: int = 32
    smallest: int = 2
    rounds_per_task: int = 6
    warm_up_share: float = 0.5


@dataclass(frozen=True)
class NextRound:
    """What is known of a round before its size.

    Attributes:
        first: whether it is the task's first one.
        second: whether it is the task's second one.
        unseen: tasks that had none, this one included: first rounds leave something for them.
        alternative_tuned: whether a program for the same place of the model is tuned already.
        small_first: whether the allocator wants first rounds small.
    """

    first: bool = False
    second: bool = False
    unseen: int = 0
    alternative_tuned: bool = False
    small_first: bool = True


POLICY = RoundPolicy()


def round_size(job: JobSnapshot, coming: NextRound, policy: RoundPolicy = POLICY) -> int:
    """Candidates of the next round: fewer while many tasks share a small budget, never more than the budget has left.

    First rounds are small unless trials are few, or the allocator's rounds are all of one size. Second rounds are as
    small as first ones where the rest of the time has no whole round for each task. Rounds are large when the whole
    budget has room for ``rounds_per_task`` large ones of each task, from the first cost model on and until the last
    seconds.
    """
    size = _first(job, coming, policy) if coming.first else _later(job, coming, policy)
    left = budget.trials_left(job)
    return size if left is None else min(size, left)


def trial_limited(job: JobSnapshot, policy: RoundPolicy = POLICY) -> bool:
    """True where the job ends after a few trials, and not after some time.

    Then a task's next batch should know what came of the one before, though a device may wait for it.
    """
    counts = job.budget_trials is not None and budget.expected_trials(job) == job.budget_trials
    return counts and not _room_for_large(job, policy)


def _later(job: JobSnapshot, coming: NextRound, policy: RoundPolicy) -> int:
    learnt = job.options.cost_model == NO_COST_MODEL or job.training.trained_on > 0
    size = policy.large if learnt and _room_for_large(job, policy) else policy.usual
    seconds = budget.seconds_left(job)
    if seconds is None:
        return size
    rest = int(seconds * budget.pace(job)) - job.trials_in_flight
    if coming.small_first and coming.second and rest < policy.usual * job.tunable:
        return policy.first
    return max(min(size, rest), policy.usual)


def _first(job: JobSnapshot, coming: NextRound, policy: RoundPolicy) -> int:
    size = _later(job, coming, policy)
    if not trial_limited(job, policy):
        if coming.alternative_tuned:
            size = policy.behind_alternative
        elif coming.small_first:
            size = policy.first if coming.unseen > 1 else policy.only_first
    expected = budget.expected_trials(job)
    if expected is None:
        return size
    spare = expected * policy.warm_up_share - job.trials - job.trials_in_flight
    return max(policy.smallest, min(size, int(spare / coming.unseen)))


def _room_for_large(job: JobSnapshot, policy: RoundPolicy) -> bool:
    """True where each task gets ``rounds_per_task`` large rounds."""
    expected = budget.expected_trials(job)
    return expected is not None and expected >= policy.rounds_per_task * policy.large * (job.tunable or 1)
