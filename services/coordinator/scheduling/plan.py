"""The scheduler: a pure, deterministic function from a snapshot to actions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from services.coordinator.scheduling import actions as act
from services.coordinator.scheduling import answers, budget
from services.coordinator.scheduling.choose import next_round, open_tasks
from services.coordinator.scheduling.convergence import converged
from services.coordinator.scheduling.rounds import trial_limited
from services.coordinator.scheduling.share import Limits, Load
from services.coordinator.scheduling.snapshot import JobSnapshot, Snapshot
from tunesmith.dataset.collecting import COLLECTED
from tunesmith.errors import MeasurementFailed
from tunesmith.names import NO_COST_MODEL
from tunesmith.states import OPEN_WORK, JobState, ModelState, WorkState

FIRST_TRAINING_RECORDS = 8
"""As many as three first rounds bring. So few suffice because the static model's promise is among the features."""
MIN_TRAINING_RECORDS = 12
"""New ones for every further model."""
TRAINING_GROWTH = 0.2
LAST_FIRST_ROUNDS = 3
"""Tasks that wait for their first round by when the first cost model is fitted: it is there for second rounds."""
MAX_TRAINING_FAILURES = 3


def plan(snapshot: Snapshot, limits: Limits | None = None) -> list[act.Action]:
    """Everything that should be done now.

    Jobs move on as their models, spaces, budgets and checks allow; free places are filled one by one, each for the
    user with the least under way, for that user's job with the least (by priority), with the task that its allocator
    chooses.
    """
    limits = limits or Limits()
    actions: list[act.Action] = []
    open_jobs: list[JobSnapshot] = []
    for job in snapshot.jobs:
        actions += _steer(job, snapshot)
        if job.state is JobState.RUNNING:
            actions += _train(job)
            going_on = False
            if _stop_reason(job) is None:
                opened, job = answers.with_answers(job)
                actions += opened
                going_on = not budget.out_of_time(job)
            if going_on and not _model_is_worth_a_wait(job, snapshot.slots.get(job.device_class, 0)):
                open_jobs.append(job)
    actions += _fill(open_jobs, snapshot, limits)
    return actions


def _steer(job: JobSnapshot, snapshot: Snapshot) -> Iterator[act.Action]:
    """Actions that move one job through its states."""
    if job.state is JobState.QUEUED:
        if job.model_state is ModelState.REJECTED:
            yield act.MoveJob(job.id, job.state, JobState.FAILED, problem=job.model_problem)
        elif job.model_state is ModelState.READY:
            yield act.MoveJob(job.id, job.state, JobState.PREPARING)
    elif job.state is JobState.PAUSED and job.model_state is ModelState.REJECTED:
        yield act.MoveJob(job.id, job.state, JobState.FAILED, problem=job.model_problem)
    elif job.state is JobState.CANCELLING:
        yield act.CancelRounds(job.id, measuring=True)
        if job.evaluation in OPEN_WORK:
            yield act.CancelEvaluation(job.id)
        yield act.MoveJob(job.id, job.state, JobState.CANCELLED, stop_reason="cancelled")
    elif job.state is JobState.RUNNING:
        yield from _steer_running(job, snapshot)
    elif job.state is JobState.FINISHING:
        yield from _steer_finishing(job)


def _steer_running(job: JobSnapshot, snapshot: Snapshot) -> Iterator[act.Action]:
    waits = not snapshot.slots.get(job.device_class)
    if waits != job.clock_stopped:
        yield act.SetClock(job.id, stopped=waits)
    reason = _stop_reason(job)
    if reason is None:
        return
    if reason == "seconds" and any(task.proposing or task.answering for task in job.tasks):
        yield act.CancelRounds(job.id, measuring=False)
    if any(task.in_flight - task.proposing for task in job.flying):
        return
    if reason != "seconds" and job.rounds_in_flight:
        return
    if _nothing_was_measured(job):
        problem = MeasurementFailed(
            "no candidate of any task could be measured; the trials' failures say why"
        ).problem()
        yield act.MoveJob(job.id, job.state, JobState.FAILED, stop_reason=reason, problem=problem)
        return
    yield act.MoveJob(job.id, job.state, JobState.FINISHING, stop_reason=reason)
    if job.options.verify:
        yield act.StartEvaluation(job.id, job.device_class)


def _steer_finishing(job: JobSnapshot) -> Iterator[act.Action]:
    if job.rounds_in_flight or any(task.answering for task in job.tasks):
        yield act.CancelRounds(job.id, measuring=True)
    if not job.options.verify or job.evaluation is WorkState.DONE:
        yield act.MoveJob(job.id, job.state, JobState.SUCCEEDED)
    elif job.evaluation is None:
        yield act.StartEvaluation(job.id, job.device_class)
    elif job.evaluation in (WorkState.FAILED, WorkState.CANCELLED):
        problem = job.evaluation_problem or MeasurementFailed("the end-to-end check was given up").problem()
        yield act.MoveJob(job.id, job.state, JobState.FAILED, problem=problem)


