"""Rows of one large job, as a long search leaves them: written straight into the tables."""

from __future__ import annotations

import datetime as dt
import hashlib
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Engine

from db import models as tables
from db.chunks import chunks
from db.models.base import utcnow
from tunesmith.preparation import PLAIN
from tunesmith.states import JobState, ModelState, RoundState, WorkState

CHUNK = 2000
"""Rows that one statement inserts."""
EACH_ALTERNATIVE = 20
"""One task of so many may stand in for its predecessor."""
FAMILIES = 50
SHA = "0" * 64
TARGET = hashlib.sha256(b"target").hexdigest()
ENVIRONMENT = {
    "device": "bench-0",
    "worker": "bench@host",
    "tvm": "0.27.0.post1",
    "noise_floor": 0.02,
    "cache": "warm",
    "simulated": False,
    "cores": 2,
    "cpu": "znver4",
    "versions": {"tunesmith": "0.1.0", "numpy": "2.4.6"},
}


@dataclass(frozen=True)
class LargeJob:
    """A job to make.

    Attributes:
        key: its id.
        tasks: number of its tasks.
        rounds: finished rounds of one candidate each, dealt to the tasks in turn.
        state: what it is in.
        known: share of its tasks that have a latency; nothing ran of the others.
    """

    key: str
    tasks: int
    rounds: int
    state: JobState
    known: float = 1.0

    def write(self, engine: Engine, *, analyze: bool = True) -> None:
        """Insert the job and all that belongs to it.

        Args:
            engine: of a migrated database.
            analyze: renew the database's statistics, as the server does by itself within a minute.
        """
        now = utcnow()
        with engine.begin() as connection:
            for kind, rows in self._tables(now):
                for chunk in chunks(rows, CHUNK):
                    connection.execute(sa.insert(kind), chunk)
            if analyze:
                connection.exec_driver_sql("ANALYZE")

    def _tables(self, now: dt.datetime) -> Iterator[tuple[type, list[dict[str, Any]]]]:
        draw = random.Random(0)
        workloads = [hashlib.sha256(f"{self.key}/{i}".encode()).hexdigest() for i in range(self.tasks)]
        began = now - dt.timedelta(hours=4)
        if self.key.endswith("-0"):
            yield tables.TargetRow, [{"hash": TARGET, "json": {"kind": "llvm"}, "device_class": "llvm-bench-2"}]
        yield (
            tables.Model,
            [
                {
                    "id": f"m-{self.key}",
                    "name": "large",
                    "source": "onnx",
                    "sha256": SHA,
                    "owner": self.key,
                    "state": ModelState.READY,
                    "preparation": PLAIN.key,
                }
            ],
        )
        yield (
            tables.WorkloadRow,
            [
                {
                    "hash": key,
                    "name": f"fused_conv2d_add_relu_{i}",
                    "family": f"family_{i % FAMILIES}",
                    "flops": 1e8 + i,
                    "args": [["float32", [1, 64, 56, 56]]] * 3,
                    "module_blob": SHA,
                    "metaschedule_blob": SHA,
                }
                for i, key in enumerate(workloads)
            ],
        )
        yield tables.SketchRow, [{"hash": self._sketch, "workload_hash": workloads[0], "body": {"knobs": []}}]
        yield (
            tables.Job,
            [
                {
                    "id": self.key,
                    "model_id": f"m-{self.key}",
                    "target_spec": "cpu",
                    "target_hash": TARGET,
                    "state": self.state,
                    "budget_trials": 16 * (self.tasks + self.rounds),
                    "search": "genetic",
                    "cost_model": "xgboost",
                    "allocator": "gradient",
                    "created_at": began,
                    "started_at": began,
                    "finished_at": now if self.state is JobState.SUCCEEDED else None,
                    "attempt": 1,
                    "dispatched": 1,
                }
            ],
        )
        yield (
            tables.Family,
            [
                {"id": self._first + i, "job_id": self.key, "name": f"family_{i}"}
                for i in range(min(FAMILIES, self.tasks))
            ],
        )
        yield tables.JobTask, [self._task(i, workloads, draw) for i in range(self.tasks)]
        yield from self._rounds(began)

    def _task(self, i: int, workloads: list[str], draw: random.Random) -> dict[str, Any]:
        alternative = i % EACH_ALTERNATIVE == EACH_ALTERNATIVE - 1
        untuned, weight = draw.uniform(1e-4, 1e-2), 1 + (i - alternative) % 4
        known = i < self.known * self.tasks
        return {
            "id": self._first + i,
            "job_id": self.key,
            "workload_hash": workloads[i],
            "position": i,
            "family_id": self._first + i % FAMILIES,
            "name": f"fused_conv2d_add_relu_{i}",
            "weight": weight,
            "tunable": True,
            "sketches": [],
            "alternative_of": workloads[i - 1] if alternative else None,
            "trials": 16,
            "failures": 1,
            "untuned_seconds": untuned if known and not alternative else None,
            "best_seconds": untuned * draw.uniform(0.1, 1.0) if known else None,
            "known_seconds": None,
            "best_record_id": self._first + self.rounds + i if known else None,
        }

    @property
    def _sketch(self) -> str:
        return hashlib.sha256(f"{self.key} sketch".encode()).hexdigest()

    @property
    def _first(self) -> int:
        """Ids begin here: jobs of a run have a number at the end of their key."""
        return int(self.key.rsplit("-", 1)[1]) * 10_000_000 + 1

    def _rounds(self, began: dt.datetime) -> Iterator[tuple[type, list[dict[str, Any]]]]:
        rounds: list[dict[str, Any]] = []
        batches: list[dict[str, Any]] = []
        records: list[dict[str, Any]] = []
        for i in range(self.rounds):
            key, task, at = self._first + i, self._first + i % self.tasks, began + dt.timedelta(seconds=i)
            rounds.append(
                {
                    "id": key,
                    "job_id": self.key,
                    "job_task_id": task,
                    "number": i + 1,
                    "size": 16,
                    "attempt": 1,
                    "baseline": i < self.tasks,
                    "state": RoundState.DONE,
                    "finished_at": at,
                    "dispatched": 1,
                    "reason": {"reason": "largest expected gain", "gain": 1e-4, "scores": {str(task): 1e-4}},
                    "metrics": {
                        "propose_seconds": 0.31,
                        "measured": 16,
                        "failed": 1,
                        "duplicates": 0,
                        "build_seconds": 11.25,
                        "run_seconds": 4.5,
                        "device_seconds": 3.75,
                        "crowned_at": at.isoformat(),
                        "ranking": {"top1": 0.93, "pairs": 0.88, "spearman": 0.71},
                    },
                    "champion_since": at,
                    "best_before": 1e-2,
                    "best_after": 1e-2 / (1 + i / self.tasks),
                }
            )
            batches.append(
                {
                    "id": key,
                    "round_id": key,
                    "job_id": self.key,
                    "device_class": "llvm-bench-2",
                    "attempt": 1,
                    "state": WorkState.DONE,
                    "candidates": [[None, []]],
                    "dispatched": 1,
                    "finished_at": at,
                }
            )
            records.extend(self._records(key, task, i))
        yield tables.Round, rounds
        yield tables.Batch, batches
        yield tables.Record, records
        yield tables.Event, [self._event(row) for row in rounds]

    def _event(self, row: dict[str, Any]) -> dict[str, Any]:
        data = {
            "id": row["id"],
            "task": row["job_task_id"],
            "number": row["number"],
            "name": "fused_conv2d_add_relu",
            "measured": 16,
            "failed": 1,
            "best_before": row["best_before"],
            "best_after": row["best_after"],
        }
        return {"id": row["id"], "job_id": self.key, "kind": "round_finished", "data": data}

    def _records(self, batch: int, task: int, number: int) -> Iterator[dict[str, Any]]:
        workload = hashlib.sha256(f"{self.key}/{number % self.tasks}".encode()).hexdigest()
        for index in range(2):
            yield {
                "id": self._first + (number if index == 0 else self.rounds + number),
                "job_id": self.key,
                "job_task_id": task,
                "batch_id": batch,
                "index": index,
                "workload_hash": workload,
                "target_hash": TARGET,
                "sketch_hash": self._sketch if index else None,
                "decisions": [[4, 2, 8], [16, 1], 512],
                "samples": [1e-3, 1.01e-3, 1.02e-3],
                "latency": 1.01e-3,
                "build_seconds": 0.7,
                "run_seconds": 0.3,
                "environment": ENVIRONMENT,
            }
