from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from benchmarks.harness.processes import Tree

# A child that starts a grandchild in a session of its own and ends at once: the orphan is nobody's child.
ORPHAN = """
import os, pathlib, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    pathlib.Path(sys.argv[1]).write_text(str(os.getpid()))
    time.sleep(600)
else:
    os.wait()
    time.sleep(0 if sys.argv[2] == "ends" else 600)
"""


def written(path: Path, within: float = 20.0) -> int:
    end = time.monotonic() + within
    while time.monotonic() < end:
        if path.exists() and (text := path.read_text()):
            return int(text)
        time.sleep(0.01)
    raise AssertionError("the grandchild did not start")


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def orphan(tmp_path: Path, how: str) -> Tree:
    command = [sys.executable, "-c", ORPHAN, str(tmp_path / "pid"), how]
    return Tree(command, log=tmp_path / "log", folder=tmp_path)


def test_nothing_of_a_tree_is_left_orphans_included(tmp_path):
    tree = orphan(tmp_path, "stays")
    with tree:
        pid = written(tmp_path / "pid")
        assert alive(pid)
        assert pid in tree.members()
        assert tree.poll() is None
    assert tree.members() == []
    assert not alive(pid)


def test_orphans_of_a_command_that_has_ended_are_found(tmp_path):
    tree = orphan(tmp_path, "ends")
    with tree:
        pid = written(tmp_path / "pid")
        assert tree.wait(20.0) == 0
        assert tree.members() == [pid]
    assert not alive(pid)


def test_an_error_in_the_block_ends_the_tree_too(tmp_path):
    tree = orphan(tmp_path, "stays")
    try:
        with tree:
            pid = written(tmp_path / "pid")
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        assert not alive(pid)


def test_a_command_that_starts_anew_without_its_environment_is_ended(tmp_path):
    anew = "import os, sys; os.execve(sys.executable, [sys.executable, '-c', sys.argv[1]], {})"
    then = "import os, pathlib, sys, time; pathlib.Path('pid').write_text(str(os.getpid())); time.sleep(600)"
    tree = Tree([sys.executable, "-c", anew, then], log=tmp_path / "log", folder=tmp_path)
    with tree:
        pid = written(tmp_path / "pid")
        assert tree.members() == [pid]
    assert tree.members() == []
    assert not alive(pid)


def test_others_are_left_alone(tmp_path):
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    first = orphan(tmp_path / "one", "stays")
    second = orphan(tmp_path / "two", "stays")
    with second:
        survivor = written(tmp_path / "two" / "pid")
        with first:
            written(tmp_path / "one" / "pid")
        assert alive(survivor)
        assert os.getpid() not in second.members()


def test_what_a_command_printed_last_is_told(tmp_path):
    command = [sys.executable, "-c", "import sys; print('one'); print('two'); sys.exit('three')"]
    with Tree(command, log=tmp_path / "log", folder=tmp_path) as tree:
        assert tree.wait(20.0) == 1
        assert tree.tail(2) == "two | three"


def test_modules_of_the_repository_are_found_from_anywhere(tmp_path):
    command = [sys.executable, "-c", "import benchmarks.harness.report, os; assert 'TVM_X' in os.environ"]
    with Tree(command, log=tmp_path / "log", folder=tmp_path, env={**os.environ, "TVM_X": "1"}) as tree:
        assert tree.wait(60.0) == 0, tree.tail()
