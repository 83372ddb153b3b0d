# Written by `python -m tools.sync_client` from tunesmith/client/aio/transport.py.
"""HTTP for the SDK: errors become exceptions, requests that are safe to repeat are repeated."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2

from tunesmith.client.exchange import (
    ATTEMPTS,
    RATE_PATIENCE,
    base_address,
    checked,
    given,
    headers_of,
    pause,
    unreachable,
)
from tunesmith.client.waiting import sleep
from tunesmith.errors import RateLimited, ServerUnreachable
from tunesmith.full_disk import writing


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
        self.url = base_address(url)
        secure = not self.url.lower().startswith(
            "http://"
        )  # certificates take 20 ms to load; redirects are not followed
        try:
            self._http = httpx2.Client(
                base_url=self.url, headers=headers_of(key, more), timeout=timeout, transport=transport, verify=secure
            )
        except (httpx2.InvalidURL, ValueError) as error:
            raise unreachable(self.url, error) from error

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
                after = float(error.extra.get("retry_after", 1.0))
                if "files" in arguments or waited + after > RATE_PATIENCE:
                    raise
                sleep(after)
                waited += after

    def _send(self, method: str, path: str, repeat: bool | None, arguments: dict[str, Any]) -> httpx2.Response:
        attempts = ATTEMPTS if (method == "GET" if repeat is None else repeat) else 1
        for attempt in range(1, attempts + 1):
            try:
                response = self._http.request(method, path, **arguments)
            except (httpx2.TransportError, httpx2.InvalidURL) as error:
                if attempt == attempts:
                    raise unreachable(self.url, error) from error
                sleep(pause(attempt))
            else:
                return checked(self.url, response)
        raise AssertionError("unreachable: the loop returns or raises")

    def call(self, method: str, path: str, **arguments: Any) -> Any:
        """The JSON answer to a :meth:`request`."""
        response = self.request(method, path, **arguments)
        return response.json()

    def get(self, path: str, *, patience: float = 0.0, **params: Any) -> Any:
        """The JSON answer to a GET; parameters that are None are left out.

        A server that does not answer is asked again for ``patience`` seconds: a restart takes a few.
        """
        end = time.monotonic() + patience
        while True:
            try:
                return self.call("GET", path, params=given(params))
            except ServerUnreachable:
                if time.monotonic() > end:
                    raise
                sleep(pause(1))

    def items(self, path: str, limit: int | None = None) -> Iterator[dict[str, Any]]:
        """Everything in a list, fetched page by page; ``limit``: items of a page."""
        cursor: str | None = None
        while True:
            answer = self.get(path, limit=limit, cursor=cursor)
            paged = isinstance(answer, dict)
            yield from answer["items"] if paged else answer
            cursor = answer.get("next_cursor") if paged else None
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
        arguments: Any = {**sent, "headers": headers, "params": given(params), "timeout": wait}
        try:
            with self._http.stream(method, path, **arguments) as response:
                if response.is_error:
                    response.read()
                yield checked(self.url, response)
        except httpx2.TransportError as error:
            raise unreachable(self.url, error) from error

    def download(self, path: str, to: Path, **params: Any) -> None:
        """Write an answer's body to a file, piece by piece; the file appears only when it is complete.

        Raises:
            DiskFull, InvalidInput: it cannot be written.
        """
        part = to.with_name(to.name + ".part")
        with self.stream(path, **params) as response:
            with writing(to):
                try:
                    with part.open("wb") as file:
                        for piece in response.iter_bytes():
                            file.write(piece)
                    part.replace(to)
                finally:
                    part.unlink(missing_ok=True)
