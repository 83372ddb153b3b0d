"""Driving the core tasks by hand, in the coordinator's and the measure worker's place."""

from __future__ import annotations

import atexit
import dataclasses
import functools
import hashlib
import json
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from db.models import Batch, Evaluation, Job, JobTask, Model, Round
from db.queries import sketches
from db.transactions import enrolment
from db.transactions.ownership import ticket
from db.transactions.transitions import transition
from tunesmith.messages import (
    BatchReport,
    Confirmation,
    DeviceReport,
    EvaluationReport,
    IngestModel,
    PrepareJob,
    ProposeRound,
    WireResult,
)
from tunesmith.preparation import for_target
from tunesmith.signing import Signer
from tunesmith.states import JobState, ModelState, WorkState
from tunesmith.types import Candidate, FailureKind
from workers.core import ingest, prepare
from workers.core import propose as proposing
from workers.core.context import Context, make_context
from workers.core.importing import Importing
from workers.core.tasks import CORE_TASKS, take_in
from workers.settings import Settings

WORKER = Signer.fresh()
"""The measure worker that tests report as."""
OPERATOR = "gemm:64x64x64:float32"
TARGET = '{"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 2}'


def core_context(folder: Path, url: str, **values: Any) -> Context:
    """A context on a database, with everything else in ``folder`` but the importers, which take seconds to load."""
    made = make_context(Settings(data_dir=folder, database_url=url, lease_file=folder / "host.lease", **values))
    return dataclasses.replace(made, importing=importing())


@functools.cache
def importing() -> Importing:
    """The importers of all contexts."""
    made = Importing(Settings(data_dir=Path("never made")))
    atexit.register(made.close)
    return made


def add_operator(
    context: Context,
    model_id: str = "m1",
    operator: str = OPERATOR,
    preparation: str = for_target("llvm", operator=True).key,
) -> None:
    """A model that is to be imported."""
    with context.sessions.begin() as session:
        sha = hashlib.sha256(operator.encode()).hexdigest()
        session.add(
            Model(
                id=model_id,
                name=operator,
                source="operator",
                operator=operator,
                sha256=sha,
                state=ModelState.IMPORTING,
                preparation=preparation,
            )
        )


def add_job(context: Context, job_id: str = "j1", model_id: str = "m1", target: str = TARGET, **values: Any) -> None:
    """A job that is to be prepared."""
    given = {
        "search": "genetic",
        "cost_model": "xgboost",
        "allocator": "round-robin",
        "budget_trials": 128,
        "state": JobState.PREPARING,
        **values,
    }
    with context.sessions.begin() as session:
        session.add(Job(id=job_id, model_id=model_id, target_spec=target, **given))


def import_and_prepare(context: Context, job_id: str = "j1", model_id: str = "m1", **values: Any) -> None:
    """A running job of a gemm."""
    with context.readers() as session:
        known = session.get(Model, model_id) is not None
    if not known:
        add_operator(context, model_id)
        assert ingest.import_model(context, IngestModel(model_id=model_id, attempt=1))
    add_job(context, job_id, model_id, **values)
    assert prepare.prepare_job(context, PrepareJob(job_id=job_id, attempt=1))


def open_round(context: Context, job_id: str = "j1", size: int = 16) -> int:
    """A further round of a job's only task."""
    with context.sessions.begin() as session:
        task = session.scalars(sa.select(JobTask).where(JobTask.job_id == job_id)).one()
        number = len(session.scalars(sa.select(Round.id).where(Round.job_id == job_id)).all()) + 1
        round_ = Round(job_id=job_id, job_task_id=task.id, number=number, size=size, baseline=number == 1)
        session.add(round_)
        session.flush()
        return round_.id


def propose(context: Context, job_id: str = "j1", size: int = 16) -> Batch:
    """The batch of a new round."""
    round_id = open_round(context, job_id, size)
    assert proposing.propose_round(context, ProposeRound(round_id=round_id, attempt=1))
    with context.readers() as session:
        return session.scalars(sa.select(Batch).where(Batch.round_id == round_id)).one()


