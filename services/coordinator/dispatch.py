"""Messages from rows and blobs."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from typing import Any, cast

from sqlalchemy.orm import Session

from db.blobs import BlobStore
from db.models import (
    Batch,
    CostModelRow,
    Evaluation,
    Job,
    JobTask,
    Listing,
    Model,
    ProposalSet,
    Record,
    RecordImport,
    Round,
)
from db.models.work import QUEUES, Work
from db.queries import by_key, models, records, rough_latencies, sketches, work_parts
from db.queries import champions as champion_rows
from db.queries import tasks as task_rows
from db.transactions import ownership
from services.coordinator import champions
from services.coordinator.urls import BlobUrls
from tunesmith.errors import NotFound
from tunesmith.measure_limits import LABELLING
from tunesmith.messages import (
    INLINE_LIMIT,
    DefaultSchedule,
    EvaluateModel,
    ImportRecords,
    IngestModel,
    JudgeProposals,
    ListProgram,
    MeasureBatch,
    MeasureLimits,
    Message,
    ModelFile,
    Payload,
    PrepareJob,
    ProposeRound,
    Spec,
    TrainCostModel,
    TunedWorkload,
    WireCandidate,
    measure_queue,
)

CUDA_BUILD_SECONDS = 30.0
"""nvcc takes seconds for a kernel that LLVM compiles in a tenth of one."""
DEFAULTS_SHARE = 0.1
"""Share of a budget of seconds that the rough latencies of default schedules may take."""
COMPRESSION = 10
"""A blob more than this often larger than the limit is not even tried to fit."""


class Packer:
    """Decides for one message what goes inline and what travels as a blob: at most ``limit`` bytes inline in all."""

    def __init__(self, blobs: BlobStore, urls: BlobUrls, limit: int = INLINE_LIMIT) -> None:
        self._blobs, self._urls, self._left, self._limit = blobs, urls, limit, limit

    def blob(self, sha: str) -> Payload:
        """Payload of a stored blob. Raises NotFound."""
        size = self._blobs.size(sha)
        if size <= self._limit * COMPRESSION and self._left > 0:
            packed = self._inline(self._blobs.get_bytes(sha))
            if packed is not None:
                return packed
        return self.reference(sha)

    def reference(self, sha: str) -> Payload:
        """Payload that is always fetched by URL. Raises NotFound."""
        return Payload(sha256=sha, url=self._urls.sign(sha), size=self._blobs.size(sha))

    def data(self, value: Any) -> Payload:
        """Payload of a JSON value."""
        text = json.dumps(value, separators=(",", ":")).encode()
        return self._inline(text) or self.reference(self._blobs.put_bytes(text))

    def _inline(self, data: bytes) -> Payload | None:
        packed = Payload.pack(data)
        size = len(packed.inline or "")
        if size > self._left:
            return None
        self._left -= size
        return packed


def queue_of(row: Work) -> str:
    """The queue that a row's message goes to."""
    if isinstance(row, (Batch, Evaluation)):
        return measure_queue(row.device_class)
    return QUEUES[type(row)]


