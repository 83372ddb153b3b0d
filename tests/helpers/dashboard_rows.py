"""A database that looks like a service at work: what the dashboard's tests and its screenshot show."""

from __future__ import annotations

import datetime as dt
import random
from pathlib import Path

from sqlalchemy.orm import Session

from db.blobs import BlobStore
from db.engine import create_engine, migrate, session_factory
from db.models import (
    Batch,
    Device,
    Evaluation,
    Family,
    Job,
    JobTask,
    Model,
    ModelTask,
    Record,
    Round,
    SketchRow,
    TargetRow,
    WorkloadRow,
)
from db.models.base import utcnow
from db.transactions import events, results
from tunesmith.events import JobQueued
from tunesmith.messages import Calibration, Confirmation, WireResult
from tunesmith.preparation import for_target
from tunesmith.states import JobState, ModelState, RoundState, WorkState
from tunesmith.types import FailureKind

TARGETS = {"big": ("llvm-znver4-16", 16), "here": ("llvm-znver4-2", 2)}
LAYERS = [
    ("fused_conv2d_add_relu", "conv2d", 1, 3.6e7, 0.0310),
    ("fused_conv2d1_add_relu", "conv2d", 2, 2.1e8, 0.0170),
    ("fused_conv2d2_add_relu", "conv2d", 2, 9.4e7, 0.0120),
    ("fused_conv2d3_add_relu", "conv2d", 3, 1.3e8, 0.0092),
    ("fused_matmul_add", "matmul", 1, 4.1e7, 0.0150),
    ("max_pool2d", "pool", 3, 2.0e6, 0.0031),
    ("fused_softmax", "softmax", 1, 1.0e5, 0.0004),
    ("concatenate", "concatenate", 4, 0.0, 0.0002),
]
SIZE = 8
TRACE = [
    ["GetSBlock", [], ["conv2d", "main"], ["b0"]],
    ["SampleComputeLocation", ["b0"], [], ["l1"]],
    ["SampleCategorical", [], [[0, 16, 32, 64, 128, 256, 512, 1024], [0.125] * 8], ["v2"]],
    ["Annotate", ["b0", "v2"], ["meta_schedule.unroll_explicit"], []],
]
PROGRAM = {"plain": "def main():\n    loop\n", "scheduled": "def main():\n    parallel\n"}
FAILURES = {
    3: (FailureKind.BUILD_TIMEOUT, "no object code after 10 s"),
    5: (FailureKind.INVALID, "VerifyGPUCode"),
    6: (FailureKind.RUN_TIMEOUT, "slower than 10 s"),
}


def confirmed(result: WireResult, champion: float) -> WireResult:
    """A finalist after its confirmation beside a champion of that latency in seconds."""
    won = result.samples[0] < champion
    confirmation = Confirmation(
        samples=result.samples,
        champion_samples=[champion] * 2,
        p_value=0.002 if won else 0.6,
        error=2.4e-7,
        tolerance=1e-4,
        won=won,
    )
    return result.model_copy(update={"confirmation": confirmation, "trace": '[[["x"], []], []]' if won else None})


def fill(data_dir: Path, rounds: int = 48) -> None:
    """Migrate the database in ``data_dir`` and fill it: jobs ``running``, ``done`` and ``broken``."""
    data_dir.mkdir(parents=True, exist_ok=True)
    url = f"sqlite:///{data_dir / 'tunesmith.db'}"
    migrate(url)
    engine = create_engine(url)
    blobs = BlobStore(data_dir / "blobs")
    with session_factory(engine).begin() as session:
        _ground(session, blobs)
        _tuned(session, _job(session, "running", "big", JobState.RUNNING, "squeezenet nightly"), rounds, seed=1)
        done = _job(session, "done", "here", JobState.SUCCEEDED, "", finished_at=utcnow(), stop_reason="trials")
        _tuned(session, done, rounds, seed=2)
        session.add(
            Evaluation(
                job_id="done",
                device_class="llvm-znver4-2",
                state=WorkState.DONE,
                untuned_samples=[0.2317, 0.2321],
                tuned_samples=[0.00541, 0.00545],
                output_error=2.1e-6,
                output_tolerance=0.01,
                applied=7,
                finished_at=utcnow(),
            )
        )
        problem = {
            "title": "Nothing to tune",
            "code": "nothing_to_tune",
            "status": 422,
            "detail": "none of the model's 2 tasks has a decision to take",
        }
        _job(session, "broken", "here", JobState.FAILED, "", error=problem, finished_at=utcnow())
    engine.dispose()


