"""What the REST API answers, typed. Fields that a newer server adds are kept (``model_extra``)."""

from __future__ import annotations

import datetime as dt
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict

from tunesmith.options import JobOptions
from tunesmith.states import JobState, ModelState, is_final


class Answer(BaseModel):
    """Base of every answer."""

    model_config = ConfigDict(extra="allow", frozen=True)


class Progress(Answer):
    """How far a job has come; ``eta_seconds`` is None while it cannot be told.

    ``seconds`` leaves out pauses and waits for a device; ``tasks_measured`` of ``tasks_tunable`` have a latency, or had
    a first round in which nothing ran.
    """

    trials: int = 0
    trials_budget: int | None = None
    seconds: float = 0.0
    seconds_budget: float | None = None
    eta_seconds: float | None = None
    tasks: int = 0
    tasks_tunable: int = 0
    tasks_measured: int = 0


class Latency(Answer):
    """Latency of the whole model in seconds: estimated while tuning, measured end to end at the end.

    None until every tunable task has a latency; ``tasks_rough`` of them had no round yet, and count at what their
    default schedules took once. ``source`` is ``estimate``, ``measured``, or ``simulated`` when the figures are
    invented. ``output_error`` is the tuned model's error against the signal, ``output_tolerance`` the largest that
    counts as right.

    Measured figures have an ``interval`` of the speed-up and a ``verdict``, ``faster``, ``slower`` or
    ``no_difference``; ``schedules`` counts those that changed, ``estimate`` is what the tasks alone sum up to.
    """

    untuned: float | None = None
    current: float | None = None
    speedup: float | None = None
    interval: tuple[float, float] | None = None
    verdict: str | None = None
    schedules: int | None = None
    estimate: float | None = None
    source: str = "estimate"
    tasks_rough: int = 0
    output_error: float | None = None
    output_tolerance: float | None = None


class Check(Answer):
    """What the comparison of the tuned model's outputs with the untuned model's came to.

    ``state`` is ``agree``, ``differ``, ``nothing_checked`` (the outputs hardly depend on the inputs, so that a wrong
    schedule would not show) or ``not_compared``. ``signal`` is the part of themselves by which outputs of two inputs
    differ, ``error`` is against that, ``tolerance`` is the largest that counts as right.
    """

    state: str = "not_compared"
    error: float | None = None
    tolerance: float | None = None
    signal: float | None = None


class Reference(Answer):
    """The model on another runtime, timed on the same device around the tuned build.

    ``ratio`` is the tuned build's latency over the runtime's ``seconds``, with an ``interval`` and a ``verdict`` of the
    tuned build: ``faster``, ``slower`` or ``no_difference``. ``precision`` is the model's own (``model``) or what the
    runtime takes by itself (``default``). ``failure`` says why there are no figures.
    """

    runtime: str
    version: str = ""
    precision: str = "model"
    seconds: float | None = None
    ratio: float | None = None
    interval: tuple[float, float] | None = None
    verdict: str | None = None
    failure: str = ""


class Forecast(Answer):
    """What a job is expected to come to; None while that cannot be told.

    ``expected``, ``low`` and ``high`` are seconds of the model, the last two an interval of probability ``level``;
    ``seconds`` and ``rounds`` are what is left. ``passes_reference_in``: seconds of further tuning until a job that
    is over, and slower than its reference, is expected to be as fast.
    """

    seconds: float | None = None
    rounds: int | None = None
    current: float | None = None
    expected: float | None = None
    low: float | None = None
    high: float | None = None
    level: float | None = None
    passes_reference_in: float | None = None


