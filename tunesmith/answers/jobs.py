"""Jobs and everything below them."""

from __future__ import annotations

import datetime as dt
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.config import JsonDict

from tunesmith.answers.base import Answer, Body
from tunesmith.answers.shown import html_table, seconds
from tunesmith.budget import DEFAULT_TRIALS, MAX_SECONDS, MAX_TRIALS, UNMEASURED
from tunesmith.dataset.collecting import JobKind
from tunesmith.measuring.checked import LEAST_DEPENDENCE, CheckState
from tunesmith.measuring.ratio import Verdict
from tunesmith.messages import Confirmation
from tunesmith.options import JobOptions
from tunesmith.states import JobState, RoundState, is_final
from tunesmith.types import StopReason
from tunesmith.unmeasured import Source

INTERVAL = "Seconds: where the median of a second measurement would lie, nineteen times of twenty."


class BudgetBody(Body):
    """When the job ends: whichever limit is reached first. Bounds are checked by the use case."""

    trials: int | None = Field(
        None,
        description=f"1 to {MAX_TRIALS}; {DEFAULT_TRIALS} when no limit is given. 0: answers without measuring.",
        json_schema_extra={"minimum": UNMEASURED, "maximum": MAX_TRIALS},
    )
    seconds: float | None = Field(
        None,
        description="Wall-clock seconds from submission, up to 30 days.",
        json_schema_extra={"exclusiveMinimum": 0, "maximum": MAX_SECONDS},
    )
    stop_when_converged: bool = False


class Progress(Answer):
    """How far a job is. ``seconds`` leaves out pauses and waits for a device.

    ``tasks_measured`` of the ``tasks_tunable`` tasks have a latency by now, or an alternative that has a schedule, or
    had a first round in which nothing ran; the others of the ``tasks`` leave the search nothing to decide.

    A collecting job has ``labels`` by now, those of earlier ones included, of the ``labels_wanted`` that its tasks can
    have; both are null for jobs that tune.
    """

    trials: int
    trials_budget: int | None
    failures: int
    seconds: float
    seconds_budget: float | None
    eta_seconds: float | None
    tasks: int
    tasks_tunable: int
    tasks_measured: int
    rounds: int
    rounds_in_flight: int
    labels: int | None = None
    labels_wanted: int | None = None


class Latency(Answer):
    """Seconds of one run of the model, untuned and now.

    ``source`` is ``estimate`` (weighted sum over the tunable tasks; null until each of them has a latency, because part
    of the sum is no latency of the model; those of which nothing ever ran are left out), ``measured`` (the compiled
    model, end to end) or ``simulated`` (a simulated device invented it). Of an estimate, ``tasks_rough`` tasks had no
    round yet: they count at what their default schedules took once at the job's start. ``output_error`` is
    max|tuned - untuned| / max|untuned(x) - untuned(x')|; null where nothing was checked. ``output_tolerance`` is
    the largest that counts as right: 0.01, or more in models that round, whose untuned outputs jump when inputs and
    weights are off by a ten-thousandth.

    Measured figures have an ``interval`` of the speed-up, which holds the true one nineteen times of twenty, and a
    ``verdict``: ``no_difference`` where it contains 1 or no schedule changed; ``schedules`` counts those that did.
    ``estimate`` is then what the tasks alone sum up to.
    """

    untuned: float | None
    current: float | None
    speedup: float | None
    interval: tuple[float, float] | None = None
    verdict: Verdict | None = None
    schedules: int | None = None
    estimate: float | None = None
    source: Literal["estimate", "measured", "simulated"]
    tasks_rough: int = 0
    output_error: float | None = None
    output_tolerance: float | None = None


class ReferenceBody(Answer):
    """The model on another runtime, timed on the same device before and after the tuned build, in a box of its own.

    ``ratio`` is the tuned build's latency over the runtime's: below 1 the tuned build is faster. ``precision`` is
    ``model``, the model's own, or ``default``: the runtime's default, which may be less. Outputs of a job in a narrow
    precision are compared with those of runtimes at the model's own: ``error`` and ``rms`` are at most ``tolerance``
    where they are right. All three are null for other jobs.
    """

    runtime: str
    version: str
    precision: Literal["model", "default"]
    seconds: float | None = None
    ratio: float | None = None
    interval: tuple[float, float] | None = Field(None, description="95 % confidence interval of the ratio.")
    verdict: Verdict | None = Field(None, description="Verdict; `no_difference` where the interval contains 1.")
    failure: str = Field("", description="Why there are no figures.")
    error: float | None = Field(None, description="max|tuned(x) - its(x)| / max|its(x)|")
    rms: float | None = Field(None, description="The same in the root mean square.")
    tolerance: float | None = None


