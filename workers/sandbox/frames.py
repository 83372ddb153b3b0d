"""Length-prefixed pickles over a pair of pipes or over a socket, between a process and its own children."""

from __future__ import annotations

import os
import pickle
import selectors
import struct
import time
from typing import Any

_HEADER = struct.Struct("<Q")


class Closed(Exception):
    """The other side is gone."""


class Expired(Exception):
    """Nothing complete came before the deadline."""


class Channel:
    """One end: reads frames from one descriptor and writes frames to the other. Not thread-safe."""

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self._read, self._write = read_fd, write_fd
        self._open = True

    def send(self, value: Any) -> None:
        """Write one value.

        Raises:
            Closed: when nobody reads any more.
        """
        data = pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
        view = memoryview(_HEADER.pack(len(data)) + data)
        try:
            while view:
                view = view[os.write(self._write, view):]
        except ConnectionError as error:
            raise Closed from error

    def receive(self, deadline: float | None = None) -> Any:
        """Read one value, until ``deadline`` (``time.monotonic`` seconds).

        Raises:
            Closed: when the writer is gone.
            Expired: when the deadline passes first.
        """
        (size,) = _HEADER.unpack(self._exactly(_HEADER.size, deadline))
        return pickle.loads(self._exactly(size, deadline))

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
