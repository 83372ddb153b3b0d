"""The model of ``make tune``: made the same each time, and such that the check of its outputs finds a wrong kernel."""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path
from typing import Any

import onnx
import pytest

from tools import default_model
from tunesmith.measuring.checked import LEAST_DEPENDENCE, CheckState, judge
from tunesmith.targets import Target
from tunesmith.types import TensorSpec
from workers.protocol import ModelOutcome, ModelRequest
from workers.tvm_backend.warm import warm

warm("llvm")

import tvm  # noqa: E402
from tvm import rpc  # noqa: E402

from workers.tvm_backend.build import compile_model  # noqa: E402
from workers.tvm_backend.frontends import import_model  # noqa: E402
from workers.tvm_backend.passes import pipeline  # noqa: E402
from workers.tvm_backend.run import compare_models  # noqa: E402

pytestmark = pytest.mark.servers

CPU = Target({"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 2, "opt-level": 1})
"""Not wholly unoptimised: a run of the model would take a second."""
GRAPH = Path(onnx.__file__).parent / default_model.GRAPH
WINDOW = "T.int64(256), T.int64(13), T.int64(13), T.int64(64), T.int64(3), T.int64(3))"
"""Loops of the last 3 x 3 convolutions: output channels, image, input channels, window."""
DATA = (TensorSpec("float32", (1, 3, 224, 224), "data_0"),)


def test_its_bytes_are_the_same_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(default_model.sys, "prefix", str(tmp_path))
    paths = []
    for _ in range(2):
        assert default_model.main() == 0
        paths.append(Path(capsys.readouterr().out.strip()))
    assert paths[0] == paths[1]
    assert tmp_path in paths[0].parents, "it goes with the virtual environment"
    made = onnx.load(paths[0])
    weights = hashlib.sha256()
    for tensor in made.graph.initializer:
        weights.update(tensor.name.encode() + tensor.raw_data)
    assert weights.hexdigest()[:16] == "660488254f5c1955"
    assert [value.name for value in made.graph.input] == ["data_0"]
    assert paths[0].read_bytes() == default_model.content(GRAPH)
    assert paths[0].read_bytes() != default_model.content(GRAPH, seed=1)


def checked(path: Path, folder: Path) -> ModelOutcome:
    """The check of an ONNX file, whose second build has a wrong kernel."""
    made = pipeline.prepare(import_model.import_model(path, "onnx"))
    params = folder / "params.npz"
    pipeline.save_params(made.params, params)
    libraries = []
    for name, module in (("untuned", made.module), ("tuned", planted(made.module))):
        libraries.append(compile_model.compile_model(module, params, CPU, None, folder / f"{name}.so").path)
    session = rpc.LocalSession()
    request = ModelRequest(libraries[0], libraries[1], None, DATA, 0, 0.01, 60.0)
    return compare_models.compare(session, session.cpu(0), request, contextlib.nullcontext)


def planted(module: bytes) -> bytes:
    """The same model, two convolutions of which, of one kernel, forget the last row of their window."""
    mod = tvm.ir.load_json(module.decode())
    (variable,) = [name for name in mod.get_global_vars() if WINDOW in mod[name].script()]
    text = mod[variable].script().replace(WINDOW, WINDOW.replace("3", "2", 1))
    mod[variable] = tvm.script.from_source(text).with_attrs(mod[variable].attrs)
    return tvm.ir.save_json(mod).encode()


def test_a_wrong_kernel_in_it_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / default_model.NAME
    path.write_bytes(default_model.content(GRAPH))
    wrong = checked(path, tmp_path)
    assert wrong.failure is None, wrong.message
    assert judge(wrong.error, wrong.tolerance, wrong.signal) is CheckState.DIFFER, wrong
    assert wrong.signal is not None
    assert wrong.signal > 1000 * LEAST_DEPENDENCE
