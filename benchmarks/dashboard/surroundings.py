"""Rows around the records: what they refer to, and what else the dashboard lists."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from benchmarks.dashboard import plan
from benchmarks.dashboard.plan import JobPlan, Sizes
from db import models as tables
from db.chunks import chunks
from tunesmith.messages import Calibration, ReferenceTiming
from tunesmith.preparation import PLAIN
from tunesmith.states import JobState, ModelState, WorkState

CHUNK = 2000
"""Rows that one statement inserts."""
SHA = "0" * 64
TRACE = [
    ["GetSBlock", [], ["conv2d", "main"], ["b0"]],
    ["SampleComputeLocation", ["b0"], [], ["l1"]],
    ["SampleCategorical", [], [[0, 16, 32, 64, 128, 256, 512, 1024], [0.125] * 8], ["v2"]],
    ["Annotate", ["b0", "v2"], ["meta_schedule.unroll_explicit"], []],
]
DEVICES, KEYS, AUDIT = 40, 50, 20_000
COST_MODELS = 4
"""Of each job."""


def before_jobs(connection: Connection, sizes: Sizes, jobs: Sequence[JobPlan]) -> None:
    """Targets, models, workloads with their sketches, and the jobs themselves."""
    numbers = range(plan.MODELS * plan.TASKS + sizes.tasks)
    _insert(
        connection,
        tables.TargetRow,
        (
            {"hash": key, "json": {"kind": "llvm", "num-cores": 2}, "device_class": name}
            for name, key in plan.TARGETS.items()
        ),
    )
    _insert(connection, tables.Model, (_model(number) for number in range(plan.MODELS + 1)))
    _insert(connection, tables.WorkloadRow, (_workload(number, jobs[-1].began) for number in numbers))
    _insert(
        connection,
        tables.SketchRow,
        (
            {"hash": plan.sketch(n), "workload_hash": plan.workload(n), "body": {"knobs": [], "trace": TRACE}}
            for n in numbers
        ),
    )
    _insert(connection, tables.ModelTask, (row for number in range(plan.MODELS) for row in _model_tasks(number)))
    _insert(connection, tables.Job, map(_job, jobs))


def after_jobs(
    connection: Connection, jobs: Sequence[JobPlan], best: Mapping[tuple[int, str], tuple[int, float]], now: dt.datetime
) -> None:
    """Champions, checks, cost models, devices, keys and the audit log."""
    draw = random.Random(1)
    _insert(
        connection,
        tables.Schedule,
        (
            {
                "workload_hash": plan.workload(number),
                "target_hash": target,
                "record_id": record,
                "latency": seconds,
                "trace": TRACE,
                "updated_at": now,
            }
            for (number, target), (record, seconds) in best.items()
        ),
    )
    over = [job for job in jobs if job.state is JobState.SUCCEEDED]
    _insert(connection, tables.Evaluation, (_evaluation(job, draw) for job in over))
    _insert(connection, tables.CostModelRow, (row for job in jobs for row in _cost_models(job)))
    _insert(connection, tables.Device, (_device(number, now) for number in range(DEVICES)))
    _insert(
        connection,
        tables.ApiKey,
        ({"id": f"k-{n}", "sha256": f"{n:064x}", "owner": f"user-{n % 9}", "scopes": ["user"]} for n in range(KEYS)),
    )
    _insert(connection, tables.AuditRow, (_audit(number, now) for number in range(AUDIT)))


def _insert(connection: Connection, table: type, rows: Iterable[dict[str, Any]]) -> None:
    for some in chunks(rows, CHUNK):
        connection.execute(sa.insert(table), some)


def _model(number: int) -> dict[str, Any]:
    return {
        "id": f"m-{number}",
        "name": f"model-{number}.onnx",
        "source": "onnx",
        "sha256": f"{number:064x}",
        "state": ModelState.READY,
        "preparation": PLAIN.key,
    }


def _model_tasks(model: int) -> list[dict[str, Any]]:
    return [
        {
            "model_id": f"m-{model}",
            "workload_hash": plan.workload(number),
            "position": at,
            "name": plan.task_name(number),
            "weight": 1 + at % 3,
        }
        for at, number in enumerate(plan.tasks_of(model))
    ]


def _workload(number: int, latest: dt.datetime) -> dict[str, Any]:
    """Those of most jobs, with most records, are the newest, so that a list begins with them."""
    return {
        "created_at": latest - dt.timedelta(minutes=number),
        "hash": plan.workload(number),
        "name": plan.task_name(number),
        "family": plan.family(number),
        "flops": 1e8 + number,
        "args": [["float32", [1, 64, 56, 56]]] * 3,
        "module_blob": SHA,
        "metaschedule_blob": SHA,
    }


def _job(job: JobPlan) -> dict[str, Any]:
    over = job.state is not JobState.RUNNING
    return {
        "id": job.key,
        "name": f"nightly {job.key}",
        "model_id": f"m-{job.model}",
        "target_spec": "cpu",
        "target_hash": job.target,
        "state": job.state,
        "budget_trials": job.records,
        "search": "genetic",
        "cost_model": "xgboost",
        "allocator": "gradient",
        "created_at": job.began,
        "started_at": job.began,
        "finished_at": job.began + dt.timedelta(minutes=31) if over else None,
        "attempt": 1,
        "dispatched": 1,
    }


def _evaluation(job: JobPlan, draw: random.Random) -> dict[str, Any]:
    untuned, tuned, other = ([base * draw.uniform(1, 1.05) for _ in range(9)] for base in (0.2, 0.02, 0.03))
    return {
        "job_id": job.key,
        "device_class": "llvm-bench-2",
        "state": WorkState.DONE,
        "untuned_samples": untuned,
        "tuned_samples": tuned,
        "output_error": 1e-6,
        "output_signal": 0.5,
        "output_tolerance": 1e-2,
        "references": [ReferenceTiming(runtime="onnxruntime", version="1.31.1", samples=other).model_dump(mode="json")],
        "applied": len(job.workloads),
        "attempt": 1,
        "dispatched": 1,
    }


def _cost_models(job: JobPlan) -> list[dict[str, Any]]:
    return [
        {
            "id": f"cm-{job.key}-{number}",
            "kind": "xgboost",
            "job_id": job.key,
            "target_hash": job.target,
            "number": number + 1,
            "state": WorkState.DONE,
            "features": "rows/3",
            "trained_on": job.records * (number + 1) // COST_MODELS,
            "metrics": {"rank_correlation": 0.8, "top_k_recall": 0.6},
            "created_at": job.began + dt.timedelta(minutes=number),
            "attempt": 1,
            "dispatched": 1,
        }
        for number in range(COST_MODELS)
    ]


def _device(number: int, now: dt.datetime) -> dict[str, Any]:
    calibration = Calibration(
        peak_flops=5e11,
        bandwidth=4e10,
        noise_floor=0.018,
        reference_seconds=1e-3,
        latest_seconds=1e-3,
        measured_at=now.isoformat(),
        drift=1.0,
    )
    return {
        "name": f"bench-{number}/cpu",
        "worker": f"bench-{number}/cpu-1",
        "host": f"bench-{number}",
        "device_classes": ["llvm-bench-2"],
        "target": {"kind": "llvm", "num-cores": 2},
        "cores": 2,
        "environment": {},
        "calibration": calibration.model_dump(mode="json"),
        "seen_at": now,
    }


def _audit(number: int, now: dt.datetime) -> dict[str, Any]:
    return {
        "owner": f"user-{number % 9}",
        "key_id": f"k-{number % KEYS}",
        "address": "192.0.2.7",
        "action": "POST /v1/jobs",
        "target": f"/v1/jobs/bench-{number:06d}",
        "status": 202,
        "request_id": f"{number:032x}",
        "created_at": now - dt.timedelta(seconds=60 * (AUDIT - number)),
    }
