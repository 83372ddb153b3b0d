"""HEAD and OPTIONS, which every path answers, and the methods that a 405 names."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import anyio
from starlette.responses import Response
from starlette.routing import compile_path
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class Paths:
    """Which methods each path of a document has; the document is asked for once, when it is needed.

    Args:
        document: gives the OpenAPI document.
    """

    def __init__(self, document: Callable[[], dict[str, Any]]) -> None:
        self._document = document
        self._paths: list[tuple[re.Pattern[str], set[str]]] | None = None

    def allow(self, path: str) -> str:
        """The header ``Allow`` of a path; nothing when there is no such path.

        A path that the document names as it is has no methods of one with parameters that it would fit as well.
        """
        if self._paths is None:
            found = self._document()["paths"].items()
            self._paths = [(compile_path(path)[0], {name.upper() for name in item}) for path, item in found]
        fitting = [(pattern.groups, names) for pattern, names in self._paths if pattern.match(path)]
        fewest = min((groups for groups, _ in fitting), default=0)
        methods = {name for groups, names in fitting if groups == fewest for name in names}
        if methods:
            methods |= {"OPTIONS", *(("HEAD",) if "GET" in methods else ())}
        return ", ".join(sorted(methods))


class Methods:
    """ASGI middleware: HEAD is GET without the body, OPTIONS says what is allowed.

    Args:
        paths: the application's paths.
    """

    def __init__(self, app: ASGIApp, paths: Paths) -> None:
        self._app, self._paths = app, paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer it."""
        allow = ""
        if scope["type"] == "http" and scope["method"] in ("HEAD", "OPTIONS"):
            allow = self._paths.allow(scope["path"])
        if not allow:  # pages of the dashboard are not in the document, they see to themselves
            await self._app(scope, receive, send)
        elif scope["method"] == "OPTIONS":
            await Response(status_code=204, headers={"Allow": allow})(scope, receive, send)
        elif "GET" not in allow:
            await self._app(scope, receive, send)
        else:
            await self._head(scope, receive, send)

    async def _head(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The answer's head; a client that would continue its body, a file or a stream without end, is stopped."""
        with anyio.CancelScope() as rest:

            async def head(message: Message) -> None:
                if message["type"] == "http.response.start":
                    await send(message)
                    await send({"type": "http.response.body", "body": b"", "more_body": False})
                    rest.cancel()

            await self._app({**scope, "method": "GET"}, receive, head)