class Composer:
    """Makes the message for a row that is due, and names its queue."""

    def __init__(self, blobs: BlobStore, urls: BlobUrls) -> None:
        self._blobs, self._urls = blobs, urls

    def compose(self, session: Session, row: Work) -> tuple[Message, str]:
        """Message and queue. Raises NotFound when a blob is gone."""
        if isinstance(row, Model):
            return IngestModel(model_id=row.id, attempt=row.attempt), queue_of(row)
        if isinstance(row, RecordImport):
            return ImportRecords(import_id=row.id, attempt=row.attempt), queue_of(row)
        if isinstance(row, Job):
            return PrepareJob(job_id=row.id, attempt=row.attempt), queue_of(row)
        if isinstance(row, Round):
            return ProposeRound(round_id=row.id, attempt=row.attempt), queue_of(row)
        if isinstance(row, Listing):
            return ListProgram(listing_id=row.id, attempt=row.attempt), queue_of(row)
        if isinstance(row, ProposalSet):
            return JudgeProposals(set_id=row.id, attempt=row.attempt), queue_of(row)
        if isinstance(row, CostModelRow):
            return TrainCostModel(cost_model_id=row.id, attempt=row.attempt), queue_of(row)
        if isinstance(row, Batch):
            return self._batch(session, row), queue_of(row)
        return self._evaluation(session, row), queue_of(row)

    def _batch(self, session: Session, batch: Batch) -> MeasureBatch:
        """Only the candidates without a record go out, so that a further attempt repeats nothing."""
        round_, task, job, workload = work_parts.of_batch(session, batch)
        done = records.indices(session, batch.id)
        candidates = [
            WireCandidate(index=index, sketch=sketch, decisions=decisions)
            for index, (sketch, decisions) in enumerate(batch.candidates)
            if index not in done
        ]
        champion = _champion(session, task)
        everything = candidates if champion is None else [*candidates, champion]
        used = sorted({item.sketch for item in everything if item.sketch is not None})
        bodies = sketches.get(session, used)
        pack, target = Packer(self._blobs, self._urls), _target(session, job)
        rough = round_.number == 1 and job.collecting is None
        defaults = rough_latencies.wanted(session, job, task) if rough else []
        return MeasureBatch(
            batch_id=batch.id,
            attempt=batch.attempt,
            ticket=ownership.ticket(batch, batch.attempt),
            job_id=job.id,
            target=target,
            limits=_limits(job, target),
            workload=workload.hash,
            module=pack.blob(workload.module_blob),
            sketches={key: pack.data(bodies[key]) for key in used},
            candidates=candidates,
            incumbent_seconds=task.best_seconds if task.best_seconds is not None else task.untuned_seconds,
            champion=champion,
            weights=models.weights(session, job, workload.hash),
            defaults=[DefaultSchedule(workload=key, module=pack.blob(blob)) for key, blob in defaults],
        )

    def _evaluation(self, session: Session, evaluation: Evaluation) -> EvaluateModel:
        job, model = work_parts.of_evaluation(session, evaluation)
        assert model.module_blob is not None, "a job runs only once its model is imported"
        pack = Packer(self._blobs, self._urls)
        return EvaluateModel(
            evaluation_id=evaluation.id,
            attempt=evaluation.attempt,
            ticket=ownership.ticket(evaluation, evaluation.attempt),
            job_id=job.id,
            target=_target(session, job),
            module=pack.blob(model.module_blob),
            params=pack.reference(model.params_blob) if model.params_blob else None,
            inputs=[Spec(name=name, dtype=dtype, shape=shape) for name, dtype, shape in model.inputs or []],
            records=tuned_workloads(session, job, pack),
            file=_file(model, pack),
            precision=job.precision,
            seed=job.seed,
        )


def _limits(job: Job, target: Mapping[str, Any]) -> MeasureLimits:
    usual = MeasureLimits() if job.collecting is None else LABELLING
    changed: dict[str, float] = {"build_timeout": CUDA_BUILD_SECONDS} if target.get("kind") == "cuda" else {}
    if job.budget_seconds is not None:
        changed["defaults_seconds"] = min(usual.defaults_seconds, DEFAULTS_SHARE * job.budget_seconds)
    return usual.model_copy(update=changed)


def _file(model: Model, pack: Packer) -> ModelFile | None:
    """What the user uploaded; None for an operator, and where it is gone."""
    if model.source not in ("onnx", "pt2"):
        return None
    with contextlib.suppress(NotFound):
        return ModelFile(source=cast(Any, model.source), content=pack.reference(model.sha256))
    return None


def _champion(session: Session, task: JobTask) -> WireCandidate | None:
    """The candidate that a new best has to beat."""
    record = champion_rows.record_of(session, task)
    return None if record is None else WireCandidate(index=-1, sketch=record.sketch_hash, decisions=record.decisions)


def _target(session: Session, job: Job) -> Mapping[str, Any]:
    return work_parts.target_of(session, job).json


def tuned_workloads(session: Session, job: Job, pack: Packer) -> list[TunedWorkload]:
    """The champions of the tasks that a job's model runs, and schedules without a measurement where it has none."""
    tasks = task_rows.tasks(session, job.id)
    chosen = champions.of_job(session, job, [task for task, _, _ in tasks])
    found = []
    for task, workload, _ in tasks:
        champion = chosen.get(workload.hash)
        if champion is not None:
            trace, seconds = champion.trace, by_key.existing(session, Record, champion.record_id).samples
        elif workload.hash in chosen and task.answer is not None:
            trace, seconds = task.answer["trace"], [task.answer["seconds"]]
        else:
            continue
        found.append(
            TunedWorkload(
                workload=workload.hash,
                workload_json=pack.blob(workload.metaschedule_blob),
                trace=pack.data(trace),
                run_seconds=seconds,
                args=[Spec(dtype=dtype, shape=shape) for dtype, shape in workload.args],
            )
        )
    return found
