"""Recurrent layers of ONNX: what onnxruntime computes, with as few functions as a step has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from effort import THOROUGH
from onnx import TensorProto, helper, numpy_helper
from small_nets import Array, run_network

from tunesmith.errors import UnsupportedOperator
from tunesmith.preparation import PLAIN, Preparation
from workers.tvm_backend import tir
from workers.tvm_backend.frontends import import_model
from workers.tvm_backend.passes import pipeline

pytestmark = pytest.mark.parallel
WIDTH, HIDDEN = 12, 8
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
BLOCKED = Preparation(blocked=True, fast_math=True)


def layer(
    path: Path,
    name: str,
    steps: int = 5,
    batch: int = 2,
    bias: bool = True,
    first: bool = False,
    lengths: Any = None,
    peepholes: bool = False,
    **attrs: Any,
) -> Path:
    """A model of one layer."""
    rng, gates = np.random.default_rng(0), GATES[name]
    ways = 2 if attrs.get("direction") == "bidirectional" else 1
    given = {
        "w": (ways, gates * HIDDEN, WIDTH),
        "r": (ways, gates * HIDDEN, HIDDEN),
        "b": (ways, 2 * gates * HIDDEN),
        "h": (ways, batch, HIDDEN),
        "c": (ways, batch, HIDDEN),
        "p": (ways, 3 * HIDDEN),
    }
    weights = {key: 0.5 * rng.standard_normal(shape, np.float32) for key, shape in given.items()}
    if lengths is not None:
        weights["n"] = np.array(lengths, np.int32)
    inputs = ["x", "w", "r", "b" if bias else "", "" if lengths is None else "n", "h" if first else ""]
    if name == "LSTM":
        inputs += ["c" if first else "", "p" if peepholes else ""]
    outputs = ["y", "yh", "yc"][: 3 if name == "LSTM" else 2]
    node = helper.make_node(name, inputs, outputs, hidden_size=HIDDEN, **attrs)
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [node],
        "g",
        [value("x", TensorProto.FLOAT, [steps, batch, WIDTH])],
        [value(out, TensorProto.FLOAT, None) for out in outputs],
        [numpy_helper.from_array(weights[key], key) for key in weights if key in inputs],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8), path)
    return path


def both(path: Path, steps: int, batch: int, preparation: Preparation) -> tuple[list[Array], list[Array]]:
    x = np.random.default_rng(1).standard_normal((steps, batch, WIDTH), np.float32)
    theirs = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"x": x})
    return run_network(pipeline.prepare(import_model.import_model(path, "onnx"), preparation), x), theirs


CASES: list[tuple[str, dict[str, Any]]] = [
    ("LSTM", {}),
    ("LSTM", {"direction": "bidirectional", "first": True}),
    ("LSTM", {"direction": "bidirectional", "bias": False, "lengths": [5, 3], "peepholes": True, "first": True}),
    ("GRU", {"linear_before_reset": 1}),
    ("GRU", {"direction": "bidirectional", "first": True, "steps": 17}),
    ("GRU", {"direction": "reverse", "lengths": [2, 5]}),
    ("RNN", {"batch": 1, "steps": 33}),
    ("RNN", {"direction": "bidirectional", "activations": ["Tanh", "Tanh"]}),
    ("RNN", {"direction": "bidirectional", "activations": ["Relu", "Relu"], "bias": False}),
]
EVERY = [(*case, name) for case in CASES for name in ("plain", "blocked")]
CHOSEN = EVERY if THOROUGH else [*EVERY[::4], *EVERY[3::4]]


@pytest.mark.parametrize(("name", "options", "preparation"), CHOSEN, ids=str)
def test_as_onnxruntime(tmp_path: Path, name: str, options: dict[str, Any], preparation: str) -> None:
    """By turns in one preparation and the other, so that each kind of layer is in both."""
    ours, theirs = both(
        layer(tmp_path / "m.onnx", name, **options),
        options.get("steps", 5),
        options.get("batch", 2),
        PLAIN if preparation == "plain" else BLOCKED,
    )
    for a, b in zip(ours, theirs, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, atol=1e-5)


@pytest.mark.parametrize(("name", "lengths"), [("RNN", (32, 48)), ("GRU", (6, 9)), ("LSTM", (6, 9))], ids=str)
def test_steps_share_their_functions(tmp_path: Path, name: str, lengths: tuple[int, int]) -> None:
    few, many = (
        len(
            tir.load_module(
                pipeline.prepare(
                    import_model.import_model(layer(tmp_path / f"{steps}.onnx", name, steps), "onnx"), BLOCKED
                ).module
            ).functions
        )
        for steps in lengths
    )
    assert few == many


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"clip": 3.0}, "clip = 3"),
        ({"steps": 600}, "600 steps"),
        ({"activations": ["Sigmoid", "Relu", "Tanh"]}, "Sigmoid, Relu, Tanh"),
        ({"input_forget": 1}, "input_forget"),
    ],
    ids=str,
)
def test_what_is_refused_says_so(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UnsupportedOperator, match=message):
        import_model.import_model(layer(tmp_path / "m.onnx", "LSTM", **options), "onnx")
