"""Downloads pass through the dashboard, because a browser's link carries the session and not the key."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack

from fastapi.responses import RedirectResponse, Response, StreamingResponse
from starlette.background import BackgroundTask

from services.dashboard.api import Api, Clients
from tunesmith.errors import NotFound, TunesmithError, Unauthorized

FORMS = {"jsonl": ("best.jsonl", "application/x-ndjson"), "metaschedule": ("metaschedule.zip", "application/zip")}


def best(api: Api, job_id: str, form: str) -> Response:
    """Stream a job's best schedules, or answer with the problem. Blocking: run it in a thread."""
    stack = ExitStack()
    try:
        if form not in FORMS:
            raise NotFound(f"no such format: {form}; there is {', '.join(FORMS)}", field="format", value=form)
        pieces: Iterator[bytes] = stack.enter_context(api.best(job_id, form))
    except Unauthorized:
        return RedirectResponse("/login", status_code=303)
    except TunesmithError as error:
        body = f"{error.title}: {error.detail}\n"
        return Response(body, status_code=error.status, media_type="text/plain; charset=utf-8")
    file, media = FORMS[form]
    headers = {"Content-Disposition": f'attachment; filename="{file}"', "Cache-Control": "no-store"}
    return StreamingResponse(pieces, media_type=media, headers=headers, background=BackgroundTask(stack.close))


async def records(clients: Clients, key: str | None, workload: str) -> Response:
    """Stream a file of records, of one workload or of all, or answer with the problem."""
    stack = AsyncExitStack()
    answer = await stack.enter_async_context(clients.export(key, {"workload": workload} if workload else {}))

    async def pieces() -> AsyncIterator[bytes]:
        async with stack:
            async for piece in answer.aiter_bytes():
                yield piece

    if answer.status_code == Unauthorized.status:
        await stack.aclose()
        return RedirectResponse("/login", status_code=303)
    names = ("content-type", "content-disposition")
    headers = {name: answer.headers[name] for name in names if name in answer.headers}
    return StreamingResponse(pieces(), answer.status_code, {**headers, "cache-control": "no-store"})
