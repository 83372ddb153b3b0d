"""Train a cost model on what was measured."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
from sqlalchemy.orm import Session

from costmodels.base import TrainingSet
from costmodels.registry import cost_model_class
from costmodels.training import Part, assemble, assess, train
from db.models import CostModelRow, Job
from db.queries import by_key, cost_models, records
from db.queries.cost_models import TrainedModel
from db.queries.records import TrainingRow
from db.transactions.transitions import transition
from tunesmith.errors import NotFound, TunesmithError
from tunesmith.messages import TrainCostModel
from tunesmith.names import RANKER
from tunesmith.states import WorkState
from workers.core.context import Context
from workers.core.features import BatchFeatures
from workers.core.leased import Lease, run_leased
from workers.tvm_backend.warm import warm

MAX_TRAINING_RECORDS = 4000
"""Records that a model is trained on at most, the job's own first, then the newest of other jobs."""


def train_cost_model(context: Context, message: TrainCostModel) -> bool:
    """The task ``tunesmith.train``."""

    def work(lease: Lease) -> None:
        started = time.perf_counter()
        with context.readers() as session:
            row = by_key.existing(session, CostModelRow, message.cost_model_id)
            of_target = (row.target_hash, row.precision) if row.job_id is None and row.kind == RANKER else None
        if of_target is None:
            _train_for_job(context, lease, message.cost_model_id, started)
        else:
            warm()  # a job's model needs neither TVM nor LightGBM
            from workers.core.train_target import train_on_target

            train_on_target(context, lease, *of_target, started)

    timeout = context.settings.work_timeout
    return run_leased(context, CostModelRow, message.cost_model_id, message.attempt, timeout, work)


def _train_for_job(context: Context, lease: Lease, cost_model_id: str, started: float) -> None:
    """Fit a job's model on its own records and those of other jobs."""
    with context.readers() as session:
        row = by_key.existing(session, CostModelRow, cost_model_id)
        job = by_key.find(session, Job, row.job_id) if row.job_id else None
        if job is None:
            raise NotFound("the job of this cost model no longer exists")
        own, others = _rows(session, row, job)
        valid = records.count_valid(session, job.id)
        previous = cost_models.latest(session, job.id)
        kind, features, seed = row.kind, row.features, job.seed
    data = training_set(context, features, [*own, *others])
    if not len(data) or not np.isfinite(data.latency).any():
        raise TunesmithError("there is no measured candidate with features to train on yet")
    lease.check()
    with context.lease.shared():  # the library, a second's work the first time
        cost_model_class(kind)
    trained = train(data, kind, seed, guard=context.lease.shared)
    metrics: dict[str, Any] = {
        "programs": trained.programs,
        "valid": trained.valid,
        "own": len(own),
        "others": len(others),
        "held_out": trained.metrics.to_json() if trained.metrics else None,
        "previous_on_new": _previous_on_new(context, features, own, previous),
        "seconds": round(time.perf_counter() - started, 3),
    }
    blob = context.blobs.put_bytes(trained.model.save())
    context.write(lambda session: _store(session, lease, own, valid, blob, metrics))


def _rows(session: Session, row: CostModelRow, job: Job) -> tuple[list[TrainingRow], list[TrainingRow]]:
    own = records.training_rows(session, row.target_hash, MAX_TRAINING_RECORDS, job_id=job.id)
    left = MAX_TRAINING_RECORDS - len(own)
    if not left:
        return own, []
    options = {"space": job.space, "precision": job.precision}
    return own, records.training_rows(session, row.target_hash, left, not_job=job.id, **options)


def training_set(context: Context, version: str, rows: Sequence[TrainingRow]) -> TrainingSet:
    """Features and latencies of records, as far as their features are of ``version`` and still there."""
    batches: dict[tuple[str, str], list[TrainingRow]] = defaultdict(list)
    for row in rows:
        batches[row.features_blob, row.group].append(row)
    parts = (_part(context, version, sha, members) for (sha, _), members in batches.items())
    return assemble([part for part in parts if part is not None])


def _part(context: Context, version: str, sha: str, rows: Sequence[TrainingRow]) -> Part | None:
    try:
        if sha not in context.features:
            context.features[sha] = BatchFeatures.load(context.blobs, sha)
    except NotFound:
        return None
    found: BatchFeatures = context.features[sha]
    if found.version != version:
        return None
    latency = {row.index: np.inf if row.latency is None else row.latency for row in rows}
    known = np.array([i for i, index in enumerate(found.index.tolist()) if index in latency], dtype=np.int64)
    if not len(known):
        return None
    values = np.array([latency[int(index)] for index in found.index[known]], dtype=np.float64)
    return Part(rows[0].group, found.features.take(known), values)


def _previous_on_new(
    context: Context, version: str, own: Sequence[TrainingRow], previous: TrainedModel | None
) -> dict[str, Any] | None:
    """The metrics of the model in use on what was measured since it was trained: an honest test of it."""
    if previous is None or previous.features != version:
        return None
    data = training_set(context, version, [row for row in own if row.id > previous.trained_through])
    if not len(data):
        return None
    return assess(context.trained(previous), data).to_json()


def _store(
    session: Session, lease: Lease, own: Sequence[TrainingRow], valid: int, blob: str, metrics: dict[str, Any]
) -> None:
    """``valid``: the job's own records with a latency, which the scheduler compares with, whatever was trained on."""
    row: CostModelRow = lease.hold(session)
    through = max((r.id for r in own), default=0)
    job = by_key.get(session, Job, row.job_id) if row.job_id else None
    transition(
        session,
        row,
        WorkState.DONE,
        blob=blob,
        metrics=metrics,
        trained_on=valid,
        trained_through=through,
        simulated=job is not None and job.simulated,
        data={"number": row.number, "metrics": metrics},
    )
