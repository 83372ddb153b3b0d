"""Bodies of requests."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import ConfigDict, Field, StringConstraints
from pydantic.config import JsonDict

from services.coordinator.access import Scope
from tunesmith.answers.base import Body
from tunesmith.answers.jobs import BudgetBody
from tunesmith.operators import FORMS
from tunesmith.options import MAX_PRIORITY, MIN_PRIORITY, JobOptions

Line = Annotated[str, StringConstraints(min_length=1, max_length=100)]
ONE_SOURCE: JsonDict = {
    "oneOf": [
        {"required": ["model_id"], "properties": {"model_id": {"type": "string"}, "operator": {"type": "null"}}},
        {"required": ["operator"], "properties": {"operator": {"type": "string"}, "model_id": {"type": "null"}}},
    ]
}


class JobSource(Body):
    """What to tune, for which target and for how long."""

    model_id: str | None = Field(None, max_length=40)
    operator: str | None = Field(None, max_length=500, description=f"Such as {', '.join(FORMS.values())}.")
    target: str | dict[str, Any] = "cpu"
    budget: BudgetBody = Field(default_factory=BudgetBody)


class JobRequest(JobOptions, JobSource):
    """A job to submit: a model (or an operator spec) and a target."""

    model_config = ConfigDict(json_schema_extra=ONE_SOURCE)

    name: str = Field("", max_length=200)


class JobChange(Body):
    """What may be changed while a job is under way; absent members stay."""

    priority: int | None = Field(None, ge=MIN_PRIORITY, le=MAX_PRIORITY)
    budget: BudgetBody | None = None
    name: str | None = Field(None, max_length=200)


class KeyRequest(Body):
    """A key to make."""

    owner: str = Field("local", min_length=1, max_length=100)
    scopes: list[Scope] = Field(["user"], min_length=1)


class EnrolRequest(Body):
    """A measure worker and its public key.

    ``public_key`` is the base64 of an Ed25519 public key; ``device_classes`` are those that it may serve, or any.
    """

    name: Line
    public_key: str = Field(min_length=44, max_length=44)
    device_classes: list[Line] = Field([], max_length=1024)


class RevokeRequest(Body):
    """Which champion is believed no longer: on a target (hash, device class or tag), and why."""

    target: str = Field(min_length=1, max_length=200)
    reason: str = Field("", max_length=500)
