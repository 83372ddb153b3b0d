"""What tests ask about the processes of an embedded stack, found by the data directory in their environment."""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

Value = TypeVar("Value")


def processes(data_dir: Path) -> dict[int, str]:
    """Command lines by process id; zombies do not count.

    Redis writes its title over its environment, but it works in the data directory. A device is told no setting; its
    temporary folder is the stack's (``services.embedded.scratch``).
    """
    scratch = hashlib.sha256(os.fsencode(data_dir.resolve())).hexdigest()[:12]
    marks = (f"TUNESMITH_DATA_DIR={data_dir.absolute()}\0".encode(), f"tunesmith-{os.getuid()}-{scratch}\0".encode())
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                here = (entry / "cwd").readlink() == data_dir.absolute()
                given = (entry / "environ").read_bytes() + b"\0"
                if here or any(mark in given for mark in marks):
                    found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue
    return {pid: command for pid, command in found.items() if command}


WORDS = {
    "redis": "redis-server",
    "coordinator": "-m services.coordinator",
    "device": "workers.tvm_backend.run.rpc_server",
    "tracker": "workers.tvm_backend.run.tracker",
    "measure": "--queues measure",
    "record": "--queues record",
    "ingest": "--queues ingest",
    "train": "--queues train",
    "search": "--queues search",
}


def children(data_dir: Path, name: str) -> list[int]:
    """Processes of one child of the stack, the oldest first."""
    return sorted(pid for pid, command in processes(data_dir).items() if WORDS[name] in command)


def kill(data_dir: Path, name: str) -> list[int]:
    """End the oldest process of one child; which that was, nothing where none runs."""
    found = children(data_dir, name)[:1]
    for pid in found:
        os.kill(pid, signal.SIGKILL)
    return found


def wait_for(question: Callable[[], Value], what: str, within: float = 60.0, every: float = 0.3) -> Value:
    """The first true answer."""
    end = time.monotonic() + within
    while time.monotonic() < end:
        if answer := question():
            return answer
        time.sleep(every)
    raise AssertionError(f"not within {within:g} s: {what}")


def trials(client, job_id, wait=240.0):
    """Trials of a job so far; a server that restarts meanwhile is waited for."""
    return client.job(job_id, patience=wait).progress.trials


def more_trials(client, job_id, what, wait=240.0):
    """Wait until a job has more trials than now."""
    before = trials(client, job_id, wait)
    wait_for(lambda: trials(client, job_id, wait) > before, what, wait)


def nothing_left(data_dir: Path, within: float) -> bool:
    """True once no process of the stack is left."""
    end = time.monotonic() + within
    while processes(data_dir):
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True


def check_records(data_dir, job_id, trials):
    """Each index of each batch has one record; the default schedule is not a trial."""
    with contextlib.closing(sqlite3.connect(data_dir / "tunesmith.db")) as db:
        batches = db.execute("select id, json_array_length(candidates) from batches where job_id = ?", [job_id])
        expected = {(batch, index) for batch, size in batches for index in range(size)}
        query = 'select batch_id, "index", sketch_hash from records where job_id = ?'
        records = db.execute(query, [job_id]).fetchall()
    assert len(records) == len({row[:2] for row in records})
    assert {row[:2] for row in records} == expected
    assert sum(row[2] is not None for row in records) == trials
