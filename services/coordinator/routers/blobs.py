"""Blobs for measure workers: a signed URL instead of a key."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import FileResponse
from starlette.exceptions import HTTPException
from starlette.responses import MalformedRangeHeader, RangeNotSatisfiable

from services.coordinator import answer_headers
from services.coordinator.context import InContext
from services.coordinator.cursors import MAX_ID
from tunesmith.errors import NotFound

router = APIRouter(prefix="/v1/blobs", tags=["blobs"])
FILE = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {"content": FILE, "description": "The blob", "headers": answer_headers.FILE},
    206: {
        "content": {**FILE, "multipart/byteranges": {}},
        "description": "The ranges that were asked for",
        "headers": {**answer_headers.FILE, **answer_headers.RANGE},
    },
    401: {"$ref": "#/components/responses/Problem401"},
    416: {"$ref": "#/components/responses/Problem416"},
}


class BlobFile(FileResponse):
    """A file in ranges, which refuses with a problem object what the framework refuses with a line of text."""

    @classmethod
    def _parse_range_header(cls, http_range: str, file_size: int) -> list[tuple[int, int]]:
        try:
            return super()._parse_range_header(http_range, file_size)
        except (MalformedRangeHeader, RangeNotSatisfiable):
            raise HTTPException(
                416,
                f"the blob has {file_size} bytes and no range {http_range[:100]!r}: ask for bytes=FIRST-LAST",
                headers={"Content-Range": f"bytes */{file_size}"},
            ) from None


@router.get("/{sha}", response_class=BlobFile, responses=ANSWERS)
def get_blob(
    context: InContext,
    sha: str,
    expires: Annotated[int, Query(ge=0, le=MAX_ID)] = 0,
    signature: Annotated[str, Query(max_length=64)] = "",
) -> FileResponse:
    """The blob, in ranges when asked so. A message brings the signed URL; unsigned, 401."""
    context.urls.check(sha, expires, signature)
    path = context.blobs.path(sha)
    try:
        about = path.stat()
    except FileNotFoundError:
        raise NotFound(f"there is no blob {sha}", field="sha", value=sha) from None
    headers = {"Cache-Control": "private, immutable"}
    return BlobFile(path, media_type="application/octet-stream", headers=headers, stat_result=about)
