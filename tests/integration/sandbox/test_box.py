"""Hostile code, really run, in the boxes that imports and candidates run in."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import hostile
import pytest
from process_probe import CHILD_ENV, gone

from tunesmith.errors import MissingDependency
from workers.sandbox.box import probe
from workers.sandbox.box.base import Limits, without
from workers.sandbox.boxed import BadOutput, Boxes, sweep
from workers.sandbox.environment import scrubbed
from workers.sandbox.pool import Actor
from workers.sandbox.process import ChildCrashed, ChildGarbled, ChildTimeout

pytestmark = pytest.mark.parallel
HELPERS = Path(hostile.__file__).parent
ORDINARY = 54321
LONG = 60.0
MIB = 1 << 20
LIMITS = Limits(memory=512 * MIB, file_bytes=MIB)
SEEN_WITHOUT_WALLS = {
    "list",
    "write",
    "environ",
    "maps",
    "fds",
    "kill parent",
    "unix",
    "abstract",
    "packets",
    "pair with oneself",
    "fork",
}
DRIVER = {"name a thread", "listen", "memory file"}
"""What CUDA's driver does when it starts: without any of it there is no GPU, only "error 304"."""


def attacked(walls: str, folder: Path, user: int, *devices: str) -> dict[str, str]:
    """What came of every attack from a box of ``walls`` around a process of ``user``, and of what drivers do."""
    command = [sys.executable, str(HELPERS / "hostile.py"), walls, str(folder), *devices]
    if user and os.geteuid() == 0:
        command = [sys.executable, str(HELPERS / "as_user.py"), str(user), *command]
        os.chown(folder, user, user)
        folder.chmod(0o755)
        for parent in folder.parents:
            if not parent.stat().st_mode & 0o001:  # pytest's own, as many as it makes
                parent.chmod(0o711)
    env = {**scrubbed(os.environ), **CHILD_ENV}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=LONG, check=True)
    said = folder / "box" / ".stderr"
    assert done.stdout.strip(), said.read_text() if said.exists() else done.stderr
    return dict(json.loads(done.stdout))


@pytest.mark.parametrize("user", [os.geteuid(), ORDINARY])
@pytest.mark.parametrize("walls", ["namespaces", "landlock", "namespaces+landlock"])
def test_each_wall_alone_keeps_everything_out_of_reach(walls: str, user: int, tmp_path: Path) -> None:
    found = attacked(walls, tmp_path, user)
    assert {name for name, came in found.items() if came == hostile.REACHED} == set()
    assert {"mem", "ptrace", "udp", "io_uring", "become root"} <= set(found)


@pytest.mark.parametrize("user", [os.geteuid(), ORDINARY])
@pytest.mark.parametrize("walls", ["namespaces", "landlock", "namespaces+landlock"])
def test_a_box_with_a_gpu_lets_its_driver_start_and_keeps_the_rest(walls: str, user: int, tmp_path: Path) -> None:
    found = attacked(walls, tmp_path, user, "/dev/tty")
    assert {name for name, came in found.items() if came == hostile.REACHED} == DRIVER


def test_the_same_attacks_reach_their_goal_without_walls(tmp_path: Path) -> None:
    found = attacked("", tmp_path, os.geteuid())
    reached = {name for name, came in found.items() if came == hostile.REACHED}
    assert reached >= SEEN_WITHOUT_WALLS
    assert sum(name.startswith(("read ", "connect ")) for name in reached) == 5


@pytest.fixture(scope="module")
def boxes() -> Iterator[Boxes]:
    made = Boxes(Actor("hostile:Hostile", env=CHILD_ENV), probe.choose(trust=False))
    yield made
    made.close()


def test_a_box_of_a_template_keeps_its_promises_too(boxes: Boxes, tmp_path: Path) -> None:
    with hostile.prey(tmp_path) as prey, boxes.open(LIMITS) as box:
        found = box.call("attack", hostile.as_json(prey), timeout=LONG)
    assert {name for name, came in found.items() if came == hostile.REACHED} == set()
    assert not box.folder.exists()


@pytest.mark.parametrize("method", ["allocate", "share"])
def test_memory_is_limited_shared_or_not(boxes: Boxes, method: str) -> None:
    with boxes.open(LIMITS) as box:
        assert "Error" in box.call(method, 4 << 30, timeout=LONG)
        assert box.call(method, MIB, timeout=LONG) == hostile.REACHED


