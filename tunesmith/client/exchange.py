"""Requests and answers, whichever way they travel: what both clients share."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx2

from tunesmith import __version__
from tunesmith.errors import (
    InvalidInput,
    NotFound,
    PayloadTooLarge,
    RateLimited,
    ServerUnreachable,
    TunesmithError,
    Unauthorized,
    from_problem,
)
from tunesmith.full_disk import writing
from tunesmith.metaschedule import PREPARATION_FILE, RECORD_FILE, WORKLOAD_FILE

ATTEMPTS = 4
FIRST_PAUSE = 0.1
RATE_PATIENCE = 60.0
"""Seconds of ``Retry-After`` that one request waits for in all."""
RESTART_SECONDS = 30.0
"""Seconds for which whoever follows a job puts up with a server that restarts."""
UPLOAD_SECONDS = 600.0
EXPORT_SECONDS = 120.0
"""Longest silence of a server that writes a row group."""
_BY_STATUS = {401: Unauthorized, 403: Unauthorized, 404: NotFound, 413: PayloadTooLarge, 429: RateLimited}


def base_address(url: str) -> str:
    """The address of a server; without a scheme it is ``http``."""
    return (url if "://" in url else f"http://{url}").rstrip("/")


def headers_of(key: str | None, more: Mapping[str, str] | None) -> dict[str, str]:
    """Headers of every request."""
    headers = {"user-agent": f"tunesmith/{__version__}", **(more or {})}
    if key:
        headers["authorization"] = f"Bearer {key}"
    return headers


def given(params: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters without those that are None."""
    return {name: value for name, value in params.items() if value is not None}


def pause(attempt: int) -> float:
    """Seconds to wait after a failed attempt, the first being 1."""
    return FIRST_PAUSE * float(2 ** (attempt - 1))


def checked(url: str, response: httpx2.Response) -> httpx2.Response:
    """An answer whose body was read, if it is a success.

    Raises:
        TunesmithError: what the server's problem object, else the status, stands for.
    """
    if response.is_success:
        return response
    try:
        body = response.json()
    except ValueError:
        body = None
    if isinstance(body, dict) and "code" in body:
        raise from_problem(body)
    error = _BY_STATUS.get(response.status_code, TunesmithError)
    after = response.headers.get("retry-after", "")
    extra: dict[str, Any] = {"retry_after": int(after)} if after.isdigit() else {}
    raise error(f"{url} answered {response.status_code} {response.reason_phrase} to {response.request.url}", **extra)


def unreachable(url: str, error: Exception) -> ServerUnreachable:
    """The error for a server that does not answer."""
    reason = str(error) or type(error).__name__
    return ServerUnreachable(
        f"no Tunesmith server answers at {url} ({reason}); start one with 'tunesmith up'", field="server", value=url
    )


def unpack(archive: Path, folder: Path) -> None:
    """Write what a downloaded archive holds to a folder. Raises DiskFull."""
    with writing(folder), zipfile.ZipFile(archive) as content:
        content.extractall(folder)


def pack_database(folder: Path, place: Path) -> Path:
    """An archive in ``place`` of the MetaSchedule database in a folder.

    Raises:
        InvalidInput: the folder holds none.
    """
    archive = place / f"{folder.name or 'database'}.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as content:
        for name in (WORKLOAD_FILE, RECORD_FILE, PREPARATION_FILE):
            if (folder / name).is_file():
                content.write(folder / name, name)
            elif name != PREPARATION_FILE:
                raise InvalidInput(
                    f"{folder} holds no MetaSchedule database: it has no file {name}", field="file", value=str(folder)
                )
    return archive
