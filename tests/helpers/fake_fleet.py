"""Workers and devices for tests of the coordinator: they do what the real ones do to the database, without TVM."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa
from sqlalchemy.orm import Session

from db import clock
from db.models import Batch, CostModelRow, Device, Evaluation, Job, JobTask, Model, Round
from db.models.base import utcnow
from db.queries import models
from db.transactions import device_reports, job_plan, model_import, outcomes, results, work
from db.transactions.job_plan import PlannedTask
from db.transactions.model_import import Imported, ImportedTask
from db.transactions.transitions import transition
from services.coordinator.broker import Node
from services.coordinator.context import Context
from tunesmith.messages import (
    Confirmation,
    DeviceReport,
    EvaluateModel,
    IngestModel,
    LogLine,
    MeasureBatch,
    Message,
    PrepareJob,
    ProposeRound,
    ReferenceTiming,
    TrainCostModel,
    WireResult,
)
from tunesmith.states import JobState, RoundState, WorkState
from tunesmith.targets import Target
from tunesmith.types import CacheState, Candidate, FailureKind, TensorSpec, Workload
from tunesmith.unmeasured import Answer, Source

TARGET = Target({"kind": "llvm", "mcpu": "znver4", "num-cores": 2})
WORKER = "fake-worker"
PARAMS_SIZE = 1 << 20
"""Bytes of the models' parameters; an argument of the first task is one."""


@dataclass
class Sent:
    """A message on its way."""

    queue: str
    task_id: str
    message: Message


def record_heartbeat(session: Session) -> None:
    """A heartbeat of who measures: however slow this machine is, it is none that has gone."""
    session.execute(sa.update(Device).where(Device.worker == WORKER).values(seen_at=clock.now(session)))


@dataclass
class Recorder:
    """A broker that keeps what it is given; ``alive`` switches it off."""

    sent: list[Sent] = field(default_factory=list)
    revoked: list[str] = field(default_factory=list)
    alive: bool = True
    workers: list[Node] = field(default_factory=list)
    logs: dict[str, list[LogLine]] = field(default_factory=dict)

    def send(self, message: Message, *, queue: str, task_id: str) -> bool:
        if self.alive:
            self.sent.append(Sent(queue, task_id, message))
        return self.alive

    def revoke(self, task_ids: Sequence[str]) -> None:
        self.revoked += task_ids

    def depths(self, queues: Sequence[str]) -> dict[str, int | None]:
        return {queue: sum(s.queue == queue for s in self.sent) if self.alive else None for queue in queues}

    def nodes(self, within: float) -> list[Node]:
        return [node for node in self.workers if node.age <= within] if self.alive else []

    def log(self, name: str) -> list[LogLine] | None:
        return self.logs.get(name, []) if self.alive else None

    def ping(self) -> bool:
        return self.alive

    def close(self) -> None:
        """Nothing is open."""

    def take(self) -> list[Sent]:
        """Everything that waits."""
        taken, self.sent = self.sent, []
        return taken


