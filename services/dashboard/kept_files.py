"""Files of the toolkit, which never change under one address: kept in memory, compressed once.

A browser with an empty cache asks for twenty of them before it shows anything. Each would go through a thread, a
dozen layers and a compressor, next to the calls that fetch the page's data.
"""

from __future__ import annotations

import asyncio
import gzip
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

PREFIX = "/_nicegui/"
LEVEL = 9
"""Compression takes place once, so it may take long."""
MAX_FILE, MAX_BYTES = 4 << 20, 64 << 20
"""Sizes of a file that is kept, and of all."""
SMALL = 500
"""Bytes below which compressing gains nothing."""
TEXTS = ("text/", "application/json", "application/javascript", "image/svg")
OWN = (b"set-cookie", b"vary", b"content-length", b"date")
"""Headers of one answer alone."""


@dataclass(frozen=True)
class Kept:
    """An answer: headers, the body, and the body in gzip's form where that is smaller."""

    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes
    packed: bytes | None

    @property
    def size(self) -> int:
        """Bytes that it holds."""
        return len(self.body) + len(self.packed or b"")

    async def send(self, send: Send, *, packed: bool) -> None:
        """Answer with it."""
        body = self.packed if packed and self.packed is not None else self.body
        headers = [*self.headers, (b"content-length", b"%d" % len(body))]
        if self.packed is not None:
            headers.append((b"vary", b"Accept-Encoding"))
        if body is self.packed:
            headers.append((b"content-encoding", b"gzip"))
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


class KeptFiles:
    """ASGI middleware: whole files that their answer calls immutable are fetched once."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._kept: dict[str, Kept] = {}
        self._size = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, unless the answer is kept."""
        if scope["type"] != "http" or scope["method"] != "GET" or not scope["path"].startswith(PREFIX):
            await self._app(scope, receive, send)
            return
        asked = Headers(scope=scope)
        if scope["query_string"] or "range" in asked or "if-none-match" in asked or "if-modified-since" in asked:
            await self._app(scope, receive, send)
            return
        kept = self._kept.get(scope["path"])
        if kept is None:
            kept = await self._fetch(scope, receive, send)
        if kept is not None:
            await kept.send(send, packed="gzip" in asked.get("accept-encoding", ""))

    async def _fetch(self, scope: Scope, receive: Receive, send: Send) -> Kept | None:
        """Ask for a file, and keep it; None where the answer cannot be kept, which has been sent then."""
        plain = [(name, value) for name, value in scope["headers"] if name != b"accept-encoding"]
        said: list[Message] = []

        async def note(message: Message) -> None:
            said.append(message)

        await self._app({**scope, "headers": plain}, receive, note)
        kept = await asyncio.to_thread(_kept, said)
        if kept is None or self._size + kept.size > MAX_BYTES:
            for message in said:
                await send(message)
            return None
        if scope["path"] not in self._kept:
            self._size += kept.size
        self._kept[scope["path"]] = kept
        return kept


def _kept(said: list[Message]) -> Kept | None:
    if not said or said[0]["type"] != "http.response.start" or said[0]["status"] != 200:
        return None
    headers = Headers(raw=said[0]["headers"])
    body = b"".join(message.get("body", b"") for message in said[1:])
    if said[-1].get("more_body") or headers.get("content-length", str(len(body))) != str(len(body)):
        return None  # a browser that went away cut it short
    if "immutable" not in headers.get("cache-control", "") or len(body) > MAX_FILE or "content-encoding" in headers:
        return None
    packed = None
    if len(body) >= SMALL and headers.get("content-type", "").startswith(TEXTS):
        packed = gzip.compress(body, LEVEL, mtime=0)
        packed = packed if len(packed) < len(body) else None
    return Kept(tuple((name, value) for name, value in said[0]["headers"] if name.lower() not in OWN), body, packed)
