from __future__ import annotations

import csv
import functools
import json

import numpy as np
import pytest
from operator_runs import recorded_run, sampled

from benchmarks.harness import contenders, jobs, kernels
from benchmarks.harness.jobs import Measured, Tuned
from benchmarks.models import torch_onnx
from benchmarks.operators import command, comparison, first, onnx_models, recordings
from benchmarks.operators.cases import Case
from benchmarks.operators.recordings import Recording
from benchmarks.peak import machine
from benchmarks.peak.machine import Limits, Rates
from benchmarks.tuners import metaschedule
from benchmarks.tuners.outcome import Trial
from tunesmith.cli.main import run_command_line
from tunesmith.errors import InvalidInput, InvalidOperator, MeasurementFailed
from tunesmith.operators import parse_operator
from tunesmith.preparation import PLAIN, Preparation, for_target
from tunesmith.types import Candidate
from workers.peers import onnxruntime
from workers.tvm_backend.arguments import random_array
from workers.tvm_backend.build.local_model import LocalModel, local_target

pytestmark = pytest.mark.servers
SPECS = (
    "gemm:8x16x32",
    "bmm:2x8x4x16",
    "dense:4x8x16",
    "conv2d:1x4x9x9,8x4x3x3,s2,p1",
    "depthwise:1x8x9x9,k3,s1,p1",
    "softmax:2x3x16",
    "layernorm:4x16",
)
CONVOLUTION = "conv2d:1x16x8x8,16x16x3x3,s1,p1:float32"
BLOCKED = Preparation(blocked=True, fast_math=True)


@pytest.mark.parametrize("text", [*SPECS, "gemm:8x16x32:bf16"])
def test_an_operator_as_a_model_computes_the_same_on_every_runtime(text, tmp_path):
    path = onnx_models.write_operator(text, tmp_path / "operator.onnx")
    spec = parse_operator(text)
    inputs = {t.name: random_array(t, at) for at, t in enumerate(spec.inputs) if t.name not in spec.weights}
    (first_,), (second,) = (peer.prepare(str(path), inputs, 1)() for peer in (onnxruntime, torch_onnx))
    assert first_.shape == spec.output.shape
    np.testing.assert_allclose(first_, second, rtol=1e-4, atol=1e-5)


def test_operators_that_runtimes_cannot_compare_are_refused(tmp_path):
    case = Case("gemm:8x16x32:bf16", 2)
    assert (case.precision, case.name) == ("bf16", case.operator)
    assert comparison.bytes_of(parse_operator(case.operator)) == 4 * 8 * 32 + 2 * 32 * 16 + 4 * 8 * 16
    with pytest.raises(InvalidInput, match="float32"):
        onnx_models.write_operator("gemm:8x8x8:float16", tmp_path / "x.onnx")
    with pytest.raises(InvalidOperator):
        onnx_models.write_operator("gemm:8x8", tmp_path / "x.onnx")
    assert not (tmp_path / "x.onnx").exists()


@pytest.mark.parametrize("text", [spec for spec in SPECS if not spec.startswith("dense")])
def test_the_models_function_is_the_program_that_recordings_are_of(text, tmp_path):
    from benchmarks.harness.operators import program
    from workers.tvm_backend.passes.extract_tasks import extract_tasks

    path = onnx_models.write_operator(text, tmp_path / "operator.onnx")
    (task,) = extract_tasks(LocalModel(str(path), {}, tmp_path, PLAIN).module)
    assert task.workload.hash == program(text, local_target("cpu:1")).workload.hash


# The first ten


def test_the_schedule_after_ten_candidates_is_built_from_its_decisions(tmp_path):
    target = local_target("cpu:1")
    path = onnx_models.write_operator("gemm:16x16x16", tmp_path / "operator.onnx")
    local = LocalModel(str(path), {}, tmp_path, PLAIN)
    task, (candidate, *_), traces = sampled(local.module, target)
    (record,) = first.records(local.module, target, {task.workload.hash: (candidate, 1e-3)})
    assert record.trace == json.loads(traces.trace(candidate))
    assert local.compile(tmp_path / "first.so", target, [record]) == []
    assert first.records(local.module, target, {task.workload.hash: (Candidate(None), 1e-3)}) == []


def test_a_convolution_by_winograd_is_the_operator_too(tmp_path):
    path = onnx_models.write_operator("conv2d:1x64x56x56,64x64x3x3,s1,p1:float32", tmp_path / "operator.onnx")
    module = LocalModel(str(path), {}, tmp_path, for_target("llvm", operator=False)).module
    assert kernels.main_functions(module) == {"conv2d_blocked", "conv2d_winograd"}