def _nothing_was_measured(job: JobSnapshot) -> bool:
    """True when candidates were measured and not a single latency came back."""
    if job.collecting is not None:
        return bool(job.trials) and not any(task.labels for task in job.tasks)
    measured = any(task.best is not None or task.untuned is not None for task in job.tasks)
    return not measured and any(task.trials for task in job.tasks)


def _stop_reason(job: JobSnapshot) -> str | None:
    """Why no further round may be opened, or None."""
    seconds = budget.seconds_left(job)
    over = seconds is not None and seconds <= 0
    if (over or (not job.rounds_in_flight and budget.out_of_time(job))) and not answers.under_way(job):
        return "seconds"
    if budget.trials_left(job) == 0:
        return "trials"
    if next(open_tasks(job), None) is None:
        return "exhausted" if job.collecting is None else COLLECTED
    if job.stop_when_converged and converged(job):
        return "converged"
    return None


def _train(job: JobSnapshot) -> Iterator[act.Action]:
    training = job.training
    if job.options.cost_model == NO_COST_MODEL or training.under_way or training.failures >= MAX_TRAINING_FAILURES:
        return
    fresh = training.records - training.trained_on
    least = MIN_TRAINING_RECORDS if training.trained_on else FIRST_TRAINING_RECORDS
    if fresh >= max(least, TRAINING_GROWTH * training.trained_on) and not _first_pass(job):
        yield act.StartTraining(job.id)


def _first_pass(job: JobSnapshot) -> bool:
    """True while only first batches are proposed, and for a while to come. These are constructed without a cost
    model, and a fit would take processor time from them."""
    if any(task.rounds > 1 for task in job.tasks):
        return False
    return sum(task.tunable and not task.exhausted and task.fresh for task in job.tasks) > LAST_FIRST_ROUNDS


def _model_is_worth_a_wait(job: JobSnapshot, slots: int) -> bool:
    """True while a cost model is being fitted that the next batch should have; a fit takes a fraction of a round.

    That is the job's first one while its devices are busy, because a batch proposed now would be blind; and every one
    where trials are few.
    """
    soon = job.training.under_way or next(_train(job), None) is not None
    first = not job.training.trained_on and job.rounds_in_flight >= max(slots, 1)
    return soon and (first or trial_limited(job))


def _fill(jobs: list[JobSnapshot], snapshot: Snapshot, limits: Limits) -> Iterator[act.Action]:
    """Open rounds until nothing more fits."""
    load, waiting = Load.of(snapshot, limits), {job.id: job for job in jobs}
    common = _common(snapshot)
    while waiting:
        job = min(waiting.values(), key=load.urgency)
        slots = snapshot.slots.get(job.device_class, 0)
        opened = None
        if _has_place(job, slots, limits, load):
            opened = next_round(job, slots, common)
        elif _has_place_ahead(job, snapshot, limits, load):
            opened = _first_only(next_round(job, slots, common))
        if opened is None:
            del waiting[job.id]
            continue
        action, waiting[job.id] = opened
        load.opened(job, action.task, action.size)
        shared = next(task.shared for task in job.tasks if task.id == action.task)
        if shared is not None:
            common[shared] += 1
        yield action


def _common(snapshot: Snapshot) -> Counter[tuple[str, str]]:
    """Rounds under way by what jobs tune in common."""
    found: Counter[tuple[str, str]] = Counter()
    for job in snapshot.jobs:
        for task in job.flying:
            if task.shared is not None:
                found[task.shared] += task.in_flight
    return found


def _first_only(opened: tuple[act.OpenRound, JobSnapshot] | None) -> tuple[act.OpenRound, JobSnapshot] | None:
    return opened if opened is not None and opened[0].baseline else None


def _has_place_ahead(job: JobSnapshot, snapshot: Snapshot, limits: Limits, load: Load) -> bool:
    """Whether a further first round may be opened before devices can use it."""
    slots = snapshot.slots.get(job.device_class, 0)
    if (
        not slots
        or trial_limited(job)
        or answers.short_of_time(job)
        or not any(task.tunable and task.fresh for task in job.tasks)
    ):
        return False
    alone = sum(other.device_class == job.device_class for other in snapshot.jobs) == 1
    return alone and load.rounds[job.device_class] < limits.rounds(slots) + limits.ahead


def _has_place(job: JobSnapshot, slots: int, limits: Limits, load: Load) -> bool:
    if not slots:
        return job.rounds == 0
    return load.rounds[job.device_class] < limits.rounds(slots)