def invented_latency(candidate: Candidate) -> float | None:
    """A latency that decisions explain, in seconds; None for candidates that shall fail."""
    if candidate.sketch is None:
        return 0.01
    numbers = [n for d in candidate.decisions for n in (d if isinstance(d, tuple) else (d,))]
    digest = int(hashlib.sha256(str(candidate).encode()).hexdigest(), 16)
    if digest % 11 == 0:
        return None
    return 1e-4 * (1 + sum(abs(n) for n in numbers)) * (1 + (digest % 97) / 1000)


def results_of(batch: Batch) -> list[WireResult]:
    """Invented results of every candidate of a batch."""
    found = []
    for index, value in enumerate(batch.candidates):
        latency = invented_latency(Candidate.from_json(value))
        if latency is None:
            found.append(WireResult(index=index, failure=FailureKind.RUN_TIMEOUT, message="too slow"))
        else:
            samples = [latency, latency * 1.1, latency * 0.9]
            trace = None if value[0] is None else "[[], []]"
            won = None if value[0] is None else Confirmation(samples=samples, won=True)
            found.append(WireResult(index=index, samples=samples, trace=trace, confirmation=won))
    return found


def traced(context: Context, batch: Batch, result: WireResult) -> WireResult:
    """The result with a trace as its candidate has, in the place of an invented one."""
    sketch, decisions = batch.candidates[result.index]
    if result.trace is None or sketch is None:
        return result
    with context.readers() as session:
        body = sketches.get(session, [sketch])[sketch]
    knobs = [i for i, instruction in enumerate(body["trace"]) if instruction[0].startswith("Sample")]
    trace = [body["trace"], [[at, decision] for at, decision in zip(knobs, decisions, strict=True)]]
    return result.model_copy(update={"trace": json.dumps(trace)})


def report(context: Context, batch: Batch, results: list[WireResult] | None = None, **values: Any) -> None:
    """Report a batch as a measure worker would."""
    given = {"attempt": batch.attempt, "worker": "measure-1", "environment": {"cpu": "x"}, "final": True, **values}
    found = [traced(context, batch, result) for result in (results_of(batch) if results is None else results)]
    send(context, BatchReport(batch_id=batch.id, results=found, ticket=ticket(batch, given["attempt"]), **given))


def send(context: Context, message: BatchReport | EvaluationReport | DeviceReport, signer: Signer = WORKER) -> None:
    """What the worker of the queue ``record`` does with a report of an enrolled worker."""
    enrol(context, signer)
    deliver(context, type(message), signer.sign(message).model_dump(mode="json"))


def enrol(context: Context, signer: Signer = WORKER) -> None:
    """Have a measure worker believed."""
    with context.sessions.begin() as session:
        enrolment.enrol(session, signer.worker, signer.public_key, "measure", (), "test")


def deliver(context: Context, kind: type[Any], body: Any) -> None:
    """What the worker of the queue ``record`` does with a message for the task of ``kind``."""
    (task,) = [task for task in CORE_TASKS if task.message is kind]
    take_in(task, context, body)


def row(context: Context, kind: type, key: object = None) -> Any:
    """The only row of a kind, or the one with a key."""
    with context.readers() as session:
        return session.get_one(kind, key) if key is not None else session.scalars(sa.select(kind)).one()


def evaluate(context: Context, **values: Any) -> None:
    """Report a check of the model, twice."""
    with context.sessions.begin() as session:
        job = session.get_one(Job, "j1")
        transition(session, job, JobState.FINISHING)
        evaluation = Evaluation(job_id="j1", device_class="llvm-x86-64-v3-2")
        session.add(evaluation)
        session.flush()
        number, holds = evaluation.id, ticket(evaluation, 1)
    given = {
        "evaluation_id": number,
        "attempt": 1,
        "worker": "w",
        "ticket": holds,
        "untuned_samples": [0.01] * 3,
        "tuned_samples": [0.001] * 3,
        "error": 1e-6,
        "applied": 1,
        **values,
    }
    send(context, EvaluationReport(evaluation_id=number, attempt=1, worker="w", ticket=given["ticket"]))
    assert row(context, Evaluation).state is WorkState.RUNNING
    report = EvaluationReport(**given, final=True)
    send(context, report)
    send(context, report)  # doubled: nothing
