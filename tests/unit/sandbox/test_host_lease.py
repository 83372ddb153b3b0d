from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tunesmith.host import default_lease_path
from workers.sandbox.lease import HostLease

WAIT = 30.0


def start(action: object) -> threading.Thread:
    thread = threading.Thread(target=action, daemon=True)  # type: ignore[arg-type]
    thread.start()
    return thread


@pytest.fixture
def lease(tmp_path: Path) -> HostLease:
    return HostLease(tmp_path / "folder" / "host.lease")


def test_shared_holders_hold_together(lease: HostLease) -> None:
    together = threading.Barrier(2, timeout=WAIT)

    def hold() -> None:
        with lease.shared():
            together.wait()

    thread = start(hold)
    with lease.shared():
        together.wait()
    thread.join(WAIT)


def test_exclusive_holder_is_alone(lease: HostLease) -> None:
    entered = threading.Event()

    def enter() -> None:
        with lease.shared():
            entered.set()

    with lease.exclusive():
        thread = start(enter)
        assert not entered.wait(0.2)
    assert entered.wait(WAIT)
    thread.join(WAIT)


def test_waiting_exclusive_holder_is_served_before_later_shared_ones(lease: HostLease) -> None:
    order: list[str] = []
    waiting, release = threading.Event(), threading.Event()

    def first() -> None:
        with lease.shared():
            waiting.set()
            release.wait(WAIT)

    def runner() -> None:
        with lease.exclusive():
            order.append("exclusive")

    def late() -> None:
        with lease.shared():
            order.append("shared")

    threads = [start(first)]
    assert waiting.wait(WAIT)
    threads.append(start(runner))
    wait_for_lock(lease.path.with_name(lease.path.name + ".turn"))
    threads += [start(late) for _ in range(3)]
    threads[-1].join(0.2)
    assert order == []
    release.set()
    for thread in threads:
        thread.join(WAIT)
    assert order == ["exclusive", "shared", "shared", "shared"]


def wait_for_lock(path: Path) -> None:
    """Until somebody holds an exclusive lock on ``path``."""
    import fcntl

    for _ in range(3000):
        with open(path, "a", encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return
        threading.Event().wait(0.01)
    raise AssertionError("nobody took the lock")


def test_limit_gives_the_lease_up_while_the_block_still_runs(lease: HostLease) -> None:
    entered = threading.Event()

    def enter() -> None:
        with lease.exclusive():
            entered.set()

    with lease.exclusive(limit=0.05):
        thread = start(enter)
        assert entered.wait(WAIT)
    thread.join(WAIT)


@pytest.mark.parametrize("mode", ["shared", "exclusive"])
def test_killed_holder_frees_the_lease(lease: HostLease, mode: str) -> None:
    script = (
        "import sys, time\nfrom workers.sandbox.lease import HostLease\n"
        f"with HostLease(sys.argv[1]).{mode}():\n    print('held', flush=True)\n    time.sleep(600)\n"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", script, str(lease.path)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    entered = threading.Event()

    def enter() -> None:
        with lease.exclusive():
            entered.set()

    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        thread = start(enter)
        assert not entered.wait(0.2)
    finally:
        holder.kill()
        holder.communicate(timeout=WAIT)
    assert entered.wait(WAIT)
    thread.join(WAIT)


def test_default_path_follows_the_setting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TUNESMITH_LEASE_FILE", raising=False)
    assert default_lease_path().name == f"tunesmith-{os.getuid()}.lease"
    monkeypatch.setenv("TUNESMITH_LEASE_FILE", str(tmp_path / "x"))
    assert default_lease_path() == tmp_path / "x"


def test_work_stays_off_reserved_cores_until_they_are_given_back(lease: HostLease) -> None:
    everything = os.sched_getaffinity(0)
    reserved = frozenset(sorted(everything)[-1:])
    try:
        with lease.reserve(reserved):
            assert lease.reserved() == reserved
            with lease.shared():
                assert os.sched_getaffinity(0) == (everything - reserved or everything)
            os.sched_setaffinity(0, everything)
            with lease.shared(move=False):
                assert os.sched_getaffinity(0) == everything
        assert lease.reserved() == frozenset()
        with lease.shared():
            assert os.sched_getaffinity(0) == everything
    finally:
        os.sched_setaffinity(0, everything)


def test_reservation_of_a_dead_process_counts_for_nothing(lease: HostLease) -> None:
    code = (
        "import sys, os\nfrom workers.sandbox.lease import HostLease\n"
        "with HostLease(sys.argv[1]).reserve(frozenset({0})):\n    print('held', flush=True)\n    sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(lease.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline().strip() == "held"
        assert lease.reserved() == frozenset({0})
        other.kill()
        other.wait(WAIT)
    assert lease.reserved() == frozenset()
    assert list(lease.path.parent.glob("*.cores-*")) == []
