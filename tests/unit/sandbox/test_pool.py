from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from process_probe import CHILD_ENV, gone

from workers.sandbox.pool import Actor, ChildCrashed, ChildRaised, ChildTimeout, Pool

WORKER = Actor("sandbox_actors:Worker", env=CHILD_ENV)
LONG = 60.0


def until(condition: Callable[[], bool]) -> None:
    """Wait until ``condition`` holds, at most half a minute."""
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def pool() -> Iterator[Pool]:
    with Pool(WORKER, 1) as made:
        yield made


def test_object_stays_warm_between_requests(pool: Pool) -> None:
    assert [pool.call("double", n, timeout=LONG) for n in range(3)] == [0, 2, 4]
    assert pool.call("calls", timeout=LONG) == 3


def test_arguments_of_the_factory_reach_it() -> None:
    with Pool(Actor("sandbox_actors:Worker", (10,), env=CHILD_ENV), 1) as pool:
        assert pool.call("double", 4, timeout=LONG) == 40


def test_large_messages_pass_both_ways(pool: Pool) -> None:
    data = bytes(range(256)) * 20_000
    assert pool.call("echo", data, timeout=LONG) == data


@pytest.mark.parametrize(("method", "how"), [("crash", "SIGSEGV"), ("leave", "exit code 7")])
def test_crash_costs_one_request_and_the_process_is_replaced(pool: Pool, method: str, how: str) -> None:
    before = pool.call("pid", timeout=LONG)
    futures = [pool.submit(method, timeout=LONG), pool.submit("double", 21, timeout=LONG)]
    with pytest.raises(ChildCrashed, match=how):
        futures[0].result(LONG)
    assert futures[1].result(LONG) == 42
    assert pool.call("pid", timeout=LONG) != before


def test_hang_costs_one_request_and_the_process_is_replaced(pool: Pool) -> None:
    before = pool.call("pid", timeout=LONG)
    hanging, after = pool.submit("hang", timeout=0.3), pool.submit("pid", timeout=LONG)
    with pytest.raises(ChildTimeout, match=r"0\.3 s"):
        hanging.result(LONG)
    assert after.result(LONG) != before
    assert gone(before)


def test_a_timeout_takes_grandchildren_along(pool: Pool, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    pool.call("pid", timeout=LONG)
    with pytest.raises(ChildTimeout):
        pool.call("hang_with_child", str(note), timeout=2.0)
    assert gone(int(note.read_text()))


def test_exceptions_come_back_and_the_process_lives_on(pool: Pool) -> None:
    before = pool.call("pid", timeout=LONG)
    with pytest.raises(ChildRaised, match="not today") as caught:
        pool.call("refuse", timeout=LONG)
    assert caught.value.kind == "builtins.ValueError"
    with pytest.raises(ChildRaised):
        pool.call("unsendable", timeout=LONG)
    assert pool.call("pid", timeout=LONG) == before


def test_factory_that_fails_is_reported_on_every_request() -> None:
    with Pool(Actor("sandbox_actors:Broken", env=CHILD_ENV), 1) as pool:
        for _ in range(2):
            with pytest.raises(ChildRaised, match="broken on purpose"):
                pool.call("anything", timeout=LONG)
        assert pool.pids == []


def test_factory_that_crashes_is_told_of_with_its_signal() -> None:
    with (
        Pool(Actor("sandbox_actors:Crashing", env=CHILD_ENV), 1) as pool,
        pytest.raises(ChildCrashed, match="SIGSEGV"),
    ):
        pool.call("anything", timeout=LONG)


def test_the_object_is_made_once_and_children_have_copies(pool: Pool) -> None:
    pool.call("double", 1, timeout=LONG)
    maker, first = pool.call("maker", timeout=LONG), pool.call("pid", timeout=LONG)
    with pytest.raises(ChildCrashed):
        pool.call("crash", timeout=LONG)
    assert pool.call("maker", timeout=LONG) == maker != first
    assert pool.call("calls", timeout=LONG) == 0


def test_a_template_that_dies_takes_its_children_along_and_is_replaced() -> None:
    with Pool(WORKER, 2) as pool:
        hanging = pool.submit("hang", timeout=LONG)
        maker = pool.call("maker", timeout=LONG)
        until(hanging.running)
        until(lambda: len(pool.pids) == 2)
        os.kill(maker, signal.SIGKILL)
        with pytest.raises(ChildCrashed, match="SIGKILL"):
            hanging.result(LONG)
        until(lambda: not pool.pids)
        assert pool.call("maker", timeout=LONG) != maker
    assert gone(maker)


def test_two_processes_share_the_work() -> None:
    with Pool(WORKER, 2) as pool:
        blocked = pool.submit("hang", timeout=LONG)
        assert pool.call("double", 1, timeout=LONG) == 2
        until(blocked.running)
        until(lambda: len(pool.pids) == 2)
        pool.kill()
        with pytest.raises(ChildCrashed):
            blocked.result(LONG)


def test_close_ends_children_and_cancels_what_is_queued() -> None:
    pool = Pool(WORKER, 1)
    pid = pool.call("pid", timeout=LONG)
    running, queued = pool.submit("hang", timeout=LONG), pool.submit("double", 1, timeout=LONG)
    until(running.running)
    pool.close()
    assert gone(pid)
    with pytest.raises(ChildCrashed):
        running.result(LONG)
    assert queued.cancelled()
    with pytest.raises(RuntimeError, match="closed"):
        pool.submit("double", 1, timeout=LONG)


def test_children_die_with_a_parent_that_is_killed() -> None:
    script = (
        "import sys\n"
        "from workers.sandbox.pool import Actor, Pool\n"
        "pool = Pool(Actor('sandbox_actors:Worker'), 2)\n"
        "futures = [pool.submit('hang', timeout=600) for _ in range(2)]\n"
        "import time\n"
        "while len(pool.pids) < 2: time.sleep(0.01)\n"
        "print(*pool.pids, flush=True)\n"
        "futures[0].result()\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", script], env={**os.environ, **CHILD_ENV}, stdout=subprocess.PIPE, text=True
    )
    try:
        assert parent.stdout is not None
        pids = [int(word) for word in parent.stdout.readline().split()]
        assert len(pids) == 2
    finally:
        parent.kill()
        parent.communicate(timeout=30)
    assert all(gone(pid) for pid in pids)
