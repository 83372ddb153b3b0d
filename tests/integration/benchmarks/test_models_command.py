from __future__ import annotations

import csv
import json
import math
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import effort
import numerics
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from benchmarks.harness import comparison as compared
from benchmarks.harness import contenders, jobs
from benchmarks.harness.comparison import Comparison, Entry
from benchmarks.harness.limits import Level, Peak
from benchmarks.harness.processes import Tree
from benchmarks.models import (
    command,
    comparison,
    encoder,
    inverted_residual,
    metaschedule,
    narrow,
    r3d,
    resnext,
    torch_onnx,
    tune_relax,
    unet,
    vit,
    zoo,
)
from benchmarks.models.command import build
from benchmarks.models.comparison import ModelOutcome
from benchmarks.peak import machine
from benchmarks.peak.machine import Limits, Rates
from tunesmith.cli.main import run_command_line
from tunesmith.errors import InvalidInput
from tunesmith.metaschedule import read_database
from tunesmith.preparation import PLAIN, Preparation
from tunesmith.targets import Target
from workers.peers import onnxruntime
from workers.peers.comparison import Result
from workers.tvm_backend.arguments import random_array
from workers.tvm_backend.build.local_model import LocalModel, local_target

pytestmark = pytest.mark.servers
PROBE = Path(__file__).parents[2] / "helpers" / "metaschedule_probe.py"


@pytest.fixture
def model(tmp_path):
    """Two products, so two tasks."""
    rng = np.random.default_rng(0)
    weights = [rng.standard_normal(shape).astype("float32") for shape in ((16, 64), (64, 32))]
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "a"], ["h"]),
            helper.make_node("Relu", ["h"], ["r"]),
            helper.make_node("MatMul", ["r", "b"], ["y"]),
        ],
        "products",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 32])],
        [
            helper.make_tensor(name, TensorProto.FLOAT, array.shape, array.tobytes(), raw=True)
            for name, array in zip("ab", weights, strict=True)
        ],
    )
    path = tmp_path / "products.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.mark.thorough
def test_a_model_side_by_side(capsys, monkeypatch, model, tmp_path):
    limits = Limits(1, Rates((1e11,)), {}, {1 << 20: Rates((1e11,))})
    monkeypatch.setattr(machine, "measure", lambda threads: limits)
    monkeypatch.setattr(command, "QUICK_PASSES", 2)
    monkeypatch.setattr(command, "QUICK_SLICE", 0.05)
    status = run_command_line(
        [
            "bench",
            "models",
            "--quick",
            "--model",
            str(model),
            "--with",
            "untuned,onnxruntime,onnxruntime-int8,torch-bf16",
            "--threads",
            "1",
            "--out",
            str(tmp_path),
        ]
    )
    assert status == 0, capsys.readouterr()
    with (tmp_path / "models.csv").open(newline="") as file:
        untuned, other, quantised, short = csv.DictReader(file)
    assert (untuned["model"], untuned["runtime"], other["runtime"]) == ("products", "untuned", "onnxruntime")
    assert float(untuned["latency ms"]) > 0
    assert float(untuned["output error"]) < 1e-4
    assert 0 < float(other["share of peak %"]) < 100
    assert [(each["runtime"], each["note"]) for each in (quantised, short)] == [
        ("onnxruntime-int8", ""),
        ("torch-bf16", ""),
    ]
    assert min(float(quantised["latency ms"]), float(short["latency ms"])) > 0
    assert quantised["output error"] == ""  # the only one that ran the quantised file
    assert 1e-4 < float(short["output error"]) < 1e-2
    assert (tmp_path / "models.svg").stat().st_size > 0


@pytest.mark.thorough
def test_rounds_that_metaschedule_has_not_looked_at_count(model, tmp_path):
    target, database = local_target("cpu:1"), tmp_path / "database"
    database.mkdir()
    (tmp_path / "module.json").write_bytes(LocalModel(str(model), {}, tmp_path, PLAIN).module)
    job = metaschedule.Job(str(tmp_path / "module.json"), target.to_json(), str(database), 0.0, 3, 1)
    with Tree([sys.executable, str(PROBE), json.dumps(asdict(job))], log=tmp_path / "log", folder=tmp_path) as tree:
        assert tree.wait(120) == 0, tree.tail(20)
    # The first round waits for its task to be picked again; the second was being run.
    assert len(read_database(database)) == 3
    assert json.loads((database / metaschedule.DONE).read_text())["seconds"] > 0


def test_a_known_architecture_has_weights_that_show_errors(tmp_path):
    path = zoo.write_model("squeezenet", tmp_path / "squeezenet.onnx")
    graph = onnx.load(path).graph
    assert {node.op_type for node in graph.node}.isdisjoint({"ConstantOfShape", "Softmax"})
    assert [value.name for value in graph.input] == ["data_0"]
    assert zoo.write_model("squeezenet", tmp_path / "again.onnx").read_bytes() == path.read_bytes()
    images = [{"data_0": np.random.default_rng(seed).random((1, 3, 224, 224), "float32")} for seed in range(2)]
    ours, other = (torch_onnx.prepare(str(path), image, 1)()[0] for image in images)
    (expected,) = onnxruntime.prepare(str(path), images[0], 1)()
    assert np.isfinite(expected).all()
    signal = np.abs(ours - other).max()
    assert signal > 1e-3 * np.abs(ours).max()
    assert np.abs(ours - expected).max() < 1e-3 * signal