def test_kernels_of_something_that_is_no_library_are_a_failure(tmp_path):
    np.savez(tmp_path / "inputs.npz", x=np.ones(1))
    with pytest.raises(MeasurementFailed, match="could not be timed"):
        kernels.measure({"x": tmp_path / "no.so"}, {"x": {"main"}}, tmp_path / "inputs.npz", 1, tmp_path, processes=1)


# The comparison


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A recorded run on the convolution, whose winner is a schedule of TVM's space."""
    folder = tmp_path_factory.mktemp("recorded") / "plain"
    ask, recording, _ = recorded_run(CONVOLUTION, "metaschedule-16", (Trial(30.0, 1e-3),), folder)
    return ask, recording


def plan_for(folder, *names, seeds=(0,)):
    return comparison.OperatorsPlan(names, seeds, None, 5.0, 0.05, 2, folder / "runs")


@pytest.fixture(scope="module")
def held(tmp_path_factory, recorded):
    """A comparison of two seeds, and the times that Tunesmith was given; it is without its stack.

    The first seed has a recording that applies and a longer one of another program. The second has none, none can be
    made, and Tunesmith finds nothing.
    """
    folder, budgets = tmp_path_factory.mktemp("comparison"), []
    ask, recording = recorded
    recordings.keep(recording, ask, folder / "runs")
    other = recordings.ask_for(CONVOLUTION, ask.target, "metaschedule-64", 0)
    strange = {**vars_of(recording), "workload": "7", "elapsed": 90.0}
    recordings.keep(Recording(other.outcome(**strange), {}), other, folder / "runs")

    def make(ask, folder, scratch):
        raise MeasurementFailed("gave up")

    def tunesmith(model, request, folder):
        budgets.append(request.seconds)
        if request.seed:
            raise MeasurementFailed("found nothing")
        return Tuned([], BLOCKED, 3, request.seconds, (Measured("1", Candidate(None), 1e-3),))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recordings, "make", make)
        patch.setattr(jobs, "tune", tunesmith)
        patch.setattr(kernels, "PROCESSES", 2)
        patch.setattr(kernels, "measure", functools.partial(kernels.measure, repeats=2))
        plan = plan_for(folder, "tunesmith", "metaschedule-64", "metaschedule-16", "onnxruntime", seeds=(0, 1))
        return comparison.run(Case(CONVOLUTION, 1, record_missing=True), plan, folder, print), budgets


@pytest.mark.thorough
def test_a_recorded_winner_is_built_and_timed_beside_the_others(held):
    outcome, _ = held
    timed = [entry for entry in outcome.entries if not entry.result.failure]
    assert [(entry.runtime, entry.seed) for entry in timed] == [
        ("onnxruntime", None),
        ("metaschedule-16", 0),
        ("tunesmith", 0),
        ("tunesmith-10", 0),
    ]
    assert all(entry.result.latency > 0 for entry in timed)
    assert [entry.result.error is None for entry in timed] == [True, False, False, False]
    assert all(entry.result.error < 1e-4 for entry in timed[1:])
    baseline = outcome.fastest(contenders.METASCHEDULE, 0)
    assert (baseline.runtime, baseline.tuned_seconds, baseline.candidates) == ("metaschedule-16", 32.0, 1)
    assert outcome.flops >= 2 * 16 * 16 * 9 * 64
    assert outcome.bytes_ == 4 * (16 * 64 + 16 * 16 * 9 + 16 * 64)
    assert outcome.versions == {"apache-tvm": "0"}


@pytest.mark.thorough
def test_kernels_are_timed_one_by_one_and_the_operator_is_told_from_the_rest(held):
    outcome, _ = held
    plain, *blocked = (outcome.entry(name, 0).kernels for name in ("metaschedule-16", "tunesmith", "tunesmith-10"))
    assert plain.main > 0
    assert plain.others == 0.0
    for each in blocked:
        assert each.main > 0
        assert each.total > each.main  # conversions of layouts


@pytest.mark.thorough
def test_tunesmith_has_the_time_of_the_sooner_recording_or_the_default(held):
    _, budgets = held
    assert budgets == [32.0 - comparison.MARGIN, 5.0]


@pytest.mark.thorough
def test_a_run_that_is_missing_is_made_where_it_is_wanted_and_failures_are_told(tmp_path, held):
    outcome, _ = held
    failures = {entry.runtime: entry.result.failure for entry in outcome.entries if entry.seed == 1}
    assert failures == {"metaschedule-64": "gave up", "metaschedule-16": "gave up", "tunesmith": "found nothing"}
    assert outcome.fastest(contenders.METASCHEDULE, 1) is None
    assert outcome.entry("tunesmith", 1) is None
    unwanted = comparison.run(Case(CONVOLUTION, 1), plan_for(tmp_path, "metaschedule-64"), tmp_path, print)
    assert unwanted.entries == []


