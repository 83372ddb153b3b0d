"""Length-prefixed values over a pair of pipes or over a socket, between a process and its own children.

They are pickles, except for what a boxed child says: a pickle runs code where it is read.
"""

from __future__ import annotations

import json
import os
import pickle
import selectors
import struct
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

_HEADER = struct.Struct("<Q")


class Closed(Exception):
    """The other side is gone."""


class Expired(Exception):
    """Nothing complete came before the deadline."""


class Garbled(Exception):
    """What came is no value, or too large."""


class Codec(NamedTuple):
    """How values become bytes; ``limit``: bytes of one that are read, 0: any number."""

    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]
    limit: int = 0


def _from_json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Garbled(str(error)[:200]) from error


PICKLE = Codec(partial(pickle.dumps, protocol=pickle.HIGHEST_PROTOCOL), pickle.loads)
CLAIMS = Codec(lambda value: json.dumps(value).encode(), _from_json, 64 << 20)
"""What a boxed process says: JSON that proves nothing."""


class Channel:
    """One end: reads frames from one descriptor and writes frames to the other. Not thread-safe."""

    def __init__(self, read_fd: int, write_fd: int, reads: Codec = PICKLE, writes: Codec = PICKLE) -> None:
        self._read, self._write = read_fd, write_fd
        self._reads, self._writes = reads, writes
        self._open = True

    def send(self, value: Any) -> None:
        """Write one value.

        Raises:
            Closed: when the reader has gone.
        """
        data = self._writes.encode(value)
        view = memoryview(_HEADER.pack(len(data)) + data)
        try:
            while view:
                view = view[os.write(self._write, view) :]
        except ConnectionError as error:
            raise Closed from error

    def receive(self, deadline: float | None = None) -> Any:
        """Read one value, until ``deadline`` (``time.monotonic`` seconds).

        Raises:
            Closed: when the writer is gone.
            Expired: when the deadline passes first.
            Garbled: when it is no value.
        """
        (size,) = _HEADER.unpack(self._exactly(_HEADER.size, deadline))
        if self._reads.limit and size > self._reads.limit:
            raise Garbled(f"a value of {size} bytes")
        return self._reads.decode(self._exactly(size, deadline))

    def close(self) -> None:
        """Close both descriptors; closing twice is harmless."""
        if self._open:
            self._open = False
            os.close(self._read)
            os.close(self._write)

    def _exactly(self, size: int, deadline: float | None) -> bytes:
        chunks, missing = [], size
        with selectors.DefaultSelector() as selector:
            selector.register(self._read, selectors.EVENT_READ)
            while missing:
                left = None if deadline is None else max(0.0, deadline - time.monotonic())
                if not selector.select(left):
                    raise Expired
                try:
                    chunk = os.read(self._read, min(missing, 1 << 20))
                except ConnectionError as error:
                    raise Closed from error
                if not chunk:
                    raise Closed
                chunks.append(chunk)
                missing -= len(chunk)
        return b"".join(chunks)
