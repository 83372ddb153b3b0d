"""Trained cost models, as proposals and trainings use them."""

from __future__ import annotations

from costmodels.base import CostModel
from costmodels.registry import load_cost_model
from db.queries.cost_models import TrainedModel
from workers.core.context import Context


def trained_model(context: Context, row: TrainedModel) -> CostModel:
    """The model itself; the process keeps those it used last."""
    if row.id not in context.cost_models:
        with context.lease.shared():  # the first one loads its library, a second's work
            context.cost_models[row.id] = load_cost_model(row.kind, context.blobs.get_bytes(row.blob))
    model: CostModel = context.cost_models[row.id]
    return model