class FakeFleet:
    """One core worker and one device; each message is done at once, in one transaction.

    Args:
        tasks: how many tasks a model has.
        points: how many candidates a task's space has.
        alternative_of: numbers of tasks by those of their alternatives.
        slowness: factors of the latencies, by number of task.
        rough: what a default schedule takes when it is timed once, over what it takes; None: none is timed.
        answers: whether jobs begin with a schedule of each task.
    """

    def __init__(self, context: Context, tasks: int = 3, points: int = 1000, seed: int = 0) -> None:
        self.context, self.tasks, self.points = context, tasks, points
        self.rng = random.Random(seed)
        self.problem: dict[str, Any] | None = None
        self.note = ""
        self.evaluation_error: float | None = 1e-6
        self.evaluation_signal: float | None = 0.5
        self.applied: int | None = None
        self.references: list[ReferenceTiming] = []
        self.failing = 0.1
        self.alternative_of: dict[int, int] = {}
        self.slowness: dict[int, float] = {}
        self.rough: float | None = None
        self.answers = False

    def register_device(self, name: str = "host-cpu", device_class: str = TARGET.device_class, **values: Any) -> None:
        report = DeviceReport(
            worker=WORKER,
            name=name,
            host="host",
            device_classes=[device_class],
            target=TARGET.to_json(),
            cores=2,
            **values,
        )
        self._write(lambda session: device_reports.store(session, report, 15.0))

    def do(self, message: Message) -> None:
        """What the worker behind the message's queue would do."""
        handlers: dict[type, Callable[[Session, Any], None]] = {
            IngestModel: self._ingest,
            PrepareJob: self._prepare,
            ProposeRound: self._propose,
            MeasureBatch: self.measure,
            EvaluateModel: self._evaluate,
            TrainCostModel: self._train,
        }
        handler = handlers[type(message)]
        repeated = type(message).model_validate(message.model_dump(mode="json"))  # as it comes off the wire
        if isinstance(repeated, MeasureBatch):
            self._write(record_heartbeat)
        self._write(lambda session: handler(session, repeated))

    def _write(self, work_: Callable[[Session], None]) -> None:
        with self.context.sessions.begin() as session:
            work_(session)

    def _ingest(self, session: Session, message: IngestModel) -> None:
        model = work.claim(session, Model, message.model_id, message.attempt, WORKER, 60)
        if model is None:
            return
        if self.problem is not None:
            outcomes.give_up(session, model, self.problem)
            return
        put = self.context.blobs.put_bytes
        found = tuple(
            ImportedTask(
                Workload(
                    hash=f"{model.id}-w{i}",
                    name=f"fused_conv2d_{i}",
                    family="conv2d",
                    flops=1e9 / (i + 1),
                    args=(TensorSpec("float32", (1, 8)), TensorSpec("float32", (1, 8))),
                ),
                1 + self.alternative_of.get(i, i),
                put(b'{"module": %d}' % i),
                put(b'["%d", "bW9kdWxl"]' % i),
                f"{model.id}-w{self.alternative_of[i]}" if i in self.alternative_of else None,
                weights=(0,) if i == 0 else (),
            )
            for i in range(self.tasks)
        )
        imported = Imported(
            put(b"{}"), put(b"npz"), (TensorSpec("float32", (1, 8), "x"),), found, PARAMS_SIZE, self.note
        )
        model_import.store_import(session, model, imported)

    def _prepare(self, session: Session, message: PrepareJob) -> None:
        job = work.claim(session, Job, message.job_id, message.attempt, WORKER, 60)
        if job is None:
            return
        planned = [
            PlannedTask(
                workload=row.hash,
                name=row.name,
                family=row.family,
                weight=task.weight,
                tunable=True,
                sketches={f"s-{row.hash}"[:64]: {"knobs": []}},
                alternative_of=task.alternative_of,
                answer=self._answer(row.name, row.hash) if self.answers else None,
            )
            for task, row in models.tasks(session, job.model_id)
        ]
        job_plan.store_target(session, TARGET.hash, TARGET.to_json(), TARGET.device_class)
        job_plan.store_plan(session, job, TARGET.hash, planned)

    def _answer(self, name: str, workload: str) -> Answer:
        return Answer(name, workload, Source.ESTIMATED, 1e-3, None, [[], []], Candidate(f"s-{workload}"[:64], (0,)))

    def _propose(self, session: Session, message: ProposeRound) -> None:
        round_ = work.claim(session, Round, message.round_id, message.attempt, WORKER, 60)
        if round_ is None:
            return
        task = session.get_one(JobTask, round_.job_task_id)
        known = int((task.searcher_state or {}).get("next", 0))
        size = min(round_.size, self.points - known)
        task.searcher_state = {"next": known + size}
        if size < round_.size:
            task.exhausted = True
        candidates: list[Any] = [[None, []]] if round_.baseline else []
        candidates += [[task.sketches[0], [known + i]] for i in range(size)]
        if not candidates:
            transition(session, round_, RoundState.DONE, finished_at=utcnow(), best_after=task.best_seconds)
            return
        session.add(
            Batch(round_id=round_.id, job_id=round_.job_id, device_class=TARGET.device_class, candidates=candidates)
        )
        session.flush()
        transition(session, round_, RoundState.MEASURING, best_before=task.best_seconds)

    def measure(self, session: Session, message: MeasureBatch) -> None:
        """All results of a batch at once."""
        batch = session.get_one(Batch, message.batch_id)
        results.record_heartbeat(session, batch, WORKER, message.attempt)
        scale = self._default_seconds(message.workload)
        if self.rough is not None:
            results.store_rough_latencies(
                session,
                batch.job_id,
                {task.workload: self.rough * self._default_seconds(task.workload) for task in message.defaults},
            )
        incumbent = message.incumbent_seconds
        found = []
        for item in message.candidates:
            if item.sketch is not None and self.rng.random() < self.failing:
                found.append(WireResult(index=item.index, failure=FailureKind.BUILD_ERROR, message="no"))
                continue
            seconds = scale if item.sketch is None else scale * self.rng.uniform(0.05, 2)
            better = item.sketch is not None and (incumbent is None or seconds < incumbent)
            trace = "[[], []]" if better else None
            won = Confirmation(samples=[seconds] * 5, error=1e-7, tolerance=1e-4, won=True) if better else None
            found.append(WireResult(index=item.index, samples=[seconds, seconds], trace=trace, confirmation=won))
        cache = CacheState.WARM if message.weights is None else CacheState.STREAMED
        results.apply(session, batch, found, {"tvm": "0.27.0", "device": "host-cpu", "cache": cache.value})

    def _default_seconds(self, workload: str) -> float:
        return 0.1 * self.slowness.get(int(workload.rpartition("-w")[2]), 1.0)

    def _evaluate(self, session: Session, message: EvaluateModel) -> None:
        evaluation = session.get_one(Evaluation, message.evaluation_id)
        if evaluation.state not in (WorkState.QUEUED, WorkState.RUNNING):
            return
        evaluation.untuned_samples, evaluation.tuned_samples = [0.3, 0.3], [0.1, 0.1]
        evaluation.output_error, evaluation.applied = self.evaluation_error, len(message.records)
        if self.applied is not None:
            evaluation.applied = self.applied
        evaluation.references = [each.model_dump(mode="json") for each in self.references]
        evaluation.output_signal = self.evaluation_signal
        session.flush()
        transition(session, evaluation, WorkState.DONE, finished_at=utcnow())
        job = session.get_one(Job, evaluation.job_id)
        if job.state is JobState.FINISHING:
            transition(session, job, JobState.SUCCEEDED, finished_at=utcnow())

    def _train(self, session: Session, message: TrainCostModel) -> None:
        row = work.claim(session, CostModelRow, message.cost_model_id, message.attempt, WORKER, 60)
        if row is not None:
            seen = sum(task.trials - task.failures for task in session.query(JobTask).filter_by(job_id=row.job_id))
            transition(session, row, WorkState.DONE, trained_on=seen, metrics={"pairwise": float(np.float32(0.5))})


@dataclass
class Folder:
    """Settings for a coordinator of a test."""

    path: Path
    url: str

    def settings(self, **values: Any) -> Any:
        """A ``Settings`` for it."""
        from services.coordinator.settings import Settings

        return Settings(data_dir=self.path, database_url=self.url, **values)
