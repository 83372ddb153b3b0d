"""A job of a model in a stack of its own, and what its tasks had when; read from the REST API."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from itertools import takewhile
from pathlib import Path
from typing import Any

from benchmarks.harness.jobs import GRACE, IMPORT_LIMIT, measured_of, service, warm_up
from benchmarks.starts.history import Champion, History, TaskHistory
from tunesmith.answers.jobs import TaskBody
from tunesmith.targets import Target


def tuned(model: Path, target: Target, seed: int, seconds: float, warm_start: bool, folder: Path) -> History:
    """Tune a model for some seconds, in a stack that has run a tiny job before.

    Args:
        warm_start: with what is shipped; the stack knows nothing else.
        folder: empty; the stack's data go there.

    Raises:
        TunesmithError: the stack does not start, or the job fails or does not end.
    """
    options: dict[str, Any] = {"seed": seed, "seconds": seconds, "warm_start": warm_start, "verify": False}
    with service(folder) as client:
        warm_up(client, target)
        uploaded = client.wait_model(client.upload_model(model).id, timeout=IMPORT_LIMIT)
        job_id = client.submit(model_id=uploaded.id, target=target.to_json(), **options).id
        job = client.wait(job_id, timeout=seconds + GRACE)
        assert job.started_at is not None, "it is over"
        assert job.created_at is not None, "it is over"
        trials: dict[int, list[dict[str, Any]]] = {}
        for trial in client.trials(job_id):
            trials.setdefault(trial["task"], []).append(trial)
        tasks = [history_of(task, trials.get(task.id, []), job.started_at) for task in client.tasks(job_id)]
    return History((job.started_at - job.created_at).total_seconds(), tuple(tasks))


def history_of(task: TaskBody, trials: Iterable[Mapping[str, Any]], began: dt.datetime) -> TaskHistory:
    """What a task had when.

    A first batch of a single candidate measures the schedule that the task had before. Of several in a batch that beat
    the champion the fastest is the next one.

    Args:
        trials: of the task, oldest first.
        began: when the job began to propose.
    """
    rows = [trial for trial in trials if trial["sketch"] is not None]
    first = list(takewhile(lambda trial: trial["batch"] == rows[0]["batch"], rows))
    best: dict[int, Champion] = {}
    for row, each in zip(rows, measured_of(rows), strict=True):
        if each.confirmation is not None:
            at = (dt.datetime.fromisoformat(row["created_at"]) - began).total_seconds()
            found = Champion(at, each.candidate, each.confirmation.latency)
            best[row["batch"]] = min(best.get(row["batch"], found), found, key=lambda champion: champion.latency)
    return TaskHistory(
        task.workload,
        task.weight,
        task.alternative_of,
        task.untuned_latency,
        measured_of(first)[0].candidate if len(first) == 1 else None,
        tuple(best.values()),
    )
