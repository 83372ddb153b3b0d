"""Train a ranker for a target, on what every job measured on it."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from sqlalchemy.orm import Session

from costmodels import evaluation, splits
from costmodels.base import Guard
from costmodels.labelled import Labelled
from costmodels.ranker import RankerModel
from db.models import CostModelRow
from db.transactions.transitions import transition
from tunesmith.errors import TunesmithError
from tunesmith.names import RANKER
from tunesmith.states import WorkState
from workers.core import labelled
from workers.core.context import Context
from workers.core.leased import Lease

FOLDS = 4
"""One part of so many is held out for the metrics."""


def train_on_target(context: Context, lease: Lease, target_hash: str, precision: str, started: float) -> None:
    """Fit a ranker on the records of a target and a precision, and store it with its lineage.

    Raises:
        TunesmithError: nothing was measured.
    """
    with context.readers() as session:
        found = labelled.load(session, target_hash, precision, labelled.MAX_RECORDS)
    measured = labelled.of_records(found, context.blobs, lease.unit)
    if not any(np.isfinite(each.latency).any() for each in measured):
        raise TunesmithError(f"there is no measured candidate in {precision} on this target to train on yet")
    data = Labelled.of(measured)
    model = RankerModel()
    model.fit(data.data, lease.unit)
    metrics: dict[str, Any] = {
        "programs": len(data.data),
        "valid": int(np.isfinite(data.data.latency).sum()),
        "workloads": len(data.names),
        "families": len(set(data.kin)),
        "strength": model.strength,
        "held_out": _held_out(data, lease.unit),
        "seconds": round(time.perf_counter() - started, 3),
    }
    blob = context.blobs.put_bytes(model.save())
    context.write(lambda session: _store(session, lease, blob, found.through, metrics))


def _held_out(data: Labelled, guard: Guard) -> dict[str, Any] | None:
    """How a ranker and the static model rank workloads that were held out; None where there are too few."""
    if len(data.names) < 2 * FOLDS:
        return None
    cut = splits.by_workload(data, FOLDS, 0)[0]
    model = RankerModel()
    model.fit(data.data.take(cut.train), guard)
    static = evaluation.contenders()[evaluation.STATIC_MODEL]
    chosen: dict[str, evaluation.Contender] = {
        RANKER: lambda data, features, seed: model.predict(features)[0],
        evaluation.STATIC_MODEL: static,
    }
    with guard():
        rows = evaluation.evaluate_all(data, [cut], chosen)
    return {row.contender: {name: round(each.mean, 4) for name, each in row.figures.items()} for row in rows}


def _store(session: Session, lease: Lease, blob: str, through: int, metrics: dict[str, Any]) -> None:
    row: CostModelRow = lease.hold(session)
    transition(
        session,
        row,
        WorkState.DONE,
        blob=blob,
        metrics=metrics,
        trained_on=metrics["valid"],
        trained_through=through,
        data={"number": row.number, "metrics": metrics},
    )
