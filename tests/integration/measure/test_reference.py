"""The reference of a job: other runtimes in boxes, what goes wrong there, and what the service says of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from process_probe import CHILD_ENV

from tunesmith.types import Isolation, TensorSpec
from workers.measure import reference_runtimes
from workers.measure.reference_runtimes import Place, Rivals
from workers.peers import runtimes
from workers.peers.runtimes import Runtime
from workers.sandbox.boxed import Box
from workers.settings import Settings
from workers.tvm_backend.arguments import random_array

pytestmark = pytest.mark.servers

INPUTS = [TensorSpec("float32", (4, 16), "input.1")]
PLACE = Place(1, frozenset({min(os.sched_getaffinity(0))}), Isolation.EXCLUSIVE)


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference_runtimes, "PASS_SECONDS", 0.02)
    monkeypatch.setenv("PYTHONPATH", CHILD_ENV["PYTHONPATH"])


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data_dir=tmp_path / "data", lease_file=tmp_path / "lease", references=("onnxruntime", "torch"))


def product(path: Path) -> Path:
    weights = np.random.default_rng(0).standard_normal((16, 8)).astype("float32")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["input.1", "w"], ["y"])],
        "product",
        [helper.make_tensor_value_info("input.1", TensorProto.FLOAT, [4, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 8])],
        [onnx.numpy_helper.from_array(weights, "w")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_a_runtime_is_timed_in_a_box_and_in_two_passes(settings: Settings, tmp_path: Path) -> None:
    found = Rivals(settings, "onnx", product(tmp_path / "m.onnx"), INPUTS, 0, PLACE, outputs=True)
    found.time()
    (first,) = found.timings()
    found.time()
    x, weights = random_array(INPUTS[0], 0), np.random.default_rng(0).standard_normal((16, 8)).astype("float32")
    np.savez(tmp_path / "tuned.npz", **{"0": 1.01 * (x @ weights)})
    found.hold_against(tmp_path / "tuned.npz")
    (second,) = found.timings()
    assert first.error is None
    assert (second.error, second.rms) == (pytest.approx(0.01, rel=1e-3), pytest.approx(0.01, rel=1e-3))
    assert (second.runtime, second.precision, second.failure) == ("onnxruntime", "model", "")
    assert second.version.count(".") == 2
    assert len(second.samples) > len(first.samples) >= 5
    assert all(0 < sample < 1 for sample in second.samples)


@pytest.mark.parametrize("wrong", ["no archive", "packed", "objects", "texts", "none", "missing"])
def test_outputs_that_are_none_are_passed_over(tmp_path: Path, wrong: str) -> None:
    file = tmp_path / "outputs.npz"
    if wrong == "no archive":
        file.write_bytes(b"\0" * 100)
    elif wrong == "packed":
        np.savez_compressed(file, x=np.zeros(9))
    elif wrong != "missing":
        np.savez(file, **{"objects": {"x": np.array([{}])}, "texts": {"x": np.array(["a"])}}.get(wrong, {}))
    box = Box.__new__(Box)  # its folder is all that matters: no process runs
    box.folder = tmp_path
    assert reference_runtimes._outputs(box) is None
    np.savez(file, x=np.zeros(9))
    assert [array.shape for array in reference_runtimes._outputs(box) or []] == [(9,)]


def test_a_model_for_torch_is_timed_by_torch(settings: Settings, tmp_path: Path) -> None:
    import torch

    net = torch.nn.Sequential(torch.nn.Linear(16, 8), torch.nn.ReLU()).eval()
    torch.export.save(torch.export.export(net, (torch.zeros(4, 16),)), tmp_path / "m.pt2")
    found = Rivals(settings, "pt2", tmp_path / "m.pt2", INPUTS, 0, PLACE)
    found.time()
    assert [(each.runtime, each.failure, bool(each.samples)) for each in found.timings()] == [("torch", "", True)]


def test_a_file_that_the_runtime_refuses_is_no_reference_and_not_tried_again(
    settings: Settings, tmp_path: Path
) -> None:
    (tmp_path / "m.onnx").write_bytes(b"no model")
    found = Rivals(settings, "onnx", tmp_path / "m.onnx", INPUTS, 0, PLACE)
    for _ in range(2):
        found.time()
    (timing,) = found.timings()
    assert timing.samples == []
    assert timing.failure.startswith("it cannot run the model: ")


@pytest.mark.parametrize(
    ("act", "says"),
    [
        ("os.kill(os.getpid(), 11)", "its process was ended by SIGSEGV"),
        ("time.sleep(600)", "no answer within 1 s"),
        (f"open({str(Path(__file__))!r}).read()", "it cannot run the model: [Errno"),
        ("__import__('socket').create_connection(('127.0.0.1', 9))", "it cannot run the model: [Errno"),
    ],
    ids=["kills itself", "sleeps", "opens a file", "connects"],
)
def test_a_runtime_that_a_model_takes_over_gets_nowhere(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: str, says: str
) -> None:
    hostile = Runtime("onnxruntime", "hostile_runtime", "onnx", "worker")
    monkeypatch.setattr(runtimes, "RUNTIMES", (hostile,))
    monkeypatch.setattr(reference_runtimes, "LOAD_SECONDS", 1.0)
    (tmp_path / "m.onnx").write_text(act)
    found = Rivals(settings, "onnx", tmp_path / "m.onnx", INPUTS, 0, PLACE)
    found.time()
    (timing,) = found.timings()
    assert timing.samples == []
    assert timing.failure.startswith(says)


def test_what_is_not_installed_or_not_wanted_is_not_run(settings: Settings, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(Runtime, "installed", property(lambda _: False))
    found = Rivals(settings, "onnx", tmp_path / "missing", INPUTS, 0, PLACE)
    found.time()
    (timing,) = found.timings()
    assert timing.failure == "onnxruntime is not installed: pip install 'tunesmith[worker]'"
    none = Rivals(settings.model_copy(update={"references": ()}), "onnx", tmp_path / "missing", INPUTS, 0, PLACE)
    none.time()
    assert none.timings() == []


def test_a_default_precision_counts_where_the_cpu_has_a_shorter_one() -> None:
    def found(*flags: str) -> list[tuple[str, str]]:
        return [(each.name, each.precision) for each in runtimes.readers("onnx", frozenset(flags))]

    plain = [("onnxruntime", "model"), ("openvino", "model")]
    assert found("avx2") == plain
    assert found("avx2", "avx512_bf16") == [*plain, ("openvino", "default")]
    assert [each.name for each in runtimes.readers("pt2")] == ["torch"]
    assert runtimes.cpu_flags()