def _ground(session: Session, blobs: BlobStore) -> None:
    for name, (device_class, cores) in TARGETS.items():
        json = {"kind": "llvm", "mcpu": "znver4", "num-cores": cores}
        session.add(TargetRow(hash=name * 8, json=json, device_class=device_class))
    module, metaschedule = blobs.put_bytes(b'{"module": 1}'), blobs.put_bytes(b'["1", "module"]')
    session.add(
        Model(
            id="m1",
            name="squeezenet-random.onnx",
            source="onnx",
            sha256="0" * 64,
            state=ModelState.READY,
            preparation=for_target("llvm", operator=False).key,
            module_blob=module,
            inputs=[["data", "float32", [1, 3, 224, 224]]],
        )
    )
    session.flush()
    for position, (name, family, weight, flops, _) in enumerate(LAYERS):
        session.add(
            WorkloadRow(
                hash=name,
                name=name,
                family=family,
                args=[["float32", [1, 64, 56, 56]]],
                flops=flops,
                module_blob=module,
                metaschedule_blob=metaschedule,
            )
        )
        session.flush()
        session.add(SketchRow(hash=f"s-{name}", workload_hash=name, body={"knobs": [], "trace": TRACE}))
        session.add(ModelTask(model_id="m1", workload_hash=name, position=position, name=name, weight=weight))
    now = utcnow()
    for name, classes, cores, busy, age, health, peak, drift in (
        ("workstation/cpu", ["llvm-znver4-1", "llvm-znver4-2"], 2, True, 0, "ok", 5.3e11, 1.01),
        ("board-7/cpu", ["llvm-cortex-a76-4"], 4, False, 0, "quarantined", 1.5e11, 1.74),
        ("lab-4/cpu", ["llvm-znver4-16"], 16, False, 86400 * 30, "ok", 3.1e12, 1.0),
    ):
        calibration = Calibration(
            peak_flops=peak,
            bandwidth=4e10,
            noise_floor=0.018,
            reference_seconds=1e-3,
            latest_seconds=1e-3 * drift,
            measured_at=now.isoformat(),
            drift=drift,
        ).model_dump(mode="json")
        session.add(
            Device(
                name=name,
                worker=f"{name}-1",
                host=name.split("/")[0],
                device_classes=classes,
                target={},
                cores=cores,
                environment={},
                busy=busy,
                seen_at=now - dt.timedelta(seconds=age),
                health=health,
                calibration=calibration,
            )
        )
    session.flush()


def _job(session: Session, job_id: str, target: str, state: JobState, name: str, **values: object) -> Job:
    began = utcnow() - dt.timedelta(minutes=4)
    job = Job(
        id=job_id,
        name=name,
        model_id="m1",
        target_spec="cpu",
        target_hash=target * 8,
        state=state,
        budget_trials=500,
        search="genetic",
        cost_model="xgboost",
        allocator="gradient",
        created_at=began,
        started_at=began,
        **values,
    )
    session.add(job)
    session.flush()
    events.append(session, JobQueued(job_id, "queued", "m1", "cpu"), job_id)
    return job


def _tuned(session: Session, job: Job, rounds: int, seed: int) -> None:
    rng = random.Random(seed)
    tasks = []
    for position, (name, family, weight, _, _) in enumerate(LAYERS):
        group = session.query(Family).filter_by(job_id=job.id, name=family).first()
        if group is None:
            group = Family(job_id=job.id, name=family)
            session.add(group)
            session.flush()
        tasks.append(
            JobTask(
                job_id=job.id,
                workload_hash=name,
                family_id=group.id,
                position=position,
                name=name,
                weight=weight,
                tunable=name != "concatenate",
                sketches=[f"s-{name}"],
            )
        )
    session.add_all(tasks)
    session.flush()
    for number in range(1, rounds + 1):
        index = number - 1 if number <= 7 else rng.choice((0, 0, 1, 1, 2, 3, 3, 4, 5, 6))
        _round(session, job, tasks[index], number, rng, began=job.created_at, rounds=rounds)


def _round(
    session: Session, job: Job, task: JobTask, number: int, rng: random.Random, began: dt.datetime, rounds: int
) -> None:
    baseline, task.searcher_state = task.untuned_seconds is None, {}
    round_ = Round(
        job_id=job.id,
        job_task_id=task.id,
        number=number,
        size=SIZE,
        baseline=baseline,
        state=RoundState.MEASURING,
        best_before=task.best_seconds,
        reason={"reason": "warm-up" if baseline else "gradient"},
    )
    session.add(round_)
    session.flush()
    sketch = task.sketches[0]
    candidates = [[None, []] if baseline and i == 0 else [sketch, [number, i]] for i in range(SIZE)]
    batch = Batch(round_id=round_.id, job_id=job.id, device_class="llvm-znver4-2", candidates=candidates)
    session.add(batch)
    session.flush()
    results.record_heartbeat(session, batch, "workstation/cpu-1", 1)
    untuned = next(layer[4] for layer in LAYERS if layer[0] == task.name)
    known = task.best_seconds or untuned
    found = []
    for i in range(SIZE):
        if baseline and i == 0:
            found.append(WireResult(index=i, samples=[untuned]))
        elif i in FAILURES and rng.random() < 0.4:
            found.append(WireResult(index=i, failure=FAILURES[i][0], message=FAILURES[i][1]))
        else:
            seconds = max(untuned / 70, known * rng.uniform(0.12 if baseline else 0.62, 2.0))
            samples = [seconds, seconds * 1.01]
            found.append(WireResult(index=i, samples=samples, run_seconds=0.2))
    ran = sorted((one for one in found[baseline:] if one.samples), key=lambda one: one.samples[0])
    for one in ran[:2]:
        found[one.index] = confirmed(one, known)
    results.apply(session, batch, found, {"tvm": "0.27.0", "device": "workstation/cpu"})
    session.flush()
    finished = began + dt.timedelta(seconds=220 * number / rounds)
    round_.finished_at = batch.finished_at = finished
    session.query(Record).filter_by(batch_id=batch.id).update({"created_at": finished})
    session.flush()