@pytest.mark.thorough
def test_a_recording_of_another_program_is_not_used(held):
    outcome, _ = held
    (entry,) = (entry for entry in outcome.entries if (entry.runtime, entry.seed) == ("metaschedule-64", 0))
    assert "another program" in entry.result.failure
    assert outcome.entry("tunesmith", 0) is not None


def vars_of(recording):
    found = recording.outcome
    return {name: getattr(found, name) for name in ("startup", "elapsed", "trials", "workload", "trace")}


# Recordings


def test_a_recording_is_found_again_for_its_own_run_alone(tmp_path, recorded):
    ask, recording = recorded
    assert recordings.find(ask, tmp_path) is None
    kept = recordings.keep(recording, ask, tmp_path)
    assert recordings.find(ask, tmp_path) == kept
    assert (kept.seconds, kept.outcome.best, kept.outcome.counted) == (32.0, 1e-3, 1)
    assert json.loads(kept.outcome.trace) == json.loads(recording.outcome.trace)
    other = recordings.ask_for(CONVOLUTION, ask.target, "metaschedule-16", 1)
    assert recordings.find(other, tmp_path) is None
    recordings.path_of(ask, tmp_path).rename(recordings.path_of(other, tmp_path))
    with pytest.raises(InvalidInput, match="is of another run"):
        recordings.find(other, tmp_path)
    recordings.path_of(other, tmp_path).write_text("{}")
    with pytest.raises(InvalidInput, match="is not a recording"):
        recordings.find(other, tmp_path)


@pytest.mark.parametrize(("last", "trace"), [("end", "[]"), ("round", "[]"), ("end", None)])
def test_only_a_run_that_came_to_its_end_with_a_schedule_is_kept(tmp_path, monkeypatch, last, trace):
    ask = recordings.ask_for(CONVOLUTION, local_target("cpu:1"), "metaschedule-64", 3)

    def tune(asked, folder, deadline, trials):
        folder.mkdir()
        (folder / metaschedule.EVENTS).write_text(json.dumps({"kind": last}) + "\n")
        return asked.outcome(startup=1.0, elapsed=2.0, trials=(Trial(2.0, 1.23456e-3),) * trials, trace=trace)

    monkeypatch.setattr(metaschedule, "run", tune)
    if (last, trace) == ("end", "[]"):
        made = recordings.make(ask, tmp_path / "runs", tmp_path / "scratch")
        assert recordings.find(ask, tmp_path / "runs") == made
        assert (len(made.outcome.trials), made.outcome.best) == (recordings.TRIALS, 1.235e-3)
        assert "apache-tvm" in made.versions
    else:
        with pytest.raises(MeasurementFailed, match="ended early"):
            recordings.make(ask, tmp_path / "runs", tmp_path / "scratch")
        assert recordings.find(ask, tmp_path / "runs") is None


# The command


@pytest.mark.thorough
def test_operators_side_by_side(capsys, monkeypatch, tmp_path):
    limits = Limits(1, Rates((1e11,)), {}, {1 << 20: Rates((1e11,))})
    monkeypatch.setattr(machine, "measure", lambda threads: limits)
    monkeypatch.setattr(command, "PASSES", 2)
    monkeypatch.setattr(command, "SLICE", 0.05)
    page = tmp_path / "page.md"
    names = ("operators", "operators-ragged", "operators-equal-time", "operators-first-ten")
    page.write_text("".join(f"<!-- bench:{name} -->\nold {name}\n<!-- /bench:{name} -->\n" for name in names))
    status = run_command_line(
        [
            "bench",
            "operators",
            "--operator",
            "gemm:16x16x16",
            "--with",
            "untuned,onnxruntime",
            "--seeds",
            "1",
            "--threads",
            "1",
            "--runs",
            str(tmp_path / "runs"),
            "--out",
            str(tmp_path),
            "--docs",
            str(page),
        ]
    )
    assert status == 0, capsys.readouterr()
    with (tmp_path / "operators-latencies.csv").open(newline="") as file:
        untuned, other = csv.DictReader(file)
    assert (untuned["operator"], untuned["runtime"], other["runtime"]) == (
        "gemm:16x16x16:float32",
        "untuned",
        "onnxruntime",
    )
    assert 0 < float(untuned["share"]) < 1
    assert float(untuned["output error"]) < 1e-4
    assert "| gemm:16x16x16, one thread |" in page.read_text()
    assert "old operators-ragged" in page.read_text()  # tables without rows leave theirs alone
    assert (tmp_path / "operators.svg").stat().st_size > 0
    assert not (tmp_path / "runs").exists()


def test_runtimes_and_threads_that_are_not_there_are_usage(capsys):
    assert run_command_line(["bench", "operators", "--with", "magic"]) == 2
    assert "there is no runtime" in capsys.readouterr().err
    assert run_command_line(["bench", "operators", "--threads", "100000"]) == 2
    assert "cores here" in capsys.readouterr().err
