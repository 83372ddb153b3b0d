"""``tunesmith status`` and ``tunesmith down``: of the stack that holds a data folder, detached or not."""

from __future__ import annotations

import os
import select
import signal
from pathlib import Path
from typing import Annotated, Any

import typer

from tunesmith.cli.options import Json, Key
from tunesmith.cli.output import emit, place, rows
from tunesmith.errors import StackFailed

DataDir = Annotated[Path, typer.Option(help="Data folder of the stack.", envvar="TUNESMITH_DATA_DIR")]
DEFAULT_DIR = Path(".tunesmith")
LAST_WAIT = 10.0
"""Seconds for the end of a process that was killed."""


def status(data_dir: DataDir = DEFAULT_DIR, as_json: Json = False, key: Key = None) -> None:
    """Show whether and where a stack runs on a data folder; exits with 0 only when it is ready."""
    from services.embedded.lock import look
    from tunesmith.data_folder import resolve

    folder = resolve(data_dir)
    found = look(folder)
    body: dict[str, Any] = {"state": "stopped", "url": None, "pid": None, "data_dir": str(folder), "jobs": None}
    if found is not None and not found.alive:
        body["state"] = "killed"
    elif found is not None:
        body.update(_asked(found.url, key), url=found.url, pid=found.pid)
    emit(body, rows(_rows(body)), as_json)
    if body["state"] != "ready":
        raise typer.Exit(1)


def _asked(url: str, key: str | None) -> dict[str, Any]:
    """What the coordinator itself says; ``jobs`` is None where it wants another key."""
    from services.embedded.announce import unfinished
    from services.embedded.commands import is_ready
    from services.embedded.net import get_json

    # Without its key only the coordinator can be asked, and not for its devices.
    ready = is_ready(url, key) or (get_json(f"{url}/v1/devices", key) is None and get_json(f"{url}/readyz") is not None)
    seen = ready and get_json(f"{url}/v1/jobs?limit=1", key) is not None
    return {"state": "ready" if ready else "starting", "jobs": len(unfinished(url, key, False)) if seen else None}


def _rows(body: dict[str, Any]) -> list[tuple[str, str]]:
    said = {
        "stopped": "no stack runs here",
        "killed": "no stack runs here: the last one was killed and left its lock; 'tunesmith up' resumes its jobs",
    }.get(body["state"], str(body["url"]))
    found = [(body["state"], said), ("data", place(body["data_dir"]))]
    if body["pid"] is not None:
        found.append(("process", str(body["pid"])))
    if body["jobs"] is not None:
        found.append(("jobs", f"{body['jobs']} unfinished"))
    return found


def down(
    data_dir: DataDir = DEFAULT_DIR,
    timeout: Annotated[
        float, typer.Option(min=0.0, help="Seconds to wait for an orderly stop before killing it.")
    ] = 30.0,
    as_json: Json = False,
) -> None:
    """Stop the stack on a data folder and all its processes; the next one resumes its jobs."""
    from services.embedded.lock import look
    from tunesmith.cli.progress import shown
    from tunesmith.data_folder import resolve

    folder = resolve(data_dir)
    found = look(folder)
    body: dict[str, Any] = {"stopped": False, "killed": False, "pid": None, "data_dir": str(folder)}
    if found is None or not found.alive:
        stale = "; the last one was killed and left its lock" if found is not None else ""
        emit(body, rows([("stopped", f"no stack runs here{stale}"), ("data", place(folder))]), as_json)
        return
    with shown("stopping", as_json):
        killed = _end(found.pid, timeout)
    body.update(stopped=True, killed=killed, pid=found.pid)
    how = ("killed", f"process {found.pid}, after {timeout:g} s") if killed else ("stopped", f"process {found.pid}")
    emit(body, rows([how, ("data", place(folder))]), as_json)


def _end(pid: int, timeout: float) -> bool:
    """Ask a supervisor to end and wait for that; True when it had to be killed.

    The children end before it does, or die with it.

    Raises:
        StackFailed: another user's process, or one that does not even die.
    """
    try:
        process = os.pidfd_open(pid)  # stays with this process, should its id be given to another
    except ProcessLookupError:
        return False
    try:
        for number, wait in ((signal.SIGTERM, timeout), (signal.SIGKILL, LAST_WAIT)):
            signal.pidfd_send_signal(process, number)
            if select.select([process], [], [], wait)[0]:
                return number is signal.SIGKILL
    except ProcessLookupError:
        return False
    except PermissionError as error:
        raise StackFailed(f"process {pid} belongs to another user: stop it as that user") from error
    finally:
        os.close(process)
    raise StackFailed(f"process {pid} has not ended {LAST_WAIT:g} s after it was killed")
