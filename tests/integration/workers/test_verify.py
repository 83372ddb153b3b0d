"""`tunesmith verify`, and bundles of a result: what is measured again, and what is refused."""

from __future__ import annotations

import json
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from operator_runs import sampled

from tunesmith import __version__
from tunesmith.cli.main import run_command_line
from tunesmith.errors import MeasurementFailed
from tunesmith.metaschedule import DatabaseRecord, encoded
from tunesmith.schedule_log import SCHEMA
from tunesmith.targets import Target
from tunesmith.types import TensorSpec
from workers import commands_bundle
from workers.commands_verify import GOOD, Rank, judge
from workers.peers.comparison import Result
from workers.sandbox.process import ChildTimeout
from workers.tvm_backend.build.local_model import LocalModel, default_preparation, local_target
from workers.tvm_backend.run.reranking import LEAST_SAMPLES, Timed, undisturbed, waited_seconds

pytestmark = pytest.mark.servers
GEMM = "gemm:96x96x96:float32"


@pytest.fixture(scope="module")
def entry(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A line of a log."""
    target = Target({**local_target("cpu:1").json})
    module = LocalModel(GEMM, {}, tmp_path_factory.mktemp("gemm"), default_preparation(GEMM, target)).module
    task, (candidate, *_), traces = sampled(module, target)
    args = [[spec.dtype, list(spec.shape)] for spec in task.workload.args]
    workload = {"hash": task.workload.hash, "module": task.module.decode(), "args": args}
    latency = {"median": 1e-3, "samples": [1e-3]}
    line = {"schema": SCHEMA, "task": "matmul", "workload": workload, "target": target.to_json(), "latency": latency}
    return {**line, "trace": json.loads(traces.trace(candidate))}


def test_champions_are_measured_and_one_that_cannot_be_built_fails(
    entry: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    instructions, decisions = entry["trace"]
    other = {
        **entry,
        "task": "broken",
        "trace": [[*instructions, ["GetSBlock", [], ["nowhere", "main"], ["b99"]]], decisions],
    }
    log = tmp_path / "best.jsonl"
    log.write_text("\n".join(map(json.dumps, (entry, other))))
    status = run_command_line(["verify", str(log), "--json"])
    found, problem = map(json.loads, capsys.readouterr().out.splitlines())
    assert (status, problem["code"]) == (1, "measurement_failed")
    fine, broken = found
    assert (fine["before"], broken["rank"]) == (1e-3, "broken")
    assert fine["latency"] > 0 < fine["default"]
    assert fine["error"] < 1e-4
    assert "ScheduleError" in broken["reason"]


def outcome(champion: float, default: float, error: float = 0.0) -> Rank:
    record = DatabaseRecord(("1", encoded("{}")), [[], []], (1e-3,), {"kind": "llvm"}, (TensorSpec("float32", (1,)),))
    timed: Future[Timed] = Future()
    timed.set_result(Timed((champion,) * 9, (default,) * 9, error))
    return judge("t", record, timed).rank


def test_ranks_follow_from_what_was_measured() -> None:
    assert outcome(1e-3, 2e-3) is Rank.KEPT
    assert outcome(1e-3, 1.005e-3) is Rank.LEVEL
    assert outcome(2e-3, 1e-3) is Rank.LOST
    assert outcome(1e-3, 2e-3, error=0.5) is Rank.WRONG
    assert outcome(1e-3, 2e-3, error=float("nan")) is Rank.WRONG
    assert set(GOOD) == {Rank.KEPT, Rank.LEVEL}
    record = DatabaseRecord(("1", ""), [[], []], (), {"kind": "llvm"}, ())
    hung: Future[Timed] = Future()
    hung.set_exception(ChildTimeout("it took too long"))
    assert judge("t", record, hung).reason == "it took too long"


def test_samples_of_a_busy_machine_are_left_out_where_others_are_left() -> None:
    quiet = [(1e-3, 0.0)] * LEAST_SAMPLES
    assert undisturbed([*quiet, (3e-3, 0.6)]) == ((1e-3,) * LEAST_SAMPLES, 0.0)
    few = [(1e-3, 0.0), *[(3e-3, 0.5)] * LEAST_SAMPLES, (9e-3, 0.9)]
    assert undisturbed(few) == ((1e-3, *(3e-3,) * LEAST_SAMPLES), 0.5)
    assert undisturbed([(1e-3, 0.4)] * 3) == ((1e-3,) * 3, 0.4)
    assert waited_seconds() >= 0


@pytest.mark.parametrize("target", [{"kind": "cuda"}, {"num-cores": 4096}])
def test_what_cannot_be_measured_here_is_refused(
    entry: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str], target: dict[str, Any]
) -> None:
    log = tmp_path / "best.jsonl"
    log.write_text(json.dumps({**entry, "target": {**entry["target"], **target}}))
    assert run_command_line(["verify", str(log), "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["code"] == "target_unavailable"


def test_a_log_without_schedules_is_refused(
    entry: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "best.jsonl"
    log.write_text(json.dumps({**entry, "trace": None}))
    assert run_command_line(["verify", str(log), "--json"]) == 2
    assert "every task keeps its default one" in json.loads(capsys.readouterr().out)["detail"]


def test_a_result_is_made_again_from_its_bundle(
    entry: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, archive = tmp_path / "best.jsonl", tmp_path / "x.zip"
    log.write_text(json.dumps(entry))
    assert run_command_line(["bundle", str(log), "--json"]) == 2
    assert "--model" in json.loads(capsys.readouterr().out)["detail"]
    assert run_command_line(["bundle", str(log), "--model", GEMM, "-o", str(archive), "--time", "0.1", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert (made["target"], made["versions"]["tunesmith"]) == (entry["target"], __version__)
    assert run_command_line(["rerun", str(archive), "--time", "0.1", "--json"]) in (0, 1)  # no judge of latencies
    again = json.loads(capsys.readouterr().out.splitlines()[0])
    assert (again["changed"], again["missing"]) == ({}, [])
    assert all(each["error"] < 1e-5 and each["before"] > 0 < each["now"] for each in again["results"])


def test_a_result_that_is_not_the_recorded_one_fails() -> None:
    fast, slow = (lambda name: Result(name, [1e-3] * 9, error=0.0)), (lambda name: Result(name, [2e-3] * 9, error=0.0))
    commands_bundle._judge([fast("tuned"), slow("untuned")], [])
    for results, missing, words in (
        ([Result("tuned", [1e-3] * 9, error=0.5), slow("untuned")], [], "outputs of the tuned build differ"),
        ([fast("tuned"), slow("untuned")], ["matmul"], "1 schedules apply no more: matmul"),
        ([slow("tuned"), fast("untuned")], [], "untuned build is the faster one"),
    ):
        with pytest.raises(MeasurementFailed, match=words):
            commands_bundle._judge(results, missing)
