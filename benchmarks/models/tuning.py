"""A model tuned by Tunesmith and by MetaSchedule for the same wall time, each alone on the machine."""

from __future__ import annotations

import collections
import contextlib
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.models.metaschedule import DONE, MANY, Job
from benchmarks.processes import Tree
from tunesmith.client import Client, EmbeddedStack, JobTask
from tunesmith.errors import MeasurementFailed, TunesmithError, from_problem
from tunesmith.metaschedule import DatabaseRecord, read_database
from tunesmith.preparation import PLAIN, Preparation
from tunesmith.schedule_log import read_log
from tunesmith.targets import Target

GRACE = 120.0
"""Seconds beyond the budget after which MetaSchedule is given up."""
THREADS = ("TVM_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""Set in this process for the compiler's sake, and nothing that a tuner should see."""
FIRST = 10
"""Candidates of a task after which a good kernel should be there."""
FAILED_SECONDS = 1e9
"""MetaSchedule records what failed with a latency beyond this."""


@dataclass(frozen=True)
class Tuned:
    """What a tuner found.

    Attributes:
        records: schedules; the fastest of a workload counts.
        preparation: how the model is prepared that they apply to.
        candidates: measured with success.
        seconds: wall time from the tuner's start to its end.
        kernels: the model's functions as the tuner measured them; None where it does not tell.
    """

    records: list[DatabaseRecord]
    preparation: Preparation
    candidates: int
    seconds: float
    kernels: Kernels | None = None


@dataclass(frozen=True)
class Kernels:
    """All kernels of one run of a model, measured one by one, in seconds.

    Attributes:
        total: with the best schedules.
        first: with the best of the first ``FIRST`` candidates of each task.
        largest: of ``total``, the function with the most operations.
        flops: operations of that function.
    """

    total: float
    first: float
    largest: float
    flops: float


def tunesmith(model: Path, target: Target, seconds: float, seed: int, folder: Path) -> Tuned:
    """Tune through an embedded stack of its own, and take what it has when the time is over.

    The stack's start and the model's import count.

    Raises:
        TunesmithError: the stack does not start, or the job fails.
    """
    started = time.monotonic()
    with EmbeddedStack(folder / "stack", env=_environment()) as stack, Client(stack.url) as client:
        uploaded = client.wait_model(client.upload_model(model).id, timeout=seconds)
        left = max(1.0, seconds - (time.monotonic() - started))
        job = client.submit(model_id=uploaded.id, target=target.to_json(), seconds=left, seed=seed, verify=False,
                            warm_start=False)  # fmt: skip
        with contextlib.suppress(TunesmithError):  # rounds that are under way when the time is over do not count
            client.wait(job.id, timeout=left)
        job = client.job(job.id)
        if job.error:
            raise from_problem(job.error)
        taken = time.monotonic() - started
        failed = sum(failure.count for failure in client.failures(job.id))
        log = read_log(client.download_best(job.id, folder / "best.jsonl"))
        tasks, trials = client.tasks(job.id), list(client.trials(job.id))
    kernels = kernels_of(tasks, trials)
    return Tuned(log.records, log.preparation, max(0, job.progress.trials - failed), taken, kernels)


def kernels_of(tasks: Sequence[JobTask], trials: Sequence[Mapping[str, Any]]) -> Kernels | None:
    """What a job found out about its kernels; None where a task that its model runs has no latency.

    The default schedule is no candidate, yet may be what a task is left with. Of a task and its alternative the one in
    use counts, whose operations are those of the direct one.

    Args:
        tasks: of the job.
        trials: of the job, oldest first.
    """
    found: dict[int, list[float]] = {task.id: [] for task in tasks}
    counts: collections.Counter[int] = collections.Counter()
    for trial in trials:
        task_id = int(trial["task"])
        counts[task_id] += trial["sketch"] is not None
        if trial["latency"] is not None and counts[task_id] <= FIRST:
            found[task_id].append(float(trial["latency"]))
    used = [task for task in tasks if task.in_use]
    best = {task.id: task.best_latency or task.untuned_latency or 0.0 for task in used}
    if not used or not all(best.values()) or not all(found[task.id] for task in used):
        return None
    flops = {task.workload or task.id: task.weight * (task.flops or 0.0) for task in tasks}
    work = {task.id: flops[task.alternative_of or task.workload or task.id] for task in used}
    largest = max(used, key=lambda task: work[task.id])
    return Kernels(
        total=sum(task.weight * best[task.id] for task in used),
        first=sum(task.weight * min(found[task.id]) for task in used),
        largest=largest.weight * best[largest.id], flops=work[largest.id],
    )  # fmt: skip


def metaschedule(
    module: bytes, target: Target, seconds: float, per_round: int, seed: int, folder: Path, trials: int = MANY
) -> Tuned:
    """Tune with ``tune_relax`` in processes of its own; TVM's start counts, the model's import does not.

    Args:
        module: JSON of the module, prepared plainly.
        per_round: candidates a round; TVM's default is 64.
        trials: candidates at most.

    Raises:
        MeasurementFailed: TVM ended early.
    """
    file, database = folder / "module.json", folder / "database"
    database.mkdir(parents=True)
    file.write_bytes(module)
    job = Job(str(file), target.to_json(), str(database), seconds, per_round, seed, trials)
    command = [sys.executable, "-m", "benchmarks.models.metaschedule", json.dumps(asdict(job))]
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
