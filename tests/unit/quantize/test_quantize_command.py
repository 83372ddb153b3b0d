from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from small_nets import Net

from tunesmith.cli import tune
from tunesmith.cli.main import run_command_line
from tunesmith.errors import JobFailed
from tunesmith.quantize import static_onnx

SHAPE = (1, 4, 8, 8)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two convolutions, between them a batch normalisation that is to be folded away."""
    net = Net(*SHAPE)
    return net.save(
        tmp_path_factory.mktemp("model") / "net.onnx", net.conv(net.op("Relu", net.norm(net.conv("x", 16))), 8)
    )


def samples(folder: Path, *shape: int, **more: Any) -> Path:
    np.savez(folder / "samples.npz", x=np.random.default_rng(1).standard_normal(shape).astype(np.float32), **more)
    return folder / "samples.npz"


def command(capsys: pytest.CaptureFixture[str], *arguments: Any) -> tuple[int, dict[str, Any]]:
    status = run_command_line(["quantize", *map(str, arguments), "--json"])
    return status, json.loads(capsys.readouterr().out)


def test_a_model_becomes_int8_and_computes_nearly_the_same(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "int8.onnx"
    status, answer = command(capsys, model, "--calibration", samples(tmp_path, 5, *SHAPE), "-o", out)
    assert status == 0, answer
    assert (answer["samples"], answer["quantiser"]) == (5, f"onnxruntime {onnxruntime.__version__}")
    assert 0 < answer["rms"] < 0.05
    assert 0 < answer["largest"] < 0.05
    graph = onnx.load(out).graph
    kinds = [node.op_type for node in graph.node]
    assert "BatchNormalization" not in kinds
    assert kinds.count("Conv") == 2
    integers = [each for each in graph.initializer if each.data_type == onnx.TensorProto.INT8 and len(each.dims) == 4]
    assert len(integers) == 2
    status, answer = command(capsys, out, "--calibration", tmp_path / "samples.npz", "-o", tmp_path / "twice.onnx")
    assert (status, answer["code"]) == (2, "invalid_input")
    assert "is quantised already" in answer["detail"]


def test_the_error_is_that_of_exact_sums(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without VNNI onnxruntime's own product of bytes adds pairs in 16 bits, and these pairs are too large for it."""
    net = Net(4, 32)
    path = net.save(tmp_path / "net.onnx", net.op("MatMul", "x", net.constant(net.rng.uniform(0.9, 1, (32, 8)))))
    np.savez(tmp_path / "samples.npz", x=net.rng.uniform(0.9, 1, (2, 4, 32)).astype(np.float32))
    _, answer = command(capsys, path, "--calibration", tmp_path / "samples.npz", "-o", tmp_path / "int8.onnx")
    assert answer["rms"] < 0.01


def test_an_old_operator_set_is_converted(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, out = tmp_path / "old.onnx", tmp_path / "int8.onnx"
    made = onnx.load(model)
    del made.opset_import[:]
    made.opset_import.append(onnx.helper.make_opsetid("", 11))
    onnx.save(made, old)
    assert command(capsys, old, "--calibration", samples(tmp_path, 2, *SHAPE), "-o", out)[0] == 0
    assert onnx.load(out).opset_import[0].version >= static_onnx.PER_CHANNEL_OPSET


def test_what_does_not_fit_leaves_nothing(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, good = tmp_path / "int8.onnx", samples(tmp_path, 2, *SHAPE)
    refusals = {}
    np.savez(tmp_path / "wrong.npz", x=np.zeros((2, 1, 4, 8, 9), np.float32))
    for name, (file, given) in {
        "shape": (model, tmp_path / "wrong.npz"),
        "program": (tmp_path / "net.pt2", good),
        "nothing": (tmp_path / "nowhere.onnx", good),
    }.items():
        if name == "program":
            file.write_bytes(b"PK\x03\x04")
        status, answer = command(capsys, file, "--calibration", given, "-o", out)
        assert status in (1, 2)
        refusals[name] = answer["detail"]
    assert "[1, 4, 8, 8]" in refusals["shape"]
    assert not out.exists()


def test_without_its_libraries_it_says_what_to_install(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = importlib.import_module

    def missing(name: str, package: str | None = None) -> Any:
        if name.startswith("onnx"):
            raise ModuleNotFoundError("No module named 'onnx'", name="onnx")
        return real(name, package)

    monkeypatch.setattr(importlib, "import_module", missing)
    given = [model, "--calibration", samples(tmp_path, 1, *SHAPE), "-o", tmp_path / "x.onnx"]
    status, answer = command(capsys, *given)
    assert (status, answer["code"], answer["extra"]) == (1, "missing_dependency", "quantize")


def test_tune_quantises_first_or_says_what_it_needs(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tuned: list[Any] = []

    def run(client: Any, request: Any, own: bool, display: Any) -> Any:
        tuned.append(request)
        raise JobFailed("enough")

    monkeypatch.setattr(tune, "run", run)
    out, samples_ = tmp_path / "out", samples(tmp_path, 2, *SHAPE)
    given = ["tune", str(model), "--calibration", str(samples_), "--server", "http://127.0.0.1:9", "--json"]
    for more, words in (
        (["--out", str(out)], "add --precision int8"),
        (["--precision", "int8"], "needs --out"),
        (["--precision", "int8", "--out", str(out), "--calibration", str(tmp_path / "no.npz")], "cannot read"),
    ):
        assert run_command_line([*given, *more]) == 2
        assert words in json.loads(capsys.readouterr().out)["detail"]
        assert not out.exists()
    assert run_command_line([*given, "--precision", "int8", "--out", str(out)]) == 1
    (request,) = tuned
    assert request.model == str(out / tune.QUANTISED)
    for tolerance, model_, wide in (("1", request.model, str(model)), ("1e-9", str(model), None)):
        assert run_command_line([*given, "--precision", "auto", "--tolerance", tolerance, "--out", str(out)]) == 1
        assert (tuned[-1].model, tuned[-1].wide) == (model_, wide)
    assert {"QuantizeLinear", "DequantizeLinear"} <= {node.op_type for node in onnx.load(request.model).graph.node}
