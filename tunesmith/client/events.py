# Written by `python -m tools.sync_client` from tunesmith/client/aio/events.py.
"""Following a job's events: server-sent events with resume, polling where they do not get through."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing

from tunesmith.answers.events import EventBody
from tunesmith.client.exchange import RESTART_SECONDS
from tunesmith.client.transport import Transport
from tunesmith.client.waiting import sleep
from tunesmith.errors import ServerUnreachable

SILENCE = 40.0
"""Seconds without a byte after which a stream counts as dead; the server sends a comment every 15."""


def parse(lines: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """``(id, event, data)`` of each server-sent event (HTML standard, section 9.2.6)."""
    identity, event = "", "message"
    data: list[str] = []
    for line in lines:
        if not line:
            if data:
                yield identity, event, "\n".join(data)
            event, data = "message", []
            continue
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "id":
            identity = value
        elif name == "event":
            event = value
        elif name == "data":
            data.append(value)


def page(transport: Transport, job_id: str, after: int, limit: int = 200, patience: float = 0.0) -> list[EventBody]:
    """Events with an id above ``after``, oldest first."""
    answer = transport.get(f"/v1/jobs/{job_id}/events", patience=patience, after=after, limit=limit)
    return [EventBody.read(item) for item in answer["items"]]


def follow(transport: Transport, job_id: str, after: int = 0, poll: float = 1.0) -> Generator[EventBody | None, None]:
    """Events as they happen, for ever; None is yielded when a stream or page ends, to look whether the job has.

    A stream that breaks is taken up where it ended. A server or proxy that refuses streams is polled.

    Raises:
        TunesmithError: what the server answers to a poll, ``ServerUnreachable`` when it stays away.
    """
    streams = True
    while True:
        if streams:
            try:
                with closing(_stream(transport, job_id, after)) as stream:
                    for event in stream:
                        after = event.id if event else after
                        yield event
            except ServerUnreachable:
                pass  # the poll below tells a broken stream from a dead server
            except _NoStream:
                streams = False
        for event in page(transport, job_id, after, patience=RESTART_SECONDS):
            after = event.id
            yield event
        yield None
        sleep(poll)


class _NoStream(Exception):
    """The answer was not an event stream."""


def _stream(transport: Transport, job_id: str, after: int) -> Generator[EventBody | None, None]:
    headers = {"accept": "text/event-stream", "last-event-id": str(after)}
    with transport.stream(f"/v1/jobs/{job_id}/events", headers=headers, timeout=SILENCE) as response:
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            raise _NoStream
        for identity, _, data in parse(response.iter_lines()):
            yield EventBody.read(json.loads(data)) if identity.isdigit() else None
