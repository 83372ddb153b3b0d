"""Rows for tests of the database and of what stands on it."""

from __future__ import annotations

from typing import Any

from sqlalchemy.orm import Session

from db.models import Batch, Family, Job, JobTask, Model, Round, SketchRow, TargetRow, WorkloadRow
from tunesmith.preparation import PLAIN
from tunesmith.states import JobState, ModelState, RoundState

SHA = "0" * 64
TARGET = "t" * 64


def add_model(session: Session, **values: Any) -> Model:
    """A ready model."""
    values = {
        "id": "m1",
        "name": "model",
        "source": "onnx",
        "sha256": SHA,
        "state": ModelState.READY,
        "preparation": PLAIN.key,
        **values,
    }
    model = Model(**values)
    session.add(model)
    session.flush()
    return model


def add_job(session: Session, job_id: str = "j1", **values: Any) -> Job:
    """A running job for a target, with its model unless there is one."""
    if session.get(Model, "m1") is None:
        add_model(session)
    if session.get(TargetRow, TARGET) is None:
        session.add(TargetRow(hash=TARGET, json={"kind": "llvm"}, device_class="llvm-x-2"))
        session.flush()
    values = {
        "model_id": "m1",
        "target_spec": "cpu",
        "target_hash": TARGET,
        "state": JobState.RUNNING,
        "budget_trials": 64,
        "search": "random",
        "cost_model": "none",
        "allocator": "round-robin",
        **values,
    }
    job = Job(id=job_id, **values)
    session.add(job)
    session.flush()
    return job


def add_task(session: Session, job_id: str = "j1", workload: str = "w1", **values: Any) -> JobTask:
    """A task of a job, with its workload, its family and a sketch named ``s-<workload>``."""
    if session.get(WorkloadRow, workload) is None:
        session.add(
            WorkloadRow(
                hash=workload,
                name=workload,
                family="matmul",
                args=[],
                flops=1e6,
                module_blob=SHA,
                metaschedule_blob=SHA,
            )
        )
        session.flush()
        session.add(SketchRow(hash=f"s-{workload}", workload_hash=workload, body={"knobs": []}))
    family = Family(job_id=job_id, name=f"family of {workload}")
    session.add(family)
    session.flush()
    values = {
        "position": 0,
        "name": workload,
        "weight": 1,
        "tunable": True,
        "sketches": [f"s-{workload}"],
        "family_id": family.id,
        **values,
    }
    task = JobTask(job_id=job_id, workload_hash=workload, **values)
    session.add(task)
    session.flush()
    return task


def add_round(session: Session, task: JobTask, number: int = 1, **values: Any) -> Round:
    """A round of a task, by default being proposed."""
    round_ = Round(job_id=task.job_id, job_task_id=task.id, number=number, **{"size": 4, **values})
    session.add(round_)
    session.flush()
    return round_


def add_batch(session: Session, task: JobTask, number: int = 1, baseline: bool = True, size: int = 4) -> Batch:
    """A queued batch of ``size`` candidates, the first of them the default schedule if ``baseline``."""
    round_ = add_round(session, task, number, state=RoundState.MEASURING, baseline=baseline)
    sketch = task.sketches[0]
    candidates = [[None, []] if baseline and i == 0 else [sketch, [number, i]] for i in range(size)]
    batch = Batch(round_id=round_.id, job_id=task.job_id, device_class="llvm-x-2", candidates=candidates)
    session.add(batch)
    session.flush()
    return batch
