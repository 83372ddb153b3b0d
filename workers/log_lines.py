"""Lines that a worker logs on their way to where operators read them (``tunesmith.worker_logs``).

All processes of a worker write to one socket, which they have from their parent; one of the pool's takes the lines
off it. The parent itself has no thread and no connection: its later children are forked from it.
"""

from __future__ import annotations

import logging
import os
import re
import select
import socket
import threading
from collections.abc import Iterable
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import structlog
from pydantic import SecretStr

from tunesmith.worker_logs import LEVELS, LINES_AT_ONCE, LogLine, shortened
from workers.logs import SHARED

LONGEST_DATAGRAM: Final = 64 << 10
SHORTEST_SECRET: Final = 6
"""Secrets below this length, such as a password of a test, are not looked for: they would be found in words."""
HIDDEN: Final = "***"
PATTERNS: Final = (
    (re.compile(r"(\b[a-z][a-z0-9+.-]*://)[^\s/@'\"]+@", re.IGNORECASE), rf"\1{HIDDEN}@"),
    (re.compile(r"([?&](?:signature|token|password|key|secret)=)[^&\s'\"]+", re.IGNORECASE), rf"\1{HIDDEN}"),
    (re.compile(r"(\bBearer\s+)[^\s'\"]+", re.IGNORECASE), rf"\1{HIDDEN}"),
    (re.compile(r"\btsm_[0-9a-zA-Z]+_[0-9a-zA-Z_-]+"), HIDDEN),
)
"""What is no business of a reader's, whoever wrote it: users of URLs, signatures, keys."""
OWN_FIELDS: Final = ("event", "timestamp", "level", "logger")
LEVEL_NUMBERS: Final = {getattr(logging, name.upper()): name for name in LEVELS}


class Scrubber:
    """Takes secrets out of texts: those of the settings, and whatever looks like one."""

    def __init__(self, settings: Iterable[Any]) -> None:
        found: set[str] = set()
        for value in settings:
            text = value.get_secret_value() if isinstance(value, SecretStr) else value
            if not isinstance(text, str):
                continue
            password = _password(text)
            found |= {password, unquote(password)}
            if isinstance(value, SecretStr):
                found.add(text)
        known = sorted((each for each in found if len(each) >= SHORTEST_SECRET), key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, known))) if known else None

    def __call__(self, text: str) -> str:
        """The text without them."""
        for pattern, instead in PATTERNS:
            text = pattern.sub(instead, text)
        return self._known.sub(HIDDEN, text) if self._known is not None else text


def _password(url: str) -> str:
    try:
        return urlsplit(url).password or ""
    except ValueError:  # no URL at all
        return ""


class LogChannel:
    """Where lines wait, some hundred of them, until they are taken; what does not fit is left out and counted."""

    def __init__(self) -> None:
        try:
            self._reads, self._writes = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        except OSError:  # macOS has none
            self._reads, self._writes = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._left_out = 0
        self._returned: list[LogLine] = []

    def put(self, line: LogLine) -> None:
        """Add a line; waits for nobody."""
        if self._left_out and self._sent(_left_out(line, self._left_out)):
            self._left_out = 0
        if not self._sent(line):
            self._left_out += 1

    def _sent(self, line: LogLine) -> bool:
        try:
            self._writes.send(line.model_dump_json().encode(), socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        return True

    def take(self) -> list[LogLine]:
        """Lines that wait, oldest first, :data:`LINES_AT_ONCE` at most."""
        found, self._returned = self._returned, []
        while len(found) < LINES_AT_ONCE:
            try:
                found.append(LogLine.model_validate_json(self._reads.recv(LONGEST_DATAGRAM, socket.MSG_DONTWAIT)))
            except BlockingIOError:
                break
        return found

    def put_back(self, lines: list[LogLine]) -> None:
        """Lines that were taken and could not be passed on come first the next time."""
        self._returned = lines

    def wait(self, seconds: float) -> bool:
        """Wait for a line; False where none came in time."""
        return bool(self._returned or select.select([self._reads], [], [], seconds)[0])

    def close(self) -> None:
        """Let go of the socket."""
        self._reads.close()
        self._writes.close()


def _left_out(line: LogLine, number: int) -> LogLine:
    text = f"{number} lines were left out: more was logged than is passed on"
    return line.model_copy(update={"level": "warning", "logger": __name__, "text": text})


class LineHandler(logging.Handler):
    """Puts what is logged on a channel, as one text a line."""

    def __init__(self, channel: LogChannel, scrub: Scrubber) -> None:
        super().__init__()
        self._channel, self._scrub, self._busy = channel, scrub, threading.local()
        self.setFormatter(
            structlog.stdlib.ProcessorFormatter(
                foreign_pre_chain=SHARED,
                processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, _text],
            )
        )

    def emit(self, record: logging.LogRecord) -> None:
        """Pass a line on; whatever fails at that ends nothing."""
        try:
            text = self.format(record).encode("utf-8", "replace").decode()
            line = LogLine(
                at=max(0.0, record.created),
                level=LEVEL_NUMBERS.get(record.levelno, "info"),
                logger=record.name[:100],
                process=os.getpid(),
                text=shortened(self._scrub(text)),
            )
            self._channel.put(line)
        except Exception:
            self.handleError(record)


def _text(_: Any, __: str, event: Any) -> str:
    """``what happened key=value``, and below it the traceback."""
    below = event.pop("exception", "")
    more = [f"{key}={value}" for key, value in event.items() if key not in OWN_FIELDS and not key.startswith("_")]
    first = " ".join([str(event.get("event", "")), *more])
    return f"{first}\n{below}" if below else first