class CheckBody(Answer):
    """What the comparison of the tuned model's outputs with the untuned model's came to.

    ``agree`` and ``differ`` hold ``error`` against ``tolerance``. ``nothing_checked``: the outputs hardly depend on the
    inputs, so that a wrong schedule would not show. ``not_compared``: no outputs were computed.
    """

    state: CheckState
    error: float | None = Field(description="max|tuned(x) - untuned(x)| / max|untuned(x) - untuned(x')|")
    tolerance: float | None = Field(description="Largest error that counts as right.")
    signal: float | None = Field(
        description="max|untuned(x) - untuned(x')| / max|untuned|, of the output that depends most on the inputs. "
        f"Below {LEAST_DEPENDENCE:g} nothing is checked. Null for jobs of earlier versions."
    )


def _state_options(schema: JsonDict) -> None:
    """Bounds and defaults of options are for requests; an answer has each of them."""
    properties: Any = schema["properties"]
    for name in JobOptions.model_fields:
        properties[name] = {key: properties[name][key] for key in ("type", "title", "description")}


class JobHead(Answer):
    """What a job is about."""

    id: str
    name: str
    owner: str
    model_id: str
    model_name: str
    target: str
    target_json: dict[str, Any] | None
    device_class: str | None
    state: JobState


class JobBody(JobOptions, JobHead):
    """A job. ``error`` is a problem object; ``waiting_for`` says what a job that stands still waits for.

    ``per_task``, ``shard`` and ``shards``: what a job of kind ``collect`` is asked for, see ``POST /v1/jobs``.

    ``simulated``: a simulated device took part, so its latencies are invented.
    ``check``: of the compiled model's outputs; null before it is done, and where it is not asked for.
    ``reference``: the fastest other runtime at hand, of all ``references`` that were tried, fastest first. Where a job
    that was checked has none, ``reference_missing`` says why.
    ``precision`` is ``auto`` until it is chosen. ``notes``: why it was chosen, and what was asked of the model's
    preparation and could not be had.
    ``tags`` and ``comment`` are its owner's, see ``PATCH /v1/jobs/{job_id}``.
    """

    model_config = ConfigDict(json_schema_serialization_defaults_required=True, json_schema_extra=_state_options)

    kind: JobKind = JobKind.TUNE
    per_task: int | None = None
    shard: int = 0
    shards: int = 1
    tags: list[str] = []
    comment: str = ""
    simulated: bool
    budget: BudgetBody
    progress: Progress
    latency: Latency
    check: CheckBody | None
    reference: ReferenceBody | None
    references: list[ReferenceBody]
    reference_missing: str | None
    waiting_for: dict[str, Any] | None
    notes: list[str]
    stop_reason: str | None
    error: dict[str, Any] | None
    created_at: dt.datetime
    started_at: dt.datetime | None
    finished_at: dt.datetime | None

    @property
    def done(self) -> bool:
        """True when nothing more will happen."""
        return is_final(self.state)

    def _repr_html_(self) -> str:
        """The job as a notebook shows it."""
        done, latency = self.progress, self.latency
        trials = f"{done.trials} of {done.trials_budget}" if done.trials_budget else str(done.trials)
        rows = [
            ("job", self.id),
            ("state", self.state.value),
            ("target", self.target),
            ("trials", f"{trials}, {done.failures} failed"),
            ("untuned", seconds(latency.untuned)),
            ("now", seconds(latency.current) + (f" ({latency.source})" if latency.current is not None else "")),
            ("speed-up", "" if latency.speedup is None else f"{latency.speedup:.3g}x"),
            ("outputs", "" if self.check is None else self.check.state.value.replace("_", " ")),
            ("error", "" if self.error is None else str(self.error.get("detail", ""))),
        ]
        return html_table(self.name or self.model_name, rows)

    @property
    def waited_seconds(self) -> float:
        """Seconds of a job that is over in which it was paused or had no device."""
        if self.finished_at is None:
            return 0.0
        return max(0.0, (self.finished_at - self.created_at).total_seconds() - self.progress.seconds)


