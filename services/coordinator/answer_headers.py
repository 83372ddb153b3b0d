"""Headers of answers, as the OpenAPI document declares them."""

from __future__ import annotations

from typing import Any

Headers = dict[str, Any]


def _text(description: str) -> Headers:
    return {"description": description, "schema": {"type": "string"}}


REQUEST_ID: Headers = {"X-Request-ID": _text("The request's id, its own or a fresh one; the log has it, too.")}
LOCATION: Headers = {"Location": _text("Path of what was made.")}
RETRY_AFTER: Headers = {"Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer", "minimum": 1}}}
ATTACHMENT: Headers = {"Content-Disposition": _text("Name of the file.")}
FILE: Headers = {
    "ETag": _text("Changes with the file."),
    "Last-Modified": _text("When the file was written."),
    "Accept-Ranges": _text("`bytes`: parts of the file can be asked for."),
    "Cache-Control": _text("A blob never changes."),
}
RANGE: Headers = {"Content-Range": _text("`bytes FIRST-LAST/SIZE`; `bytes */SIZE` where there is no such range.")}
AUTHENTICATE: Headers = {"WWW-Authenticate": _text("How to show a key.")}
