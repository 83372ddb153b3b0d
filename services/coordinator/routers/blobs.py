"""Blobs for measure workers: a signed URL instead of a key."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import FileResponse

from services.coordinator.context import InContext
from tunesmith.errors import NotFound

router = APIRouter(prefix="/v1/blobs", tags=["blobs"])


@router.get("/{sha}", response_class=FileResponse)
def get_blob(
    context: InContext, sha: str, expires: Annotated[int, Query(ge=0)] = 0,
    signature: Annotated[str, Query(max_length=64)] = "",
) -> FileResponse:  # fmt: skip
    """The blob, in ranges when asked so. A message brings the signed URL; unsigned, 401."""
    context.urls.check(sha, expires, signature)
    path = context.blobs.path(sha)
    if not path.is_file():
        raise NotFound(f"there is no blob {sha}", field="sha", value=sha)
    return FileResponse(path, media_type="application/octet-stream", headers={"Cache-Control": "private, immutable"})
