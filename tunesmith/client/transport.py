"""HTTP for the SDK: errors become exceptions, requests that are safe to repeat are repeated."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2

from tunesmith import __version__
from tunesmith.errors import (
    NotFound,
    PayloadTooLarge,
    RateLimited,
    ServerUnreachable,
    TunesmithError,
    Unauthorized,
    from_problem,
)
from tunesmith.full_disk import writing

ATTEMPTS = 4
FIRST_PAUSE = 0.1
RATE_PATIENCE = 60.0
"""Seconds of ``Retry-After`` that one request waits for in all."""
RESTART_SECONDS = 30.0
"""Seconds for which whoever follows a job puts up with a server that restarts."""
_BY_STATUS = {401: Unauthorized, 403: Unauthorized, 404: NotFound, 413: PayloadTooLarge, 429: RateLimited}


class Transport:
    """One server, one key. Raises ``TunesmithError`` subclasses only.

    Args:
        url: base address of the coordinator; without a scheme it is ``http``.
        key: bearer key, or None where the server asks for none.
        timeout: seconds to wait for an answer to begin.
        transport: replaces the network, for tests.
        more: headers of every request.
    """

    def __init__(
        self,
        url: str,
        key: str | None,
        timeout: float,
        transport: httpx2.BaseTransport | None,
        more: Mapping[str, str] | None = None,
    ) -> None:
        headers = {"user-agent": f"tunesmith/{__version__}", **(more or {})}
        if key:
            headers["authorization"] = f"Bearer {key}"
        self.url = (url if "://" in url else f"http://{url}").rstrip("/")
        try:
            self._http = httpx2.Client(base_url=self.url, headers=headers, timeout=timeout, transport=transport)
        except (httpx2.InvalidURL, ValueError) as error:
            raise self._unreachable(error) from error

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def request(self, method: str, path: str, *, repeat: bool | None = None, **arguments: Any) -> httpx2.Response:
        """Send, and raise what the server's problem object stands for.

        A request that came too soon after others is sent again when the server's ``Retry-After`` is over, unless it
        carries a file or the waits would exceed ``RATE_PATIENCE`` seconds.

        Args:
            method: HTTP method.
            path: below the base address.
            repeat: try again after a connection error; by default GET only.
            **arguments: of ``httpx2.Client.request``.

        Raises:
            ServerUnreachable: when no connection came about or the answer never arrived.
            TunesmithError: what the server answered.
        """
        waited = 0.0
        while True:
            try:
                return self._send(method, path, repeat, arguments)
            except RateLimited as error:  # refused before anything was done
                pause = float(error.extra.get("retry_after", 1.0))
                if "files" in arguments or waited + pause > RATE_PATIENCE:
                    raise
                time.sleep(pause)
                waited += pause

    def _send(self, method: str, path: str, repeat: bool | None, arguments: dict[str, Any]) -> httpx2.Response:
        attempts = ATTEMPTS if (method == "GET" if repeat is None else repeat) else 1
        for attempt in range(1, attempts + 1):
            try:
                response = self._http.request(method, path, **arguments)
            except (httpx2.TransportError, httpx2.InvalidURL) as error:
                if attempt == attempts:
                    raise self._unreachable(error) from error
                time.sleep(FIRST_PAUSE * 2 ** (attempt - 1))
            else:
                return self._checked(response)
        raise AssertionError("unreachable: the loop returns or raises")

    def get(self, path: str, *, patience: float = 0.0, **params: Any) -> Any:
        """The JSON answer to a GET; parameters that are None are left out.

        A server that does not answer is asked again for ``patience`` seconds: a restart takes a few.
        """
        end = time.monotonic() + patience
        while True:
            try:
                return self.request("GET", path, params=_given(params)).json()
            except ServerUnreachable:
                if time.monotonic() > end:
                    raise
                time.sleep(FIRST_PAUSE)

    def items(self, path: str, limit: int | None = None) -> Iterator[dict[str, Any]]:
        """Everything in a list, fetched page by page; ``limit``: items of a page."""
        cursor: str | None = None
        while True:
            answer = self.get(path, limit=limit, cursor=cursor)
            if isinstance(answer, list):
                yield from answer
                return
            yield from answer["items"]
            cursor = answer.get("next_cursor")
            if cursor is None:
                return

    @contextmanager
    def stream(
        self,
        path: str,
        *,
        headers: dict[str, str] | None = None,
        timeout: float | None = None,
        body: dict[str, Any] | None = None,
        **params: Any,
    ) -> Iterator[httpx2.Response]:
        """An answer that is read as it arrives; ``timeout`` bounds the silence between two pieces.

        Args:
            body: JSON to send with a POST; None for a GET.
        """
        wait = self._http.timeout if timeout is None else httpx2.Timeout(timeout)
        method, sent = ("GET", {}) if body is None else ("POST", {"json": body})
        given: Any = {**sent, "headers": headers, "params": _given(params), "timeout": wait}
        try:
            with self._http.stream(method, path, **given) as response:
                if response.is_error:
                    response.read()
                yield self._checked(response)
        except httpx2.TransportError as error:
            raise self._unreachable(error) from error

    def download(self, path: str, to: Path, **params: Any) -> None:
        """Write an answer's body to a file, piece by piece; the file appears only when it is complete.

        Raises:
            DiskFull, InvalidInput: it cannot be written.
        """
        part = to.with_name(to.name + ".part")
        with self.stream(path, **params) as response, writing(to):
            try:
                with part.open("wb") as file:
                    for piece in response.iter_bytes():
                        file.write(piece)
                part.replace(to)
            finally:
                part.unlink(missing_ok=True)

    def _checked(self, response: httpx2.Response) -> httpx2.Response:
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
        raise error(
            f"{self.url} answered {response.status_code} {response.reason_phrase} to {response.request.url}", **extra
        )

    def _unreachable(self, error: Exception) -> ServerUnreachable:
        reason = str(error) or type(error).__name__
        return ServerUnreachable(
            f"no Tunesmith server answers at {self.url} ({reason}); start one with 'tunesmith up'",
            field="server",
            value=self.url,
        )


def _given(params: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in params.items() if value is not None}
