# Written by `python -m tools.sync_client` from tunesmith/client/aio/cost_models.py.
"""The part of the client that asks for cost models."""

from __future__ import annotations

from tunesmith.answers.base import Page
from tunesmith.answers.fleet import CostModelBody
from tunesmith.client.transport import Transport
from tunesmith.names import DEFAULT_PRECISION


class CostModels:
    """Cost models: what jobs trained, and what is trained for a target."""

    _transport: Transport

    def cost_models(self, *, job: str | None = None, limit: int = 50, cursor: str | None = None) -> Page[CostModelBody]:
        """Trained cost models, newest first.

        Args:
            job: only those of this job.
            limit: items of the page.
            cursor: ``next_cursor`` of the page before.
        """
        return Page[CostModelBody].read(self._transport.get("/v1/costmodels", job=job, limit=limit, cursor=cursor))

    def cost_model(self, model_id: str) -> CostModelBody:
        """One cost model: its lineage and its metrics.

        Raises:
            NotFound: no such cost model.
        """
        return CostModelBody.read(self._transport.get(f"/v1/costmodels/{model_id}"))

    def train_cost_model(self, target: str, *, precision: str = DEFAULT_PRECISION) -> CostModelBody:
        """Queue a ranker that learns from every record of a target and a precision.

        Args:
            target: hash, device class or tag of the target.
            precision: precision of the records.
        """
        body = {"target": target, "precision": precision}
        return CostModelBody.read(self._transport.call("POST", "/v1/costmodels/train", json=body))
