"""Candidates that are not run again: those that crashed or hung the device, and those that took the worker down."""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import time
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import BaseModel, ValidationError

from tunesmith.types import FailureKind
from workers.protocol import RunOutcome

log = logging.getLogger("tunesmith.measure")
POISONOUS = frozenset({FailureKind.CRASH, FailureKind.RUN_TIMEOUT})
STRIKES = 2
"""How often the worker may die, or lose its device, with a candidate on it before that candidate is blamed."""
MAX_ENTRIES = 1024
ENTRY_LIFE_SECONDS = 7 * 86400.0
"""After this a candidate is given another chance: its crash may have been the host's doing."""
MESSAGE_LENGTH = 300


class Poison(BaseModel):
    """What became of a candidate; ``at`` in seconds since the epoch, ``allowed``: the seconds it was given."""

    failure: FailureKind
    message: str
    allowed: float
    at: float


class Strikes(BaseModel):
    """How often a candidate was on the device when the worker or the device was lost, and when last."""

    count: int
    at: float


Entry = TypeVar("Entry", Poison, Strikes)


class Memory(BaseModel):
    """The file: both by code hash, oldest first."""

    version: Literal[1] = 1
    poison: dict[str, Poison] = {}
    strikes: dict[str, Strikes] = {}


class CrashBlocklist:
    """What a device does not run again, in a folder that outlives the worker.

    A candidate is blocked once its outcome was a crash or a hang. What is on the device is written in a journal;
    whoever was on it when a worker died or the device was lost gets a strike, a good end takes the strikes back, and
    with ``STRIKES`` of them the candidate counts as crashed. Several are struck together when they were on the device
    together, so run the ``suspected`` ones alone.

    Several workers may share the folder. An unreadable file counts as empty, and a folder that cannot be written
    costs the memory, not the measurement. Use it from one thread.

    Args:
        folder: folder for one device: what hangs one may run on another.
        clock: seconds since the epoch.
    """

    def __init__(self, folder: Path, clock: Callable[[], float] = time.time) -> None:
        self._folder, self._clock = folder, clock
        self._file = folder / "poison.json"
        self._running: dict[str, float] = {}
        with contextlib.suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
        self._memory = _read(self._file)
        if left := left_behind(folder):
            self._change(lambda memory: self._strike(memory, left))
        self._journal = Journal(folder)

    def outcome(self, code_hash: str, allowed: float = 0.0) -> RunOutcome | None:
        """The outcome of a candidate that is not to be run again, else None.

        Args:
            allowed: seconds that it may run now; one that hung is tried again when that is more than it had.
        """
        known = self._memory.poison.get(code_hash)
        if known is not None and self._fresh(known.at):
            if known.failure is FailureKind.RUN_TIMEOUT and allowed > known.allowed:
                return None
            return RunOutcome(failure=known.failure, message=f"{known.message} (remembered: not run again)")
        strikes = self._memory.strikes.get(code_hash)
        if strikes is not None and strikes.count >= STRIKES and self._fresh(strikes.at):
            return RunOutcome(
                failure=FailureKind.CRASH,
                message=f"the worker died or lost its device {strikes.count} times while this ran (not run again)",
            )
        return None

    def suspected(self, code_hash: str) -> bool:
        """True when it was on the device, perhaps among others, as the worker died or the device was lost."""
        strikes = self._memory.strikes.get(code_hash)
        return strikes is not None and self._fresh(strikes.at)

    def begin(self, code_hash: str, allowed: float = 0.0) -> None:
        """Note that a candidate goes to the device, which gives it ``allowed`` seconds."""
        if code_hash:
            self._running[code_hash] = allowed
            self._journal.write(self._running)

    def end(self, code_hash: str, outcome: RunOutcome) -> None:
        """Note what became of it."""
        allowed = self._running.pop(code_hash, 0.0)
        self._journal.write(self._running)
        if not code_hash or not (outcome.failure in POISONOUS or code_hash in self._memory.strikes):
            return

        def judge(memory: Memory) -> None:
            memory.strikes.pop(code_hash, None)
            memory.poison.pop(code_hash, None)
            if outcome.failure is not None and outcome.failure in POISONOUS:
                memory.poison[code_hash] = Poison(
                    failure=outcome.failure,
                    message=outcome.message[:MESSAGE_LENGTH],
                    allowed=allowed,
                    at=self._clock(),
                )

        self._change(judge)

    def lost(self) -> None:
        """Note that the device was lost: a strike for all that is on it."""
        running, self._running = list(self._running), {}
        if running:
            self._change(lambda memory: self._strike(memory, running))
        self._journal.write(self._running)

    def close(self) -> None:
        """The worker ends in good order: nothing is on the device."""
        self._journal.close()

    def _fresh(self, at: float) -> bool:
        return self._clock() - at < ENTRY_LIFE_SECONDS

    def _strike(self, memory: Memory, hashes: Iterable[str]) -> None:
        for code_hash in hashes:
            before = memory.strikes.pop(code_hash, None)
            count = before.count if before is not None and self._fresh(before.at) else 0
            memory.strikes[code_hash] = Strikes(count=count + 1, at=self._clock())

    def _change(self, edit: Callable[[Memory], None]) -> None:
        """Change the file, and what this process knows of it whether or not the file can be written."""
        known = self._memory
        try:
            with (self._folder / "lock").open("a") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                known = _read(self._file)
                self._memory = self._edited(known, edit)
                _replace(self._file, self._memory)
        except OSError as error:
            log.warning("what crashed is remembered until the worker ends, and no longer: %s", error)
            self._memory = self._edited(known, edit)

    def _edited(self, memory: Memory, edit: Callable[[Memory], None]) -> Memory:
        edited = memory.model_copy(deep=True)
        edit(edited)
        return Memory(poison=self._kept(edited.poison), strikes=self._kept(edited.strikes))

    def _kept(self, entries: dict[str, Entry]) -> dict[str, Entry]:
        fresh = [(code_hash, entry) for code_hash, entry in entries.items() if self._fresh(entry.at)]
        return dict(fresh[-MAX_ENTRIES:])


