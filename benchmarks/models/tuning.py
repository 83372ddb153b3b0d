"""A model tuned by Tunesmith and by MetaSchedule for the same wall time, each alone on the machine."""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness.processes import Tree
from benchmarks.models.metaschedule import DONE, Job
from benchmarks.tuners.service import warm_up
from tunesmith.client import Client, EmbeddedStack
from tunesmith.client import Job as JobView
from tunesmith.errors import MeasurementFailed, TunesmithError, from_problem
from tunesmith.metaschedule import DatabaseRecord, read_database
from tunesmith.names import DEFAULT_ALLOCATOR, DEFAULT_SEARCHER, DEFAULT_SPACE
from tunesmith.preparation import PLAIN, Preparation
from tunesmith.safe_path import python
from tunesmith.schedule_log import read_log
from tunesmith.targets import Target
from tunesmith.types import Candidate

GRACE = 120.0
"""Seconds beyond the budget after which a tuner is given up."""
IMPORT_LIMIT = 300.0
THREADS = ("TVM_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""Set in this process for the compiler's sake, and nothing that a tuner should see."""
FAILED_SECONDS = 1e9
"""MetaSchedule records what failed with a latency beyond this."""


@dataclass(frozen=True)
class Crown:
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
        crown: of one that became champion.
    """

    workload: str
    candidate: Candidate
    latency: float | None
    crown: Crown | None = None


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
    """

    target: Target
    seed: int
    trials: int | None
    seconds: float
    space: str = DEFAULT_SPACE
    search: str = DEFAULT_SEARCHER
    allocator: str = DEFAULT_ALLOCATOR


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


def tunesmith(model: Path, target: Target, seconds: float, seed: int, folder: Path) -> Tuned:
    """Tune through an embedded stack of its own, and take what it has when the time is over.

    The stack's start and the model's import count.

    Raises:
        TunesmithError: the stack does not start, or the job fails.
    """
    started = time.monotonic()
    with service(folder) as client:
        uploaded = client.wait_model(client.upload_model(model).id, timeout=seconds)
        left = max(1.0, seconds - (time.monotonic() - started))
        job = client.submit(
            model_id=uploaded.id, target=target.to_json(), seconds=left, seed=seed, verify=False, warm_start=False
        )
        with contextlib.suppress(TunesmithError):  # rounds that are under way when the time is over do not count
            client.wait(job.id, timeout=left)
        return _found(client, job.id, started, folder)


def tunesmith_warm(model: Path, request: Request, folder: Path) -> Tuned:
    """Tune through an embedded stack of its own that has run a tiny job and imported the model before.

    Time counts from the submission of the job.

    Raises:
        TunesmithError: the stack does not start, or the job fails or does not end.
    """
    with service(folder) as client:
        warm_up(client, request.target)
        uploaded = client.wait_model(client.upload_model(model).id, timeout=IMPORT_LIMIT)
        started = time.monotonic()
        job = client.submit(
            model_id=uploaded.id,
            target=request.target.to_json(),
            trials=request.trials,
            seconds=request.seconds,
            seed=request.seed,
            space=request.space,
            search=request.search,
            allocator=request.allocator,
            verify=False,
            warm_start=False,
        )
        client.wait(job.id, timeout=request.seconds + GRACE)
        return _found(client, job.id, started, folder)


@contextlib.contextmanager
def service(folder: Path) -> Iterator[Client]:
    """A client of an embedded stack that runs as long as the ``with`` statement; its data are below ``folder``."""
    with EmbeddedStack(folder / "stack", env=_environment()) as stack, Client(stack.url) as client:
        yield client


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
        Measured(str(trial["workload"]), _candidate(trial), trial["latency"], _crown(trial.get("confirmation")))
        for trial in trials
    )


def _candidate(found: Mapping[str, Any]) -> Candidate:
    return Candidate.from_json([found["sketch"], found["decisions"]])


def _crown(confirmation: Mapping[str, Any] | None) -> Crown | None:
    if confirmation is None or not confirmation["won"] or not confirmation["samples"]:
        return None
    beside = confirmation["champion"]
    return Crown(statistics.median(confirmation["samples"]), beside and _candidate(beside))


def metaschedule(module: bytes, target: Target, seconds: float, per_round: int, seed: int, folder: Path) -> Tuned:
    """Tune with ``tune_relax`` in processes of its own; TVM's start counts, the model's import does not.

    Args:
        module: JSON of the module, prepared plainly.
        per_round: candidates a round; TVM's default is 64.

    Raises:
        MeasurementFailed: TVM ended early.
    """
    file, database = folder / "module.json", folder / "database"
    database.mkdir(parents=True)
    file.write_bytes(module)
    job = Job(str(file), target.to_json(), str(database), seconds, per_round, seed)
    command = python("benchmarks.models.metaschedule", json.dumps(asdict(job)))
    env = _environment() | {"TVM_NUM_THREADS": str(target.num_cores)}
    with Tree(command, log=folder / "log.txt", folder=folder, env=env) as tree:
        tree.wait(seconds + GRACE)
        if not (database / DONE).exists():
            raise MeasurementFailed(f"MetaSchedule ended early: {tree.tail()}")
    taken = float(json.loads((database / DONE).read_text())["seconds"])
    records = read_database(database)
    good = [record for record in records if min(record.run_seconds, default=FAILED_SECONDS) < FAILED_SECONDS]
    return Tuned(good, PLAIN, len(good), taken)


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in THREADS}
