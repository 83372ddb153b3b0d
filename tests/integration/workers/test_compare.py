from __future__ import annotations

import contextlib
import io
import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tunesmith.cli.main import run_command_line
from tunesmith.measuring.checked import NARROW_TOLERANCE
from tunesmith.preparation import Preparation
from workers import commands_compare
from workers.commands_compare import Result
from workers.peers.runtimes import Runtime

pytestmark = pytest.mark.servers


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A product with a fixed matrix; the input's name is one that TVM would have to change."""
    weights = np.random.default_rng(0).standard_normal((16, 8)).astype("float32")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["input.1", "w"], ["y"])],
        "product",
        [helper.make_tensor_value_info("input.1", TensorProto.FLOAT, [4, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 8])],
        [helper.make_tensor("w", TensorProto.FLOAT, weights.shape, weights.tobytes(), raw=True)],
    )
    path = tmp_path_factory.mktemp("model") / "product.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.fixture(scope="module")
def compared(model):
    """The status of a comparison in which OpenVINO is not installed, and its answer."""
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()) as out:
        patch.setattr(Runtime, "installed", property(lambda runtime: runtime.name != "openvino"))
        names = "untuned,onnxruntime,torch,openvino"
        status = run_command_line(["compare", str(model), "--with", names, "--time", "0.1", "--json"])
    return status, json.loads(out.getvalue())


def test_the_same_model_side_by_side(compared):
    status, answer = compared
    peers = {peer["name"]: peer for peer in answer["peers"]}
    assert status == 0, peers
    assert list(peers) == ["untuned", "onnxruntime", "torch", "openvino"]
    assert peers["untuned"]["latency"] > 0
    assert peers["onnxruntime"]["latency"] > 0
    assert peers["untuned"]["error"] < 1e-4  # against onnxruntime
    assert [peer["check"] for peer in answer["peers"]] == ["agree", *["not_compared"] * 3]
    assert (peers["torch"]["latency"], peers["torch"]["failure"]) == (None, "torch reads .pt2 files only")


def test_a_model_in_bf16_is_held_against_the_size_of_float32s_outputs(model, monkeypatch, capsys):
    narrow = Preparation(blocked=True, fast_math=True, bf16=True)
    monkeypatch.setattr(commands_compare, "default_preparation", lambda *_: narrow)
    assert run_command_line(["compare", str(model), "--time", "0.1", "--json"]) == 0
    ours, other = json.loads(capsys.readouterr().out)["peers"]
    assert ours["check"] == "agree"
    assert 1e-4 < ours["error"] < ours["tolerance"] == NARROW_TOLERANCE, "its operands are rounded"
    assert 1e-4 < ours["rms"] < NARROW_TOLERANCE
    assert (ours["note"], other["note"]) == ("in bf16", "")
    assert (other["error"], other["rms"], other["check"]) == (None, None, "not_compared")


def test_inputs_that_index_and_divide_are_inside(tmp_path, capsys):
    """Places in a table of two rows, and a divisor; where zero or three were drawn, a runtime would fail or crash."""
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Gather", ["w", "kind"], ["y"]), helper.make_node("Div", ["a", "b"], ["q"])],
        "g",
        [value(name, TensorProto.INT64, [16]) for name in ("kind", "a", "b")],
        [value("y", TensorProto.FLOAT, [16, 2]), value("q", TensorProto.INT64, [16])],
        [helper.make_tensor("w", TensorProto.FLOAT, [2, 2], [1.0, 2.0, 3.0, 4.0])],
    )
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    assert run_command_line(["compare", str(path), "--time", "0.1", "--json"]) == 0
    ours, other = json.loads(capsys.readouterr().out)["peers"]
    assert (ours["check"], ours["error"], ours["note"], other["failure"]) == ("agree", 0.0, "", "")


@pytest.mark.parametrize(
    ("results", "status", "says"),
    [
        ([Result("untuned", [2e-3], error=1e-7), Result("onnxruntime", [1e-3])], 0, "2x"),
        ([Result("untuned", [2e-3], error=0.5), Result("onnxruntime", [1e-3])], 1, "outputs differ"),
        ([Result("untuned", [2e-3], error=float("nan")), Result("onnxruntime", [1e-3])], 1, "outputs differ"),
        (
            [Result("untuned", [2e-3], error=5e-3, rms=4e-3), Result("onnxruntime", [1e-3])],
            0,
            "rms 4.0e-03; allowed 0.01",
        ),
        ([Result("untuned", [2e-3], error=5e-3, rms=4e-2), Result("onnxruntime", [1e-3])], 1, "of the largest one"),
        ([Result("untuned", [2e-3]), Result("openvino", failure="not installed")], 0, "not installed"),
        ([Result("untuned", [2e-3]), Result("tuned", failure="crashed")], 1, "tuned gave no result: crashed"),
        ([Result("openvino", failure="not installed")], 1, "openvino gave no result"),
        ([Result("untuned", [2e-3], error=0.0, signal=0.0), Result("onnxruntime", [1e-3])], 0, "nothing checked"),
        ([Result("untuned", [2e-3], error=0.0, note="a NaN is lost"), Result("onnxruntime", [1e-3])], 0, "NaN is lost"),
    ],
)
def test_the_table_and_what_counts_as_a_failure(capsys, monkeypatch, results, status, says):
    monkeypatch.setattr(commands_compare, "_compare", lambda *_: results)
    assert run_command_line(["compare", "gemm:8x8x8:float32"]) == status
    out, err = capsys.readouterr()
    assert says in out + err
    assert all(result.name in out for result in results)


def test_a_peer_that_is_not_installed_names_its_extra(capsys, compared, model, monkeypatch):
    status, answer = compared
    assert status == 0
    openvino = answer["peers"][-1]
    assert openvino["failure"] == "openvino is not installed: pip install 'tunesmith[compare]'"
    monkeypatch.setattr(Runtime, "installed", property(lambda runtime: runtime.name != "openvino"))
    assert run_command_line(["compare", str(model), "--with", "openvino"]) == 1
    assert "tunesmith[compare]" in capsys.readouterr().err


@pytest.mark.parametrize("given", ["magic", "tuned", ","])
def test_peers_that_do_not_exist_are_usage(capsys, given):
    assert run_command_line(["compare", "gemm:8x8x8:float32", "--with", given, "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["code"] == "invalid_input"