class Journal:
    """A file that says which code hashes are on the device now; locked as long as the process lives.

    The lock and not a process number tells the living from the dead: the kernel drops it with the process, and
    containers that share the folder have numbers of their own.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / f"running-{uuid.uuid4().hex}.json"
        self._file: int | None = None
        try:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._file, fcntl.LOCK_EX)
        except OSError as error:
            log.warning("no journal of what is on the device: %s", error)

    def write(self, running: Iterable[str]) -> None:
        """Replace the content."""
        if self._file is not None:
            data = json.dumps(list(running)).encode()
            try:
                os.ftruncate(self._file, os.pwrite(self._file, data, 0))
            except OSError as error:
                log.warning("the journal of what is on the device cannot be written: %s", error)

    def close(self) -> None:
        """Remove it; harmless the second time."""
        if self._file is not None:
            self._path.unlink(missing_ok=True)
            os.close(self._file)
            self._file = None


def left_behind(folder: Path) -> list[str]:
    """What was on the device when other workers died; their journals are removed."""
    found: list[str] = []
    for path in folder.glob("running-*.json"):
        # Locked: its worker lives. Not a list: it died while it wrote.
        with contextlib.suppress(OSError, ValueError), path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()
            found += [str(code_hash) for code_hash in json.load(file)]
    return found


def _read(path: Path) -> Memory:
    try:
        return Memory.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return Memory()
    except (OSError, ValidationError) as error:
        log.warning("what crashed before is forgotten, %s cannot be read: %s", path, error)
        return Memory()


def _replace(path: Path, content: BaseModel) -> None:
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.write_text(content.model_dump_json(), encoding="utf-8")
    os.replace(fresh, path)