class Verified(Answer):
    """Outputs compared with the default schedule's; ``definition`` and ``reference`` say how ``error`` is meant."""

    error: float
    tolerance: float | None = Field(None, description="Largest error that counts as right.")
    definition: str
    reference: str


class UnmeasuredBody(Answer):
    """A schedule that was not measured on its task.

    ``seconds``: estimated, or scaled from the ``relative``'s latency by the FLOPs. ``relative``: workload that a
    rescaled schedule was measured on. ``confidence``: share of tasks of which such a schedule is within a tenth of what
    a search finds.
    """

    source: Source
    seconds: float | None
    relative: str | None
    confidence: float


class TaskBody(Answer):
    """A task of a job. ``share`` is its part of the model's estimated latency now, ``budget_share`` of the trials.

    ``verified``: the best schedule's own check; null while the default schedule is the best, or where it has none.
    ``known_latency``: of the champion that earlier jobs left of this very task, with which it began.
    ``rough_latency``: of the default schedule, timed once at the job's start or scaled from others; ``untuned_latency``
    is what its first round measured.
    ``alternative_of``: the workload of the direct task that this one may replace; of the two the model runs the
    faster one, which is ``in_use``. An alternative's ``best_latency`` is null until a schedule beats its own default.
    ``reason``: why the task keeps its default schedule, where that is no choice: its design space cannot be opened, all
    its candidates fail, or their outputs cannot be checked.
    ``answer``: the schedule that the task has without a measurement: in a job of 0 trials, before the first round in
    one with a budget of seconds, and where time is too short.
    """

    id: int
    name: str
    workload: str
    family: str
    weight: int
    alternative_of: str | None
    in_use: bool
    flops: float
    tunable: bool
    exhausted: bool
    reason: str | None
    trials: int
    failures: int
    known_latency: float | None
    rough_latency: float | None
    untuned_latency: float | None
    best_latency: float | None
    best_interval: tuple[float, float] | None = Field(description=INTERVAL)
    speedup: float | None
    gflops: float | None
    share: float | None
    budget_share: float
    belief: dict[str, Any] | None = Field(
        description="The allocator's score at its latest choice, `expected_gain`, and the score's standard deviation, "
        "`uncertainty`: null where the allocator has none, as in rounds of earlier versions."
    )
    verified: Verified | None
    answer: UnmeasuredBody | None


class FamilyBody(Answer):
    """Tasks of similar computation, summed up."""

    name: str
    tasks: int
    trials: int
    failures: int
    untuned_latency: float | None
    best_latency: float | None
    budget_share: float


class RoundBody(Answer):
    """One round of one task."""

    id: int
    number: int
    task: int
    task_name: str
    state: RoundState
    size: int
    baseline: bool
    attempt: int
    cost_model_id: str | None
    metrics: dict[str, Any] | None
    best_before: float | None
    best_after: float | None
    error: dict[str, Any] | None
    created_at: dt.datetime
    finished_at: dt.datetime | None


class TrialBody(Answer):
    """One measured candidate; ``index`` counts within its batch, ``sketch`` is null for the default schedule.

    ``stopped`` says why no further sample was taken; a ``duplicate`` has the samples of a candidate with equal code. A
    finalist has a ``confirmation``: result of measuring it again next to the champion.
    """

    id: int
    task: int | None
    task_name: str = Field(description="Empty where the task is gone with its job.")
    batch: int | None
    index: int
    workload: str
    sketch: str | None
    decisions: list[Any]
    latency: float | None
    samples: list[float]
    interval: tuple[float, float] | None = Field(description=INTERVAL)
    failure: str | None
    message: str
    build_seconds: float
    run_seconds: float
    device_seconds: float = Field(description="Part of `run_seconds` in which the kernel itself ran.")
    stopped: StopReason | None
    duplicate: bool
    confirmation: Confirmation | None
    environment: dict[str, Any]
    created_at: dt.datetime


class DecisionBody(BaseModel):
    """Why the allocator chose a round: the tasks' scores by id, and a sentence.

    ``expected`` and ``saved``: seconds of the model's latency that the round was expected to save, null where the
    allocator does not say, and that it saved; null before its end, and where it brought a task's first latency.
    """

    round: int
    task: int
    task_name: str
    reason: str
    scores: dict[str, float | None]
    expected: float | None
    saved: float | None
    created_at: dt.datetime


class FailureBody(Answer):
    """A class of failure: how many candidates, and what the newest of them said."""

    failure: str
    count: int
    message: str
