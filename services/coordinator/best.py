"""The best schedules of a job, streamed: a JSON log, or a zip that TVM alone can use."""

from __future__ import annotations

import json
import statistics
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, Any, BinaryIO, cast

from sqlalchemy.orm import Session

from db.blobs import BlobStore
from db.models import Evaluation, Job, JobTask, Model, Record, Schedule, WorkloadRow
from db.queries import by_key, scheduling, work_parts
from db.queries import tasks as task_rows
from services.coordinator import champions, intervals, notes, reference, verified
from services.coordinator.auth import Caller
from services.coordinator.sink import Sink
from tunesmith import metaschedule
from tunesmith.answers.jobs import CheckBody, ReferenceBody, Verified
from tunesmith.errors import Conflict
from tunesmith.types import TensorSpec, cache_state
from tunesmith.unmeasured import CONFIDENCE, Source

SCHEMA = "tunesmith.schedule/1"
TVM_VERSION = "0.27"
"""Named where no record says which TVM measured."""
CHUNK = 1 << 20


@dataclass(frozen=True)
class Line:
    """A task that the model runs, and its champion if one beats the default schedule.

    ``checked``: by the job's evaluation. A job that measures nothing may have an ``answer`` in place of a champion.
    """

    task: JobTask
    workload: WorkloadRow
    champion: Schedule | None
    record: Record | None
    finder: Job | None
    baseline: Record | None
    checked: bool

    @property
    def answer(self) -> dict[str, Any] | None:
        """The schedule that was not measured."""
        return self.task.answer if self.champion is None else None

    @property
    def trace(self) -> list[Any] | None:
        """The schedule; None where the default one stands."""
        return self.champion.trace if self.champion is not None else (self.answer or {}).get("trace")

    @property
    def args(self) -> tuple[TensorSpec, ...]:
        """Arguments, output last."""
        return tuple(TensorSpec(dtype, tuple(shape)) for dtype, shape in self.workload.args)


@dataclass(frozen=True)
class Best:
    """Everything that both forms are written from. ``verified``, ``check``: of the whole model; None before it.

    ``float32``: where the job's precision is a narrow one, the runtime whose outputs the model's were compared with.
    """

    job: Job
    model: Model
    target: dict[str, Any]
    lines: tuple[Line, ...]
    verified: Verified | None
    check: CheckBody | None
    float32: ReferenceBody | None
    caller: Caller

    @property
    def tvm(self) -> str:
        """Version of the TVM that measured."""
        versions = [line.record.environment.get("tvm") for line in self.lines if line.record is not None]
        return next((str(version) for version in versions if version), TVM_VERSION)


def collect(session: Session, job: Job, caller: Caller) -> Best:
    """The job's champions as of now, for ``caller``. Raises Conflict while its tasks are not known."""
    target = work_parts.known_target(session, job)
    if target is None:
        raise Conflict(f"the job is {job.state.value} and has no tasks yet", state=job.state.value)
    tasks = task_rows.tasks(session, job.id)
    found = champions.of_job(session, job, [task for task, _, _ in tasks])
    baselines = task_rows.baselines(session, job.id)
    evaluation = scheduling.evaluation_of(session, job.id)
    lines = tuple(
        _line(session, task, workload, found[workload.hash], baselines.get(task.id), evaluation)
        for task, workload, _ in tasks
        if workload.hash in found
    )
    model = by_key.existing(session, Model, job.model_id)
    against = next((each for each in reference.timings(evaluation) if each.error is not None), None)
    whole = verified.of_model(evaluation), verified.check(evaluation), against
    return Best(job, model, target.json, lines, *whole, caller)


def _line(
    session: Session,
    task: JobTask,
    workload: WorkloadRow,
    champion: Schedule | None,
    baseline: Record | None,
    evaluation: Evaluation | None,
) -> Line:
    if champion is None:
        return Line(task, workload, None, None, None, baseline, checked=evaluation is not None)
    record = by_key.find(session, Record, champion.record_id)
    finder = by_key.find(session, Job, record.job_id) if record is not None and record.job_id else None
    # Another job may have found it after this job's check, which says nothing of it then.
    own = record is not None and record.job_id == task.job_id
    checked = evaluation is not None and (own or champion.updated_at <= evaluation.created_at)
    return Line(task, workload, champion, record, finder, baseline, checked)


def json_lines(best: Best, blobs: BlobStore) -> Iterator[bytes]:
    """One line for each task that the model runs."""
    for line in best.lines:
        yield json.dumps(_body(best, line, blobs), separators=(",", ":")).encode() + b"\n"


def _body(best: Best, line: Line, blobs: BlobStore) -> dict[str, Any]:
    record, task = line.record, line.task
    shown = record if record is not None else line.baseline
    model = best.verified if line.checked else None
    return {
        "schema": SCHEMA,
        "task": task.name,
        "weight": task.weight,
        "workload": {
            "hash": line.workload.hash,
            "module": blobs.get_bytes(line.workload.module_blob).decode(),
            "args": line.workload.args,
            "flops": round(line.workload.flops),
        },
        "target": best.target,
        "trace": line.trace,
        "latency": _latency(shown, line.champion.latency if line.champion is not None else None),
        "estimated_latency": {"seconds": line.answer["seconds"]} if line.answer is not None else None,
        "untuned_latency": None if task.untuned_seconds is None else {"median": task.untuned_seconds},
        "verified": _json((line.record and verified.of_schedule(line.record.confirmation)) or model),
        "model_verified": _json(model),
        "model_check": best.check.state.value if best.check is not None and line.checked else None,
        "model_float32": _against(best.float32) if line.checked else None,
        "provenance": _provenance(best, line, shown),
    }


