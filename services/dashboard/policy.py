"""The content security policy of the dashboard's pages: only scripts of the toolkit's own template run."""

from __future__ import annotations

import secrets
from collections.abc import Callable

from jinja2 import BaseLoader, Environment
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

NONCE = "csp_nonce"
POLICY = (
    "default-src 'self'; script-src 'self' 'nonce-{nonce}' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; font-src 'self' data:; connect-src 'self'; object-src 'none'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'"
)
"""NiceGUI evaluates what it is sent over its socket and sets styles on elements: neither can be forbidden."""


class PagePolicy:
    """ASGI middleware: every page has a policy with a nonce of its own, which its template puts into its scripts."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        nonce = secrets.token_urlsafe(16)
        scope[NONCE] = nonce

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                if headers.get("content-type", "").startswith("text/html"):
                    headers["Content-Security-Policy"] = POLICY.format(nonce=nonce)
            await send(message)

        await self._app(scope, receive, answer)


class NonceLoader(BaseLoader):
    """Templates whose own scripts carry the request's nonce; what is filled into them later does not.

    Args:
        inner: finds the templates.
    """

    def __init__(self, inner: BaseLoader) -> None:
        self._inner = inner

    def get_source(self, environment: Environment, template: str) -> tuple[str, str | None, Callable[[], bool] | None]:
        """The template's text with a nonce in every script."""
        text, path, is_fresh = self._inner.get_source(environment, template)
        return text.replace("<script", f'<script nonce="{{{{ request.scope.{NONCE} }}}}"'), path, is_fresh


def use_nonces(environment: Environment) -> None:
    """Make the templates of ``environment`` carry nonces."""
    assert environment.loader is not None, "the toolkit's templates come from its folder"
    environment.loader = NonceLoader(environment.loader)
    if environment.cache is not None:
        environment.cache.clear()
