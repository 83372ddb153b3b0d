"""Whole answers of the REST API from the few fields that a test is about."""

from __future__ import annotations

import datetime as dt
import enum
import re
import types
import typing
from typing import Any

import httpx2
from pydantic import BaseModel

from tunesmith.answers.curves import ForecastBody
from tunesmith.answers.events import EventBody
from tunesmith.answers.fleet import AuditBody, DeviceBody, NewKeyBody
from tunesmith.answers.jobs import FailureBody, JobBody, TaskBody
from tunesmith.answers.models import ModelBody, ModelTaskBody

BEGAN = "2026-01-01T00:00:00Z"
MODELS: dict[str, type[BaseModel]] = {
    r"/v1/jobs(/[\w-]+(/(cancel|pause|resume))?)?": JobBody,
    r"/v1/jobs/[\w-]+/tasks": TaskBody,
    r"/v1/jobs/[\w-]+/events": EventBody,
    r"/v1/jobs/[\w-]+/failures": FailureBody,
    r"/v1/jobs/[\w-]+/forecast": ForecastBody,
    r"/v1/models(/[\w-]+)?": ModelBody,
    r"/v1/models/[\w-]+/tasks": ModelTaskBody,
    r"/v1/keys": NewKeyBody,
    r"/v1/audit": AuditBody,
    r"/v1/devices": DeviceBody,
}
"""What the routes answer, or list, that tests give in part."""


def whole(model: type[BaseModel], given: dict[str, Any]) -> dict[str, Any]:
    """``given`` with every field that an answer of ``model`` has: null, zero or empty where none is given."""
    fields = model.model_fields
    return given | {
        name: _field(field.annotation, given.get(name), name in given)
        for name, field in fields.items()
        if name in given or field.is_required()
    }


def completed(request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
    """A server's answer with every field; others than :data:`MODELS` stay."""
    model = next((one for path, one in MODELS.items() if re.fullmatch(path, request.url.path)), None)
    if model is None or response.is_error or not response.headers.get("content-type", "").endswith("json"):
        return response
    body = response.json()
    if "items" in body:
        body["items"] = [whole(model, item) for item in body["items"]]
    return httpx2.Response(response.status_code, json=body if "items" in body else whole(model, body))


def _field(kind: Any, value: Any, given: bool) -> Any:
    options = typing.get_args(kind) if isinstance(kind, types.UnionType) else (kind,)
    if (value if given else None) is None:
        return None if type(None) in options else _empty(kind)
    part = next((one for one in options if isinstance(one, type) and issubclass(one, BaseModel)), None)
    return whole(part, value) if part and isinstance(value, dict) else value


def _empty(kind: Any) -> Any:
    if typing.get_origin(kind) is typing.Literal:
        return typing.get_args(kind)[0]
    kind = typing.get_origin(kind) or kind
    if issubclass(kind, BaseModel):
        return whole(kind, {})
    if issubclass(kind, enum.Enum):
        return next(iter(kind)).value
    return BEGAN if kind is dt.datetime else kind()
