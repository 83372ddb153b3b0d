"""The tuners themselves, with tiny budgets: MetaSchedule's process and the last measurement."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from benchmarks.tuners import metaschedule, plan, remeasure
from tunesmith.errors import MeasurementFailed
from tunesmith.targets import Target
from workers.tvm_backend.host import describe_from_outside

pytestmark = pytest.mark.servers
GEMM = "gemm:32x32x32:float32"

# Says that it is ready, starts a process that outlives it, tells of rounds as often as it is told to.
CHILD = """
import json, os, subprocess, sys, time
how, job = sys.argv[1], json.loads(sys.argv[2])
rounds, ready = int(how.partition(",")[0]), "ready" in how
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
with open(job["events"], "a") as file:
    def tell(kind, **values):
        file.write(json.dumps({"kind": kind, "at": time.monotonic(), **values}) + "\\n")
        file.flush()
    if ready:
        tell("ready", hash="42")
    for number in range(rounds):
        tell("round", results=[[1e-3, False]], trace="[]", profile={}, spent=0.0)
    if "ends" in how:
        sys.exit("no more")
    time.sleep(600)
"""


@pytest.fixture(scope="module")
def target() -> Target:
    host = describe_from_outside()
    return Target(host.target | {"num-cores": 1})


def ask(target, tuner="metaschedule-16", budget=0.5, operator=GEMM):
    return plan.Ask(operator, 0, tuner, target, budget)


def left(folder: Path) -> set[int]:
    """Processes whose temporary files lie in ``folder``."""
    mark, found = f"TMPDIR={folder}".encode(), set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if any(part.startswith(mark) for part in (entry / "environ").read_bytes().split(b"\0")):
                    found.add(int(entry.name))
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue
    return found


def fake(target, tmp_path, how, budget=0.5, seconds=60.0):
    child = [sys.executable, "-c", CHILD, how]
    return metaschedule.run(ask(target, budget=budget), tmp_path / "run", plan.Deadline(seconds), child)


def test_a_tuner_is_ended_at_its_budget_with_all_that_it_started(target, tmp_path):
    found = fake(target, tmp_path, "2,ready")
    assert (found.counted, found.failure, found.trace, found.workload) == (2, "", "[]", "42")
    assert left(tmp_path) == set()


def test_a_first_round_gets_more_time_and_not_for_ever(target, tmp_path):
    found = fake(target, tmp_path, "0,ready", budget=0.2)
    assert "ran no candidate" in found.failure


def test_a_tuner_that_does_not_start_is_a_failure_with_its_words(target, tmp_path):
    found = fake(target, tmp_path, "0,ends")
    assert "did not start" in found.failure
    assert "no more" in found.failure
    assert left(tmp_path) == set()


def test_a_tuner_that_ends_by_itself_is_taken_at_its_word(target, tmp_path):
    found = fake(target, tmp_path, "3,ready,ends", budget=600.0)
    assert (found.counted, found.failure) == (3, "")


def test_the_deadline_ends_a_tuner_too(target, tmp_path):
    found = fake(target, tmp_path, "1,ready", budget=600.0, seconds=1.0)
    assert found.counted == 1


# Every process of MetaSchedule parses the intrinsics of all back ends at first; here those of the CPU only. Its search
# looks at thousands of candidates before each round; here at a few.
QUICK_START = """
import sys
from workers.tvm_backend.warm import warm
warm('llvm')
if 'benchmarks.tuners.metaschedule_child' in sys.orig_argv:
    from metaschedule_probe import search_little
    search_little()
"""


@pytest.fixture
def quick_start(tmp_path, monkeypatch):
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(QUICK_START)
    monkeypatch.syspath_prepend(str(folder))


@pytest.mark.usefixtures("quick_start")
@pytest.mark.thorough
def test_metaschedule_tunes_until_its_time_is_over_and_its_best_runs(target, tmp_path, monkeypatch):
    monkeypatch.setattr(plan, "PER_ROUND", {"metaschedule-16": 2})
    monkeypatch.setattr(metaschedule, "PER_ROUND", {"metaschedule-16": 2})
    monkeypatch.setattr(metaschedule, "FIRST_ROUND_LIMIT", 1000.0)
    found = metaschedule.run(ask(target, budget=0.1), tmp_path / "run", plan.Deadline(200.0))
    assert left(tmp_path) == set()
    assert found.failure == ""
    assert found.counted >= 1
    assert found.startup > 0
    assert 0 < found.busy < 1
    assert found.parts["build"] > 0
    assert found.parts["run"] >= found.parts["kernel"] > 0
    (tmp_path / "again").mkdir()
    final = remeasure.run([found], target, tmp_path / "again", plan.Deadline(100.0), repeats=2)
    assert set(final.latencies) == {"untuned", "metaschedule-16"}
    assert final.errors["metaschedule-16"] <= 1e-5
    assert final.flops == 2 * 32**3
    assert final.bytes == 3 * 32 * 32 * 4


def test_a_trace_that_does_not_apply_is_a_failure(target, tmp_path):
    broken = ask(target).outcome(trace=json.dumps([[["NoSuchInstruction", [], [], []]], []]))
    with pytest.raises(MeasurementFailed, match="could not be compared"):
        remeasure.run([broken], target, tmp_path, plan.Deadline(100.0), repeats=1)
