"""Models: upload, list, show, delete."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool

from services.coordinator.answer_headers import LOCATION
from services.coordinator.auth import InCaller
from services.coordinator.context import InContext
from services.coordinator.uploads import form, receive
from services.coordinator.usecases import models
from tunesmith.answers.models import ModelBody

router = APIRouter(prefix="/v1/models", tags=["models"])

_SHAPE = "[1-9][0-9]{0,8}(?:, ?[1-9][0-9]{0,8}){0,15}"
_NAMED = rf'"[^"\\\u0000-\u001f]{{1,40}}": ?\[{_SHAPE}\]'
SHAPES = rf"^\s*$|^[^\s={{\u0000][^\s=\u0000]{{0,39}}={_SHAPE}$|^\{{{_NAMED}(?:, ?{_NAMED})*\}}$"
"""Pattern of the form's ``inputs``; blanks elsewhere are taken, too."""
FORM = form(
    "An .onnx or .pt2 file, or TVM JSON (.json).",
    name={"type": "string"},
    inputs={
        "type": "array",
        "items": {"type": "string", "pattern": SHAPES},
        "description": "Shapes of dynamic inputs: name=1,3,224,224 (repeated), or one JSON object.",
    },
)


@router.post(
    "",
    status_code=201,
    openapi_extra=FORM,
    responses={
        200: {"model": ModelBody, "description": "Known already", "headers": LOCATION},
        201: {"headers": LOCATION},
    },
)
async def upload_model(request: Request, response: Response, context: InContext, caller: InCaller) -> ModelBody:
    """Upload a model. The same file (and shapes) again is the same model, with 200. A worker imports it."""
    limit = context.settings.max_upload_bytes
    upload = await receive(
        request, context.blobs, limit, check=lambda upload: models.check_upload(context, upload, caller.owner)
    )
    body, fresh = await run_in_threadpool(models.register, context, upload, caller.owner)
    response.status_code = 201 if fresh else 200
    response.headers["Location"] = f"/v1/models/{body.id}"
    return body


_MODEL = "/{model_id}"
router.get("", name="list_models", description="Models, newest first.")(models.page)
router.get(_MODEL, name="show_model", description="One model.")(models.show)
router.get(f"{_MODEL}/tasks", name="model_tasks", description="Tasks into which the model was split.")(models.tasks)
_DELETED = "Remove a model that no job uses."
router.delete(_MODEL, status_code=204, name="delete_model", description=_DELETED)(models.delete)