def test_processor_time_is_limited_whatever_is_done_about_the_signal(boxes: Boxes) -> None:
    with boxes.open(Limits(cpu_seconds=1)) as box, pytest.raises(ChildCrashed, match="SIGKILL") as caught:
        box.call("spin", timeout=LONG)
    assert caught.value.end.cpu >= 0.5  # the limit counts ticks, on a busy machine more of them than there was work


def test_waiting_is_limited_and_ends_the_process(boxes: Boxes) -> None:
    with boxes.open(LIMITS) as box:
        box.call("allocate", 1, timeout=LONG)
        pid = box.pid
        with pytest.raises(ChildTimeout):
            box.call("stay", timeout=0.2)
        assert gone(pid)


@pytest.mark.parametrize("dead", [False, True], ids=["at the next call", "before it"])
def test_a_killed_box_is_noticed_at_once(boxes: Boxes, dead: bool) -> None:
    with boxes.open(LIMITS) as box:
        box.call("allocate", 1, timeout=LONG)
        ended = os.pidfd_open(box.pid)
        os.kill(box.pid, signal.SIGKILL)
        if dead:
            assert select.select([ended], [], [], LONG)[0]
        os.close(ended)
        with pytest.raises(ChildCrashed, match="SIGKILL"):
            box.call("stay", timeout=LONG)


def test_files_are_limited(boxes: Boxes) -> None:
    with boxes.open(LIMITS) as box:
        assert "File too large" in box.call("fill", 2 * MIB, timeout=LONG)


def test_no_pickle_of_a_box_is_read(boxes: Boxes) -> None:
    with boxes.open(LIMITS) as box, pytest.raises(ChildGarbled):
        box.call("lie", timeout=LONG)


def test_outputs_are_plain_files_of_bounded_size(boxes: Boxes) -> None:
    with boxes.open(LIMITS) as box:
        assert box.call("leave", timeout=LONG) == str(box.folder)
        with box.output("note", 100) as file:
            assert file.read() == b"made here"
        for name, most in (("note", 3), ("link", 10**6), ("pipe", 100), ("none", 100), ("../note", 100), (".", 100)):
            with pytest.raises(BadOutput), box.output(name, most):
                pass


def test_what_a_killed_process_left_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    left, live, other = (tmp_path / f"tunesmith-box-{name}" for name in (f"{child.pid}-a", f"{os.getpid()}-b", "c"))
    for folder in (left, live, other):
        (folder / "deep").mkdir(parents=True)
    (left / "deep").chmod(0)
    sweep()
    assert [each.exists() for each in (left, live, other)] == [False, True, True]


def test_boxes_do_not_share_their_user_where_they_can_choose(boxes: Boxes) -> None:
    with boxes.open(LIMITS) as one, boxes.open(LIMITS) as two:
        users = [each.call("user", timeout=LONG) for each in (one, two)]
    separate = os.geteuid() == 0 and "namespaces" in probe.choose(trust=True)
    assert len(set(users)) == (2 if separate else 1)
    assert 0 not in users or not separate


def test_where_nothing_is_offered_trust_must_be_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "probe", lambda: {"namespaces": "not permitted", "landlock": "not there"})
    with pytest.raises(MissingDependency, match=r"not permitted.*TUNESMITH_TRUST_MODELS=1"):
        probe.choose(trust=False)
    assert probe.choose(trust=True) == ()


def test_hidden_folders_are_left_out_of_what_is_shown(tmp_path: Path) -> None:
    for name in ("a/secret/key", "a/b/open", "a/secrets"):
        (tmp_path / name).mkdir(parents=True)
    hidden = (tmp_path / "a/secret", tmp_path / "elsewhere")
    assert list(without(tmp_path, hidden)) == [tmp_path / "a/b", tmp_path / "a/secrets"]
    assert list(without(tmp_path / "a/b", hidden)) == [tmp_path / "a/b"]
    assert list(without(tmp_path / "a/secret", hidden)) == []


def test_secrets_leave_the_environment() -> None:
    given = {"PATH": "/bin", "OMP_NUM_THREADS": "1", "TUNESMITH_ADMIN_KEY": "k", "PGPASSWORD": "p", "AWS_KEY": "a"}
    assert scrubbed(given) == {"PATH": "/bin", "OMP_NUM_THREADS": "1"}
    assert "TUNESMITH_ADMIN_KEY" in scrubbed(given, "TUNESMITH_ADMIN_KEY")
