"""Jobs of an embedded stack, driven through the REST API as a user would, and what came of them."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness.processes import environment
from tunesmith.client import Client, EmbeddedStack
from tunesmith.client import Job as JobView
from tunesmith.errors import TunesmithError, from_problem
from tunesmith.metaschedule import DatabaseRecord
from tunesmith.names import DEFAULT_ALLOCATOR, DEFAULT_PRECISION, DEFAULT_SEARCHER, DEFAULT_SPACE
from tunesmith.preparation import Preparation
from tunesmith.schedule_log import read_log
from tunesmith.targets import Target
from tunesmith.types import Candidate

START_LIMIT = 120.0
GRACE = 120.0
"""Seconds beyond the budget after which a job is given up."""
IMPORT_LIMIT = 300.0
WARM_UP = "gemm:16x16x16:float32"
WARM_UP_LIMIT = 120.0
FROM_SCRATCH: Mapping[str, Any] = {"verify": False, "warm_start": False}
"""A job that tunes alone: it takes nothing over from others, and compares no outputs."""
SAME_TASK: Mapping[str, Any] = {"fast_math": False}
"""The program itself must be the one that other tuners get, see :func:`benchmarks.harness.operators.program`."""


@dataclass(frozen=True)
class Confirmation:
    """How a candidate became the champion of its function.

    Attributes:
        latency: seconds as it was measured again, in turn with the champion before it.
        beside: that champion; None for the first one.
    """

    latency: float
    beside: Candidate | None


@dataclass(frozen=True)
class Measured:
    """A candidate of Tunesmith's.

    Attributes:
        workload: structural hash of the function that it is a schedule of.
        candidate: the schedule; without a sketch it is the default one, which no searcher proposed.
        latency: seconds as the tuner measured it; None when it failed.
        confirmation: of one that became champion.
    """

    workload: str
    candidate: Candidate
    latency: float | None
    confirmation: Confirmation | None = None


@dataclass(frozen=True)
class Point:
    """The best so far.

    Attributes:
        seconds: from the submission of the job.
        latency: seconds of the whole model then, by the tuner's own measurements.
    """

    seconds: float
    latency: float


@dataclass(frozen=True)
class Request:
    """A job for a stack that is up already.

    Attributes:
        target: what to tune for.
        seed: of the search.
        trials: candidates at most; None for as many as there is time for.
        seconds: at most, from the submission of the job.
        space: of ``tunesmith.names.SPACES``.
        search: the searcher's name.
        allocator: the allocator's name.
        precision: of ``tunesmith.names.PRECISIONS``.
        warm_start: take over what is known, and what is shipped; else the job tunes alone.
    """

    target: Target
    seed: int
    trials: int | None
    seconds: float
    space: str = DEFAULT_SPACE
    search: str = DEFAULT_SEARCHER
    allocator: str = DEFAULT_ALLOCATOR
    precision: str = DEFAULT_PRECISION
    warm_start: bool = False


@dataclass(frozen=True)
class Tuned:
    """What a tuner found.

    Attributes:
        records: schedules; the fastest of a workload counts.
        preparation: how the model is prepared that they apply to.
        candidates: measured with success.
        seconds: wall time from the tuner's start to its end.
        measured: every candidate of Tunesmith's, oldest first.
        curve: Tunesmith's best so far, in order of time; empty until each function was measured.
    """

    records: list[DatabaseRecord]
    preparation: Preparation
    candidates: int
    seconds: float
    measured: tuple[Measured, ...] = ()
    curve: tuple[Point, ...] = ()


def tune(model: Path, request: Request, folder: Path) -> Tuned:
    """Tune through an embedded stack of its own, and take what it has when the time is over.

    The stack's start and the model's import count.

    Raises:
        TunesmithError: the stack does not start, or the job fails.
    """
    started = time.monotonic()
    with service(folder) as client:
        uploaded = client.wait_model(client.upload_model(model).id, timeout=request.seconds)
        left = max(1.0, request.seconds - (time.monotonic() - started))
        job = _submit(client, uploaded.id, request, left)
        with contextlib.suppress(TunesmithError):  # rounds that are under way when the time is over do not count
            client.wait(job.id, timeout=left)
        return _found(client, job.id, started, folder)


def tune_warm(model: Path, request: Request, folder: Path) -> Tuned:
    """Tune through an embedded stack of its own that has run a tiny job and imported the model before.

    Time counts from the submission of the job.

    Raises:
        TunesmithError: the stack does not start, or the job fails or does not end.
    """
    with service(folder) as client:
        warm_up(client, request.target)
        uploaded = client.wait_model(client.upload_model(model).id, timeout=IMPORT_LIMIT)
        started = time.monotonic()
        job = _submit(client, uploaded.id, request, request.seconds)
        client.wait(job.id, timeout=request.seconds + GRACE)
        return _found(client, job.id, started, folder)


def _submit(client: Client, model_id: str, request: Request, seconds: float) -> JobView:
    return client.submit(
        model_id=model_id,
        target=request.target.to_json(),
        trials=request.trials,
        seconds=seconds,
        seed=request.seed,
        space=request.space,
        search=request.search,
        allocator=request.allocator,
        precision=request.precision,
        **{**FROM_SCRATCH, "warm_start": request.warm_start},
    )


@contextlib.contextmanager
def service(folder: Path, start_limit: float = START_LIMIT) -> Iterator[Client]:
    """A client of an embedded stack that runs as long as the ``with`` statement; its data are below ``folder``.

    Settings of another stack do not reach it: what is compared is the product as it comes.
    """
    stack = EmbeddedStack(folder / "stack", env=environment())
    try:
        stack.start(start_limit)
        with Client(stack.url) as client:
            yield client
    finally:
        stack.stop()


def warm_up(client: Client, target: Target, limit: float = WARM_UP_LIMIT, **options: Any) -> None:
    """Run a tiny job: the first one of a stack imports TVM in each worker and calibrates the device.

    Args:
        client: of a stack that was just started.
        target: of the job that will follow.
        limit: seconds.
        **options: what that has beside the defaults.

    Raises:
        TunesmithError: it does not end in time.
    """
    job = client.submit(operator=WARM_UP, target=target.to_json(), trials=2, **FROM_SCRATCH, **options)
    client.wait(job.id, timeout=limit, poll=0.1)


def _found(client: Client, job_id: str, started: float, folder: Path) -> Tuned:
    """What a job has by now; ``started`` is on the monotonic clock."""
    job = client.job(job_id)
    if job.error:
        raise from_problem(job.error)
    taken = time.monotonic() - started
    failed = sum(failure.count for failure in client.failures(job_id))
    log = read_log(client.download_best(job_id, folder / "best.jsonl"))
    return Tuned(
        log.records,
        log.preparation,
        max(0, job.progress.trials - failed),
        taken,
        measured_of(client.trials(job_id)),
        curve_of(job, client.curve(job_id)["points"]),
    )


def curve_of(job: JobView, points: Iterable[Mapping[str, Any]]) -> tuple[Point, ...]:
    """A job's curve as the API has it, whose time begins when the job starts, which is after it was submitted.

    Its first point, the untuned model, is left out: that is known with the first round, not before.
    """
    waited = (job.started_at - job.created_at).total_seconds() if job.started_at and job.created_at else 0.0
    return tuple(
        Point(waited + float(point["seconds"]), float(point["latency"])) for point in points if point["trials"]
    )


def measured_of(trials: Iterable[Mapping[str, Any]]) -> tuple[Measured, ...]:
    """A job's trials as the API has them."""
    return tuple(
        Measured(str(trial["workload"]), _candidate(trial), trial["latency"], _confirmation(trial.get("confirmation")))
        for trial in trials
    )


def _candidate(found: Mapping[str, Any]) -> Candidate:
    return Candidate.from_json([found["sketch"], found["decisions"]])


def _confirmation(confirmation: Mapping[str, Any] | None) -> Confirmation | None:
    if confirmation is None or not confirmation["won"] or not confirmation["samples"]:
        return None
    beside = confirmation["champion"]
    return Confirmation(statistics.median(confirmation["samples"]), beside and _candidate(beside))