def _against(found: ReferenceBody | None) -> dict[str, Any] | None:
    return None if found is None else found.model_dump(include={"runtime", "version", "error", "rms", "tolerance"})


def _latency(record: Record | None, champion: float | None) -> dict[str, Any] | None:
    """The champion's latency, which is that of every page, else the default schedule's."""
    if record is None or not record.samples:
        return None
    samples = intervals.samples_of(record)
    if champion is not None:  # freed of the device's drift
        scale = champion / statistics.median(samples)
        samples = [scale * value for value in samples]
    mean = statistics.fmean(samples)
    spread = statistics.stdev(samples) / mean if len(samples) > 1 and mean else None
    median = statistics.median(samples)
    interval = intervals.of_record(record) if champion is None else intervals.around(champion, record)
    return {"median": median, "samples": samples, "cv": spread, "interval": interval}


def _json(found: Verified | None) -> dict[str, Any] | None:
    return found.model_dump(exclude_none=True) if found is not None else None


def _provenance(best: Best, line: Line, record: Record | None) -> dict[str, Any]:
    finder = line.finder or best.job
    environment = record.environment if record is not None else {}
    job = record.job_id if record is not None else best.job.id
    # The job that found a champion, and its settings, are its owner's business; the schedule is shared.
    stranger = line.finder is not None and not best.caller.sees(line.finder.owner)
    return {
        "job": None if stranger else job,
        "searcher": finder.search if line.champion is not None and not stranger else None,
        "space": finder.space,
        "trials": line.task.trials,
        "seed": None if stranger else finder.seed,
        "preparation": best.model.preparation,
        "notes": notes.of(best.job, best.model),
        "tvm": environment.get("tvm", best.tvm),
        "device": environment.get("device", ""),
        "cache": cache_state(environment).value,
        "simulated": bool(environment.get("simulated")),
        **_source(line),
        "measured_at": record.created_at.isoformat() if record is not None else None,
    }


def _source(line: Line) -> dict[str, Any]:
    """Where the schedule comes from, and how far it may be trusted."""
    if line.answer is not None:
        return {key: line.answer[key] for key in ("source", "confidence", "relative")}
    source = Source.DEFAULT if line.champion is None else Source.MEASURED
    return {"source": source.value, "confidence": CONFIDENCE[source], "relative": None}


def archive(best: Best, blobs: BlobStore) -> Iterator[bytes]:
    """The zip with database, module, parameters and ``compile.py``, made while it is read.

    Raises:
        Conflict: the model's import is not finished.
    """
    model = best.model
    if model.module_blob is None:
        raise Conflict("the model has not been imported yet", model=model.public_id)
    module = model.module_blob
    sink = Sink()

    def chunks() -> Iterator[bytes]:
        with zipfile.ZipFile(cast("IO[bytes]", sink), "w", zipfile.ZIP_DEFLATED) as archive_:
            for name, text in _texts(best, blobs).items():
                archive_.writestr(name, text)
                yield sink.take()
            yield from _member(archive_, sink, "module.json", zipfile.ZIP_DEFLATED, lambda: blobs.open(module))
            if model.params_blob is not None:
                params = model.params_blob
                yield from _member(archive_, sink, "params.npz", zipfile.ZIP_STORED, lambda: blobs.open(params))
        yield sink.take()

    return chunks()


def _texts(best: Best, blobs: BlobStore) -> dict[str, str]:
    return metaschedule.folder_texts(
        model=best.model.name,
        target=best.target,
        inputs=[TensorSpec(dtype, tuple(shape), name) for name, dtype, shape in best.model.inputs or []],
        records=[_database_record(best, line, blobs) for line in best.lines if line.trace is not None],
        preparation=best.model.preparation,
        tvm=best.tvm,
        simulated=best.job.simulated,
    )


def _database_record(best: Best, line: Line, blobs: BlobStore) -> metaschedule.DatabaseRecord:
    assert line.trace is not None
    workload = json.loads(blobs.get_bytes(line.workload.metaschedule_blob))
    if line.answer is not None:
        samples = [line.answer["seconds"]]
    elif line.record is not None:
        samples = intervals.samples_of(line.record)
    else:
        samples = [line.champion.latency] if line.champion is not None else []
    return metaschedule.DatabaseRecord(
        workload=(str(workload[0]), str(workload[1])),
        trace=line.trace,
        run_seconds=tuple(samples),
        target=best.target,
        args=line.args,
    )


def _member(
    archive_: zipfile.ZipFile, sink: Sink, name: str, method: int, source: Callable[[], BinaryIO]
) -> Iterator[bytes]:
    info = zipfile.ZipInfo(name)
    info.compress_type, info.external_attr = method, 0o644 << 16
    with source() as file, archive_.open(info, "w", force_zip64=True) as member:
        while chunk := file.read(CHUNK):
            member.write(chunk)
            yield sink.take()
