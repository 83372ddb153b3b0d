"""Clients that send or read too slowly are let go, and nobody holds more connections than their share.

The web server closes a connection that is idle between two requests, and waits for ever in the middle of one. Here
every connection is looked at once a second.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import dataclass, field
from enum import Enum

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from services.coordinator.problems import MEDIA_TYPE, RETRY_SECONDS, http_problem

LOOK_SECONDS = 1.0
MAX_HEAD_BYTES = 64 * 1024
"""Most bytes of a request's line and headers."""
MIN_BODY_RATE = 1000.0
"""Bytes per second that a body must have come with, on average, once it is late."""


@dataclass(frozen=True)
class ClientLimits:
    """How long a client may take, in seconds, and how many connections there may be.

    Attributes:
        head: until a request's line and headers are complete.
        body: without a byte of the body, or before its average rate counts.
        read: without taking anything of an answer that waits to be sent.
        most: connections in all.
        most_of_one: connections from one address.
    """

    head: float
    body: float
    read: float
    most: int
    most_of_one: int


@dataclass
class Watch:
    """The connections of a server, and who has how many."""

    patience: ClientLimits
    connections: set[PatientProtocol] = field(default_factory=set)
    addresses: Counter[str] = field(default_factory=Counter)

    def add(self, connection: PatientProtocol, address: str) -> bool:
        """Count it; False when there are too many."""
        patience = self.patience
        if len(self.connections) >= patience.most or self.addresses[address] >= patience.most_of_one:
            return False
        if not self.connections:
            connection.loop.call_later(LOOK_SECONDS, self._look, connection.loop)
        self.connections.add(connection)
        self.addresses[address] += 1
        return True

    def drop(self, connection: PatientProtocol, address: str) -> None:
        """Count it no more."""
        if connection in self.connections:
            self.connections.discard(connection)
            self.addresses[address] -= 1
            if not self.addresses[address]:
                del self.addresses[address]

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        for connection in list(self.connections):
            connection.look(now, self.patience)
        if self.connections:
            loop.call_later(LOOK_SECONDS, self._look, loop)


class Part(Enum):
    """What of a request comes next."""

    NOTHING = "nothing"
    HEAD = "head"
    BODY = "body"


class PatientProtocol(HttpToolsProtocol):
    """HTTP/1.1 of the web server, which knows since when it waits for its client."""

    watch: Watch

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client is there; one too many is sent away."""
        super().connection_made(transport)
        self._address = self.client[0] if self.client else ""
        self._refused = False
        self._expect(Part.NOTHING)
        self._unread_since: float | None = None
        self._answered = self.loop.time()
        if not self.watch.add(self, self._address):
            self.refuse(503, "there are too many connections; close those that are not needed")

    def connection_lost(self, exc: Exception | None) -> None:
        """A client is gone."""
        self.watch.drop(self, self._address)
        super().connection_lost(exc)

    def handle_websocket_upgrade(self) -> None:
        """Web sockets see to themselves: they send pings."""
        self.watch.drop(self, self._address)
        super().handle_websocket_upgrade()

    def data_received(self, data: bytes) -> None:
        """Bytes of a client."""
        if self._refused:
            return
        self._heard = self.loop.time()
        super().data_received(data)
        self._bytes += len(data)
        if self._part is Part.HEAD and self._bytes > MAX_HEAD_BYTES:
            self.refuse(431, f"the request's headers are longer than {MAX_HEAD_BYTES} bytes")

    def on_message_begin(self) -> None:
        """A request begins."""
        self._expect(Part.HEAD)
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Note that all headers have arrived."""
        super().on_headers_complete()
        self._expect(Part.BODY)

    def on_message_complete(self) -> None:
        """It is complete."""
        self._expect(Part.NOTHING)
        super().on_message_complete()

    def pause_writing(self) -> None:
        """The client does not take what is sent."""
        self._unread_since = self.loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
        """It does again."""
        self._unread_since = None
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """What is no HTTP at all is refused as anything else is."""
        self.refuse(400, msg)

    def look(self, now: float, patience: ClientLimits) -> None:
        """Let the client go if it has had its time."""
        if self.transport.is_closing():
            self._unread_since = self._unread_since or now
        if self._unread_since is not None and now - self._unread_since > patience.read:
            self.transport.abort()
        elif self.transport.is_closing():
            return
        elif self._part is Part.HEAD and now - self._since > patience.head:
            self.refuse(408, f"the request's headers did not come within {patience.head:g} seconds")
        elif self._part is Part.BODY:
            self._look_at_body(now, patience)
        elif self._idle and now - max(self._since, self._answered) > patience.head:
            self.transport.close()

    def _look_at_body(self, now: float, patience: ClientLimits) -> None:
        if self.flow.read_paused:  # we are the slow ones
            self._since, self._heard, self._bytes = now, now, 0
            return
        late = now - self._since
        if now - self._heard > patience.body or (late > patience.body and self._bytes < late * MIN_BODY_RATE):
            self.refuse(408, "the request's body came too slowly")

    def refuse(self, status: int, detail: str) -> None:
        """Answer with a problem, unless an answer is under way, and close."""
        self._refused = True
        if self._may_answer:
            body = json.dumps(http_problem(status, detail)).encode()
            headers = [f"content-type: {MEDIA_TYPE}", f"content-length: {len(body)}", "connection: close"]
            if status in RETRY_SECONDS:
                headers.append(f"retry-after: {RETRY_SECONDS[status]}")
            self.transport.write(STATUS_LINE[status] + "\r\n".join([*headers, "", ""]).encode() + body)
        if self.cycle is not None and not self.cycle.response_complete:  # whoever reads the body gets an error at once
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.close()

    @property
    def _may_answer(self) -> bool:
        """True when the client waits for an answer that has not begun, and for no earlier one."""
        if self.cycle is None:
            return True
        return not self.cycle.response_started if self._part is Part.BODY else self.cycle.response_complete

    @property
    def _idle(self) -> bool:
        """True when no answer is being made."""
        return self.cycle is None or self.cycle.response_complete

    def on_response_complete(self) -> None:
        """An answer is sent."""
        self._answered = self.loop.time()
        super().on_response_complete()

    def _expect(self, part: Part) -> None:
        self._part, self._since, self._heard, self._bytes = part, self.loop.time(), self.loop.time(), 0


def patient(patience: ClientLimits) -> type[PatientProtocol]:
    """The protocol for one server; its connections are counted together."""
    return type("Patient", (PatientProtocol,), {"watch": Watch(patience)})
