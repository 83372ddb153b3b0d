"""What a stack says of itself: to people on a terminal, or as JSON lines to the program that started it."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Union

from services.embedded.net import get_json
from tunesmith.cli.output import duration, place, rows
from tunesmith.cli.progress import shown
from tunesmith.cli.resumed import resumed
from tunesmith.states import JobState, is_final

LOG = "up.log"
"""The supervisor's own log, next to the logs of its children."""


def unfinished(url: str, key: str | None, killed: bool) -> list[dict[str, Any]]:
    """Jobs that go on where the stack before this one left them: what a message says of each."""
    answer = get_json(f"{url}/v1/jobs?limit=200", key)
    items = answer.get("items", []) if isinstance(answer, dict) else []
    return [
        {
            "id": job["id"],
            "name": job["name"],
            "trials": job["progress"]["trials"],
            "trials_budget": job["progress"]["trials_budget"],
            "killed": killed,
        }
        for job in items
        if not is_final(JobState(job["state"])) and job["state"] != JobState.PAUSED.value
    ]


class ForPeople:
    """A live line while the stack starts and stops; what stays to be read goes to standard output."""

    def __init__(self) -> None:
        self._line = contextlib.ExitStack()
        self._since = time.monotonic()
        self._folder = Path()
        self._line.enter_context(shown("starting", quiet=not sys.stderr.isatty()))

    def begin(self, names: Sequence[str], folder: Path) -> None:
        """Name what is started, and where."""
        self._folder = folder
        self._line.close()
        print(rows([("data", place(folder)), ("starts", ", ".join(names))]), flush=True)
        self._display = self._line.enter_context(shown("starting"))

    def started(self, name: str) -> None:
        """Name it on the line."""
        self._display.phase("starting", name)

    def ready(self, url: str, jobs: Sequence[dict[str, Any]]) -> None:
        """Say where it is, and what goes on."""
        self._line.close()
        after = duration(time.monotonic() - self._since)
        print(
            rows(
                [
                    ("ready", f"{url} after {after} (dashboard at /, API at /docs); Ctrl-C stops it"),
                    *(("resumed", resumed(job)) for job in jobs),
                    ("join", f"tunesmith worker --join {place(self._folder)}"),
                ]
            ),
            flush=True,
        )

    def stopping(self) -> None:
        """Show that it takes a moment."""
        self._line.close()
        self._line.enter_context(shown("stopping"))

    def close(self) -> None:
        """End the line."""
        self._line.close()


class ForPrograms:
    """JSON lines on standard output; what else is said goes to a log in the data folder.

    Args:
        steps: tell the start of each process, too; otherwise one line says that the stack is ready.
        detached: nobody listens once it is ready.
    """

    def __init__(self, steps: bool, detached: bool) -> None:
        self._steps, self._detached = steps, detached
        self._folder, self._logs = Path(), False

    def begin(self, names: Sequence[str], folder: Path) -> None:
        """Have standard error in the log, where somebody else has the terminal."""
        self._folder = folder
        if self._steps:
            (folder / "logs").mkdir(exist_ok=True)
            log = os.open(folder / "logs" / LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            os.dup2(log, sys.stderr.fileno())
            os.close(log)
            self._logs = True
        self._note(f"process {os.getpid()} starts {', '.join(names)}")

    def started(self, name: str) -> None:
        """Name it."""
        if self._steps:
            print(json.dumps({"starting": name}), flush=True)

    def ready(self, url: str, jobs: Sequence[dict[str, Any]]) -> None:
        """Say where it is, and what goes on."""
        body = {"url": url, "pid": os.getpid(), "data_dir": str(self._folder), "resumed": list(jobs)}
        print(json.dumps(body), flush=True)
        self._note(f"up at {url}")
        if self._detached:
            os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def stopping(self) -> None:
        """Note it."""
        self._note("stopping")

    def close(self) -> None:
        """Note it."""
        self._note("ended")

    def _note(self, text: str) -> None:
        if self._logs:
            print(f"{time.strftime('%Y-%m-%dT%H:%M:%S%z')} {text}", file=sys.stderr, flush=True)


Announcer = Union[ForPeople, ForPrograms]
"""Told by ``up`` what happens."""