class Job(JobOptions, Answer):
    """A tuning job with its options. ``simulated``: a simulated device took part, so its latencies are invented."""

    id: str
    state: JobState
    name: str = ""
    model_id: str | None = None
    target: str = ""
    target_json: dict[str, Any] | None = None
    progress: Progress = Progress()
    latency: Latency = Latency()
    check: Check | None = None
    reference: Reference | None = None
    references: list[Reference] = []
    reference_missing: str | None = None
    simulated: bool = False
    error: dict[str, Any] | None = None
    waiting_for: dict[str, Any] | None = None
    stop_reason: str | None = None
    created_at: dt.datetime | None = None
    started_at: dt.datetime | None = None
    finished_at: dt.datetime | None = None

    @property
    def done(self) -> bool:
        """True when nothing more will happen."""
        return is_final(self.state)

    @property
    def waited_seconds(self) -> float:
        """Seconds of a job that is over in which it was paused or had no device."""
        if self.created_at is None or self.finished_at is None:
            return 0.0
        return max(0.0, (self.finished_at - self.created_at).total_seconds() - self.progress.seconds)


class Model(Answer):
    """An uploaded model or an operator."""

    id: str
    state: ModelState
    name: str = ""
    source: str = ""
    tasks: int = 0
    error: dict[str, Any] | None = None


class ApiKey(Answer):
    """A key. ``key`` is its secret, known only in the answer that made it."""

    id: str
    owner: str = ""
    scopes: list[str] = []
    revoked: bool = False
    created_at: str = ""
    key: str | None = None


class AuditEntry(Answer):
    """Who did what: null without a valid key. ``action``: method and route; ``target``: path of what it was done to."""

    id: int
    owner: str | None = None
    key_id: str | None = None
    address: str = ""
    action: str = ""
    target: str = ""
    status: int = 0
    created_at: str = ""


class ModelTask(Answer):
    """A task of a model. ``alternative_of``: the ``workload`` of the task that it may replace."""

    name: str
    weight: int
    workload: str = ""
    alternative_of: str | None = None


class Verified(Answer):
    """How far a schedule's outputs lie from the default schedule's, and the largest error that counts as right."""

    error: float
    tolerance: float | None = None
    definition: str = ""
    reference: str = ""


class JobTask(Answer):
    """A task of a job: where the budget goes and what it found. Latencies in seconds.

    ``verified`` is of the best schedule; None while that is the default one, or where nothing was compared.
    ``known_latency``: of the champion that earlier jobs left, with which it began.
    ``alternative_of``: the ``workload`` of the task that this one may replace. The model runs the faster of the
    two, which is ``in_use``.
    ``reason``: why it keeps its default schedule, where that is no choice.
    """

    id: int
    name: str
    weight: int
    workload: str = ""
    alternative_of: str | None = None
    in_use: bool = True
    trials: int = 0
    flops: float | None = None
    best_latency: float | None = None
    known_latency: float | None = None
    untuned_latency: float | None = None
    tunable: bool = True
    reason: str | None = None
    verified: Verified | None = None


class Failure(Answer):
    """A class of failed candidates; ``message`` is what the newest said."""

    failure: str
    count: int
    message: str = ""


class DeviceCalibration(Answer):
    """What a device can do: FLOP/s, bytes/s, the share by which equal medians differ, latency over that at first."""

    peak_flops: float
    bandwidth: float
    noise_floor: float
    drift: float
    measured_at: dt.datetime


class Device(Answer):
    """A device that a measure worker reported. ``health``: ``ok``, ``drifting``, ``quarantined``, ``resting`` or
    ``incompatible``; ``reason`` says why nothing is measured on it."""

    name: str
    device_classes: list[str] = []
    alive: bool = True
    simulated: bool = False
    health: str = "ok"
    reason: str = ""
    calibration: DeviceCalibration | None = None


class Event(Answer):
    """Something that happened to a job; ids only grow. ``formerly``: what the kind was called until version 0.1."""

    id: int
    kind: str
    formerly: str | None = None
    data: dict[str, Any] = {}
    created_at: dt.datetime | None = None


Item = TypeVar("Item")


class Page(Answer, Generic[Item]):
    """One page of a list; pass ``next_cursor`` on to get the next."""

    items: list[Item]
    next_cursor: str | None = None