def test_an_architecture_that_is_not_there_is_named(tmp_path):
    with pytest.raises(InvalidInput, match=r"no model 'nonesuch'; there are .*squeezenet"):
        zoo.write_model("nonesuch", tmp_path / "x.onnx")


@pytest.mark.parametrize("given", ["magic", "untuned,magic", ","])
def test_runtimes_that_do_not_exist_are_usage(capsys, given):
    assert run_command_line(["bench", "models", "--with", given]) == 2
    assert "there is no runtime" in capsys.readouterr().err


def test_a_runtime_does_not_read_every_kind_of_file(model, tmp_path, monkeypatch):
    monkeypatch.setattr(contenders, "source_by_content", lambda _: "pt2")
    plan = comparison.ModelsPlan(("onnxruntime",), local_target("cpu:1"), 1.0, 0.1, 2, 0)
    (entry,) = comparison.run(str(model), plan, tmp_path, print).entries
    assert entry.result.failure == "onnxruntime does not read .pt2 files"


@pytest.mark.thorough
def test_each_tuners_schedules_meet_the_module_that_they_were_found_for(tmp_path, monkeypatch):
    blocked, compiled = Preparation(blocked=True), []

    class Local:
        module = b""

        def __init__(self, file, inputs, folder, preparation):
            self.preparation = preparation

        def compile(self, out, target, records):
            compiled.append((out.stem, self.preparation, records))
            return []

    monkeypatch.setattr(compared, "LocalModel", Local)
    monkeypatch.setattr(jobs, "tune", lambda *_: jobs.Tuned(["ours"], blocked, 1, 1.0))
    monkeypatch.setattr(tune_relax, "tune", lambda *_: jobs.Tuned(["theirs"], PLAIN, 1, 1.0))
    plan = comparison.ModelsPlan(("untuned", "tunesmith", "metaschedule-64"), local_target("cpu:1"), 1.0, 0.1, 2, 0)
    entered = Comparison(tmp_path / "net.onnx", tmp_path, plan.target, print)
    for name in plan.names:
        comparison.enter(entered, name, plan)
    assert compiled == [
        ("untuned", PLAIN, None),
        ("tunesmith", blocked, ["ours"]),
        ("metaschedule-64", PLAIN, ["theirs"]),
    ]


def test_the_table_tells_shares_speed_ups_and_what_failed():
    entries = [
        Entry("untuned", None, Result("untuned", [8e-3, 9e-3, 8e-3], medians=[8e-3, 9e-3])),
        Entry("tunesmith", None, Result("tunesmith", [1e-3], medians=[1e-3], error=1e-6), 100, 60.0, 0),
        Entry("metaschedule-64", None, Result("metaschedule-64", [4e-3], medians=[4e-3]), 10, 61.0, 5),
        Entry("metaschedule-16", None, Result("metaschedule-16", [2e-3], medians=[2e-3], error=0.5), 20, 60.0, 3),
        Entry("openvino", None, Result("openvino", failure="not installed")),
    ]
    outcome = ModelOutcome(1e6, 1e3, entries, Peak(2e9, (Level("memory", math.inf, 1e9),)), model="net")
    report = build([outcome], {})
    rows = {row[1]: dict(zip(report.columns, row, strict=True)) for row in report.rows}
    assert rows["tunesmith"]["share of peak %"] == pytest.approx(50.0)
    assert rows["tunesmith"]["speed-up"] == pytest.approx(8.0)
    assert rows["untuned"]["passes ms"] == "8 … 9"
    assert rows["metaschedule-16"]["note"] == "other outputs than the reference"
    assert rows["openvino"]["note"] == "not installed"
    assert rows["openvino"]["latency ms"] is None
    assert "4 times as fast as the better MetaSchedule (metaschedule-64)" in report.summary, "the other one is wrong"
    assert "8 times as fast as untuned" in report.summary


