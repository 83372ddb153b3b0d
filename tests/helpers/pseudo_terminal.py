"""A command in a terminal of a given width: what stands on the screen after each piece of its output."""

from __future__ import annotations

import fcntl
import itertools
import os
import pty
import select
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyte

ROWS = 60
READ = 65536
ANEW = b"\r\x1b[2K"
"""The live line goes away and is drawn again, or what stays is written in its place."""


@dataclass(frozen=True)
class Piece:
    """What came at once: when, in seconds since the start, and the bytes."""

    at: float
    data: bytes


@dataclass(frozen=True)
class Session:
    """A command that has ended in a terminal.

    Attributes:
        columns: width of the terminal.
        status: exit status.
        pieces: of output, in their order.
    """

    columns: int
    status: int
    pieces: tuple[Piece, ...]

    def screens(self) -> list[list[str]]:
        """The rows that are not empty, each time before the live line is drawn anew, and at the end."""
        screen = pyte.Screen(self.columns, ROWS)
        stream = pyte.ByteStream(screen)
        found = []
        for part in b"".join(piece.data for piece in self.pieces).split(ANEW):
            stream.feed(part)
            rows = [row.rstrip() for row in screen.display if row.strip()]
            stream.feed(ANEW)
            if rows:
                found.append(rows)
        return found

    def longest_silence(self) -> float:
        """Seconds between two pieces of output, at most."""
        times = [piece.at for piece in self.pieces]
        return max((after - before for before, after in itertools.pairwise(times)), default=0.0)


def run_in_terminal(
    command: Sequence[str | Path], columns: int, env: Mapping[str, str], within: float, cwd: Path | None = None
) -> Session:
    """Run a command as the leader of a terminal and read until it ends; it is killed after ``within`` seconds."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))
    given = {key: value for key, value in env.items() if key not in ("COLUMNS", "LINES", "NO_COLOR", "TERM")}
    process = subprocess.Popen(
        [str(word) for word in command],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=cwd,
        start_new_session=True,
        env=given | {"TERM": "xterm-256color", "LANG": "C.UTF-8"},
    )
    os.close(theirs)
    pieces, start = [], time.monotonic()
    try:
        while (left := start + within - time.monotonic()) > 0:
            if select.select([ours], [], [], left)[0]:
                try:
                    data = os.read(ours, READ)
                except OSError:  # what Linux says once the last process has let the terminal go
                    break
                pieces.append(Piece(time.monotonic() - start, data))
        session = Session(columns, process.wait(1.0) if left > 0 else 124, tuple(pieces))
        assert left > 0, f"not over after {within:g} s: {session.screens()[-1:]}"
        return session
    finally:
        process.kill()
        process.wait()
        os.close(ours)


BAR = frozenset("━╸╺")
ASCII_BAR = frozenset("-.")
"""Of a terminal without Unicode."""


def bar_faults(
    session: Session, screens: Sequence[Sequence[str]] | None = None, bar: frozenset[str] = BAR
) -> list[str]:
    """Rows that reach the last column, where a terminal would cut a word, and ``screens``, or all, without one bar."""
    everything = session.screens()
    found = [f"cut: {row}" for screen in everything for row in screen if len(row) >= session.columns]
    for screen in everything if screens is None else screens:
        bars = [row for row in screen if bar & set(row)]
        if len(bars) != 1:
            found.append(f"{len(bars)} bars: {screen}")
    return found


def words_of(screen: Sequence[str]) -> str:
    """A screen's words, wherever its rows end."""
    return " ".join(" ".join(screen).split())
