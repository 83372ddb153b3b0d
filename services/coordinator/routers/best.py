"""The best schedules of a job."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter
from fastapi.responses import StreamingResponse

from services.coordinator import best
from services.coordinator.answer_headers import ATTACHMENT
from services.coordinator.auth import InCaller
from services.coordinator.context import InContext
from services.coordinator.usecases.jobs import visible

router = APIRouter(prefix="/v1/jobs/{job_id}", tags=["jobs"])


@router.get(
    "/best",
    response_class=StreamingResponse,
    responses={
        200: {
            "content": {"application/x-ndjson": {}, "application/zip": {}},
            "description": "Lines of JSON, or a zip.",
            "headers": ATTACHMENT,
        }
    },
)
def job_best(
    context: InContext, caller: InCaller, job_id: str, format: Literal["jsonl", "metaschedule"] = "jsonl"
) -> StreamingResponse:
    """The best schedules so far: one JSON object a line, or a zip that compiles with TVM alone."""
    with context.reading() as session:
        found = best.collect(session, visible(session, caller, job_id), caller)
    if format == "jsonl":
        return StreamingResponse(best.json_lines(found, context.blobs), media_type="application/x-ndjson")
    headers = {"Content-Disposition": f'attachment; filename="{job_id}-metaschedule.zip"'}
    return StreamingResponse(best.archive(found, context.blobs), media_type="application/zip", headers=headers)