def test_narrow_types_are_compared_race_by_race_with_the_fastest_other_of_their_kind():
    def entry(runtime, *medians):
        return Entry(runtime, None, Result(runtime, list(medians), medians=list(medians)))

    ours, own = entry("tunesmith-bf16", 1e-3, 1e-3, 2e-3, 2e-3), entry("tunesmith", 4e-3, 4e-3, 4e-3, 4e-3)
    peer = entry("openvino-default", 2e-3, 2e-3, 2e-3, 2e-3)
    eight = [entry("tunesmith-int8", 3e-3, 3e-3), entry("openvino-int8", 4e-3, 4e-3), entry("onnxruntime-int8", 2e-3)]
    slow = [entry("openvino", 1e-4, 1e-4), entry("torch-bf16", 9e-3, 9e-3)]
    outcomes = [
        ModelOutcome(1e6, 1e3, [ours, own, peer, *slow], model="net"),
        ModelOutcome(1e6, 1e3, eight, model="net"),
        ModelOutcome(1e6, 1e3, [*eight[:2], Entry("onnxruntime-int8", None, Result("x", failure="no"))], model="two"),
    ]
    found = narrow.verdicts(outcomes)
    assert [(each.model, each.peer, each.ratios) for each in found] == [
        ("net", "openvino-default", (0.5, 1.0)),
        ("net", "onnxruntime-int8", (1.5,)),
        ("two", "openvino-int8", (0.75,)),
    ]
    assert found[0].own == pytest.approx(0.375)
    text = narrow.text(outcomes)
    assert "takes 0.75 times as long as `openvino-default` (races: 0.50, 1.00), and 0.38 times as long as our" in text
    assert "`tunesmith-int8`, geometric mean of 2 models: 1.06; worst 1.50." in text
    rows = [dict(zip(build(outcomes, {}).columns, row, strict=True)) for row in build(outcomes, {}).rows]
    assert rows[0]["races ms"] == "1 / 2"


@pytest.mark.parametrize(
    ("name", "source", "shape"),
    effort.some(
        [
            ("mobilenet", inverted_residual.INPUT, (1, 3, 224, 224)),
            ("encoder", encoder.INPUT, (1, 128, 768)),
            ("unet", unet.INPUT, (1, 3, 128, 128)),
            ("resnext50", resnext.INPUT, (1, 3, 224, 224)),
            ("efficientnet", inverted_residual.INPUT, (1, 3, 224, 224)),
            ("unet3d", unet.INPUT, (1, 3, 48, 48, 48)),
            ("vit", vit.INPUT, (1, 3, 224, 224)),
        ],
        each=2,
    ),
)
def test_a_model_that_is_built_here_is_imported_and_depends_on_its_input(name, source, shape, tmp_path):
    path = zoo.write_model(name, tmp_path / f"{name}.onnx")
    onnx.checker.check_model(onnx.load(path), full_check=True)
    inputs = [{source: np.random.default_rng(seed).random(shape, "float32")} for seed in range(2)]
    ours, other = (onnxruntime.prepare(str(path), each, 2)()[0] for each in inputs)
    (expected,) = torch_onnx.prepare(str(path), inputs[0], 2)()
    signal = np.abs(ours - other).max()
    assert signal > 1e-3 * np.abs(ours).max()
    assert np.abs(ours - expected).max() < 1e-3 * signal
    assert [spec.shape for spec in LocalModel(str(path), {}, tmp_path, PLAIN).inputs] == [shape]


def _small(network, kernel):
    stages = (inverted_residual.Stage(1, 16, 1, 1), inverted_residual.Stage(6, 16, 2, 2, kernel))
    return inverted_residual.build(network._replace(stages=stages), 1, 32, 32)


SMALL = {
    "mobilenet": lambda: _small(inverted_residual.MOBILENET, 3),
    "encoder": lambda: encoder.build(1, encoder.Sizes(layers=1, tokens=8, features=32, heads=2, inside=64)),
    "unet": lambda: unet.build(1, 16, width=4, levels=2),
    "resnext50": lambda: resnext.build(1, 32, blocks=(2, 1), groups=4, inside=16),
    "efficientnet": lambda: _small(inverted_residual.EFFICIENTNET, 5),
    "unet3d": lambda: unet.build(1, 8, width=8, levels=1, axes=3),
    "r3d18": lambda: r3d.build(1, 4, 16, (8, 16)),
    "vit": lambda: vit.build(1, 32, layers=1, features=32, heads=2),
}


PREPARED = [(name, each) for name in SMALL for each in (PLAIN, Preparation(blocked=True, fast_math=True))]


@pytest.mark.parametrize(("name", "preparation"), effort.some(PREPARED, kind=lambda case: case[0]))
def test_a_small_one_computes_on_tvm_what_it_does_on_onnxruntime(name, preparation, tmp_path):
    import tvm
    from tvm import relax

    path = tmp_path / f"{name}.onnx"
    onnx.save(SMALL[name](), path)
    local = LocalModel(str(path), {}, tmp_path, preparation)
    local.compile(tmp_path / "model.so", Target(effort.quick(local_target("cpu:1").to_json())), None)
    inputs, others = ({spec.name: random_array(spec, seed) for spec in local.inputs} for seed in range(2))
    theirs, elsewhere = numerics.references(path, inputs, others)
    machine_: Any = relax.VirtualMachine(tvm.runtime.load_module(str(tmp_path / "model.so")), tvm.cpu())
    ours = machine_["main"](*map(tvm.runtime.tensor, inputs.values()))
    assert numerics.error(ours.numpy(), theirs, elsewhere) < 1e-4
