"""What workers log, as operators may read it: lines that are bounded in number, length and time, without secrets.

A core worker writes its lines to the broker. A measure worker, who may only push reports there, sends them with its
heartbeats, and who takes those in writes them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, Final, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

Level = Literal["debug", "info", "warning", "error", "critical"]
LEVELS: Final[tuple[Level, ...]] = get_args(Level)
TEXT_CHARACTERS: Final = 2000
LINES_AT_ONCE: Final = 100
"""Lines of one heartbeat."""
KEPT_LINES: Final = {"told": 400, "warned": 200}
"""Lines of a worker that the broker keeps: the newest of those below a warning, and of the others. So what is told
all the time pushes no warning out."""
KEPT_SECONDS: Final = 24 * 3600
"""A log that nothing was added to for so long is forgotten."""
KEPT_LOGS: Final = 256
"""Logs that are kept, those that were added to last."""
NAMES: Final = "log"
"""The broker's sorted set of logs, by when something was added to them."""
MIDDLE: Final = "\n[...]\n"


class LogLine(BaseModel):
    """One line. ``at``: seconds since 1970, by the worker's clock; ``process``: who wrote it."""

    model_config = ConfigDict(frozen=True)
    at: float = Field(ge=0, lt=1e11)
    level: Level
    logger: Annotated[str, StringConstraints(max_length=100)]
    process: int = Field(ge=0, lt=1 << 32)
    text: Annotated[str, StringConstraints(max_length=TEXT_CHARACTERS)]


def of_device(device: str) -> str:
    """Name of the log of a device's worker; that of its next life is the same."""
    return f"device.{device}"


def of_node(node: str) -> str | None:
    """Name of a core worker's log by its name at the broker, such as ``search-417@host``.

    Those before it and next to it have the same. None where that is no such name.
    """
    found = re.fullmatch(r"(.+?)(?:-\d+)?@(.+)", node, re.DOTALL)
    return f"core.{found[1]}@{found[2]}" if found else None


def lists(log: str) -> dict[str, int]:
    """The broker's lists of a log, newest line first, with how many lines each keeps."""
    return {f"{NAMES}.{kind}.{log}": most for kind, most in KEPT_LINES.items()}


def split(log: str, lines: Iterable[LogLine]) -> dict[str, list[LogLine]]:
    """Lines by the list that each goes to, oldest first; without lists that get none."""
    told, warned = lists(log)
    found: dict[str, list[LogLine]] = {}
    for line in lines:
        found.setdefault(warned if LEVELS.index(line.level) >= LEVELS.index("warning") else told, []).append(line)
    return found


def shortened(text: str) -> str:
    """A text that is no longer than a line's may be: its beginning, and more of its end, where a traceback says why."""
    if len(text) <= TEXT_CHARACTERS:
        return text
    head = TEXT_CHARACTERS // 4
    return text[:head] + MIDDLE + text[head + len(MIDDLE) - TEXT_CHARACTERS :]
