from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from process_probe import CHILD_ENV

from tunesmith.types import FailureKind
from workers.measure import crash_blocklist
from workers.measure.crash_blocklist import ENTRY_LIFE_SECONDS, CrashBlocklist
from workers.protocol import RunOutcome

CRASH = RunOutcome(failure=FailureKind.CRASH, message="the session's process died")
HANG = RunOutcome(failure=FailureKind.RUN_TIMEOUT, message="killed when its time was over")
GOOD = RunOutcome((0.001,))
DIES = """
import os, sys
from pathlib import Path
from workers.measure.crash_blocklist import CrashBlocklist
book = CrashBlocklist(Path(sys.argv[1]))
for name in sys.argv[2:]:
    book.begin(name)
os.kill(os.getpid(), 9)
"""


def run(book: CrashBlocklist, code_hash: str, outcome: RunOutcome, allowed: float = 0.0) -> None:
    book.begin(code_hash, allowed)
    book.end(code_hash, outcome)


def dies(folder: Path, *hashes: str) -> None:
    """A worker that is killed with these on the device."""
    done = subprocess.run(
        [sys.executable, "-c", DIES, str(folder), *hashes], env={**os.environ, **CHILD_ENV}, timeout=60, check=False
    )
    assert done.returncode == -9


@pytest.mark.parametrize("outcome", [CRASH, HANG])
def test_crash_and_hang_are_not_run_again_nor_after_a_restart(tmp_path: Path, outcome: RunOutcome) -> None:
    run(CrashBlocklist(tmp_path), "bad", outcome)
    book = CrashBlocklist(tmp_path)
    known = book.outcome("bad")
    assert known is not None
    assert (known.failure, known.samples) == (outcome.failure, ())
    assert outcome.message in known.message
    assert "not run again" in known.message
    assert book.outcome("other") is None


@pytest.mark.parametrize(
    "outcome", [GOOD, RunOutcome(failure=FailureKind.RUN_ERROR), RunOutcome(failure=FailureKind.IMPLAUSIBLE)]
)
def test_other_outcomes_are_not_remembered(tmp_path: Path, outcome: RunOutcome) -> None:
    book = CrashBlocklist(tmp_path)
    run(book, "fine", outcome)
    assert book.outcome("fine") is None


def test_hang_is_tried_again_with_more_time(tmp_path: Path) -> None:
    book = CrashBlocklist(tmp_path)
    run(book, "slow", HANG, allowed=2.0)
    assert book.outcome("slow", allowed=2.0) is not None
    assert book.outcome("slow", allowed=10.0) is None
    run(book, "slow", GOOD, allowed=10.0)


def test_who_takes_the_worker_down_twice_has_crashed(tmp_path: Path) -> None:
    dies(tmp_path, "killer", "neighbour")
    book = CrashBlocklist(tmp_path)
    assert book.suspected("killer")
    assert book.suspected("neighbour")
    assert book.outcome("killer") is None
    run(book, "neighbour", GOOD)
    assert not book.suspected("neighbour")
    del book
    dies(tmp_path, "killer")
    book = CrashBlocklist(tmp_path)
    known = book.outcome("killer")
    assert known is not None
    assert known.failure is FailureKind.CRASH
    assert book.outcome("neighbour") is None


def test_journal_of_a_living_worker_is_left_alone(tmp_path: Path) -> None:
    living = CrashBlocklist(tmp_path)
    living.begin("candidate")
    assert not CrashBlocklist(tmp_path).suspected("candidate")
    living.end("candidate", GOOD)
    assert not CrashBlocklist(tmp_path).suspected("candidate")
    living.close()
    assert len(list(tmp_path.glob("running-*"))) == 2


def test_device_that_is_lost_twice_with_one_candidate_on_it(tmp_path: Path) -> None:
    book = CrashBlocklist(tmp_path)
    for _ in range(crash_blocklist.STRIKES):
        assert book.outcome("killer") is None
        book.begin("killer")
        book.lost()
    known = book.outcome("killer")
    assert known is not None
    assert known.failure is FailureKind.CRASH
    dies(tmp_path)  # nothing was on the device: nobody is suspected
    assert not CrashBlocklist(tmp_path).suspected("other")


def test_memory_is_bounded_and_fades(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crash_blocklist, "MAX_ENTRIES", 3)
    now = 0.0
    book = CrashBlocklist(tmp_path, clock=lambda: now)
    for i in range(5):
        run(book, str(i), CRASH)
    assert [i for i in range(5) if book.outcome(str(i))] == [2, 3, 4]
    now = ENTRY_LIFE_SECONDS + 1
    assert book.outcome("4") is None
    run(book, "new", CRASH)
    assert list(json.loads((tmp_path / "poison.json").read_text())["poison"]) == ["new"]


def test_workers_of_one_folder_add_to_each_other(tmp_path: Path) -> None:
    first, second = CrashBlocklist(tmp_path), CrashBlocklist(tmp_path)
    run(first, "a", CRASH)
    run(second, "b", CRASH)
    book = CrashBlocklist(tmp_path)
    assert book.outcome("a")
    assert book.outcome("b")


@pytest.mark.parametrize("content", [b"", b"{", b'{"version": 2}', b'{"version": 1, "poison": {"a": 1}}', b"\xff"])
def test_unreadable_file_counts_as_empty(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "poison.json").write_bytes(content)
    (tmp_path / "running-1.json").write_bytes(content)
    book = CrashBlocklist(tmp_path)
    assert book.outcome("a") is None
    run(book, "a", CRASH)
    assert CrashBlocklist(tmp_path).outcome("a")


def test_folder_that_cannot_be_made_costs_the_file_only(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    book = CrashBlocklist(tmp_path / "file" / "folder")
    run(book, "a", CRASH)
    assert book.outcome("a")
    assert book.outcome("b") is None
