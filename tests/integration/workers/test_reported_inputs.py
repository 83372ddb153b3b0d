"""Kinds of models that public reports say went wrong elsewhere, through ``tunesmith compile``: right, or refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
import torch
import torch.nn.functional as F
from effort import quick
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from onnx.helper import make_node
from torch import Tensor

from tunesmith.cli.main import run_command_line
from tunesmith.preparation import for_target

import tvm  # isort: skip
from tvm import relax  # isort: skip

pytestmark = pytest.mark.parallel
Array = NDArray[Any]
Arrays = dict[str, Array]
Nodes = list[onnx.NodeProto]
RNG = np.random.default_rng(11)
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def drawn(*shape: int, scale: float = 0.3) -> Array:
    return (RNG.standard_normal(shape) * scale).astype(np.float32)


def model(
    nodes: Nodes,
    inputs: Mapping[str, tuple[int, tuple[int, ...]]],
    outputs: Mapping[str, int],
    weights: Mapping[str, Array],
    opset: int = 17,
) -> onnx.ModelProto:
    given = [helper.make_tensor_value_info(name, *kind) for name, kind in inputs.items()]
    made = [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs.items()]
    stored = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "g", given, made, stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=4 if opset < 17 else 10)


def command(path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    """Status and answer of ``tunesmith compile`` with a log in which every task keeps its default schedule."""
    log = path.with_name("best.jsonl")
    provenance = {"preparation": for_target("llvm", operator=False).key}
    log.write_text(json.dumps({"schema": "tunesmith.schedule/1", "trace": None, "provenance": provenance}) + "\n")
    arguments = ["compile", str(path), "--log", str(log), "-o", str(path.with_suffix(".so"))]
    status = run_command_line(
        [*arguments, "--target", json.dumps(quick({"mcpu": "x86-64-v3", "num-cores": 1})), "--json"]
    )
    return status, json.loads(capsys.readouterr().out)


def results(path: Path, capsys: pytest.CaptureFixture[str], *inputs: Any) -> list[Array]:
    """What the compiled library makes of the inputs."""
    status, answer = command(path, capsys)
    assert status == 0, answer
    machine: Any = relax.VirtualMachine(tvm.runtime.load_module(answer["path"]), tvm.cpu())
    given = [tvm.runtime.from_dlpack(x) if isinstance(x, Tensor) else tvm.runtime.tensor(x) for x in inputs]
    return [each.numpy() for each in machine["main"](*given)]


def by_onnxruntime(made: onnx.ModelProto, inputs: Arrays) -> list[Array]:
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    found: list[Array] = session.run(None, inputs)
    return found


KERNEL, TABLE, KINDS, DENSE = drawn(4, 4, 3, 3), drawn(10, 8), drawn(2, 8), drawn(8, 8)
CONSTANTS: Arrays = {
    "kernel": KERNEL,
    "table": TABLE,
    "kinds": KINDS,
    "dense": DENSE,
    "row": drawn(1, 8),
    "at row": np.full((1, 8), 1),
    "nothing": np.zeros((2, 3, 0), np.float32),
    "three": np.array(3),
    "also three": np.array([3]),
    "off and on": np.array([0.5, 2.0], np.float32),
    "low": np.array(0.0, np.float32),
    "high": np.array(6.0, np.float32),
}
INPUTS: Mapping[str, tuple[int, tuple[int, ...]]] = {
    "x": (FLOAT, (1, 4, 6, 6)),
    "m": (FLOAT, (4, 8)),
    "word": (INT64, (1, 4)),
    "kind": (INT64, (1, 4)),
    "class": (INT64, (4,)),
    "a": (INT64, (4,)),
    "b": (INT64, (4,)),
    "cache": (FLOAT, (5, 8)),
    "place": (INT64, (4, 1)),
    "rows": (INT64, (1, 8)),
    "past": (FLOAT, (1, 0, 8)),
}
VALUES: Arrays = {
    "x": np.where(np.arange(144).reshape(1, 4, 6, 6) % 37 == 5, np.nan, drawn(1, 4, 6, 6)).astype(np.float32),
    "m": drawn(4, 8, scale=1.0),
    "word": np.array([[0, 9, -1, 4]]),
    "kind": np.array([[0, 1, 1, -2]]),
    "class": np.array([-3, 0, 2, -1]),
    "a": np.array([7, -7, 20, -1]),
    "b": np.array([3, 3, -3, -2]),
    "cache": drawn(5, 8),
    "place": np.array([[4], [-4], [0], [2]]),
    "rows": RNG.integers(-4, 4, (1, 8)),
    "past": np.zeros((1, 0, 8), np.float32),
}
MADE: Mapping[str, tuple[int, Nodes]] = {
    # NaN comes out of whatever it goes into.
    "relu": (FLOAT, [make_node("Conv", ["x", "kernel"], ["c"], pads=[1] * 4), make_node("Relu", ["c"], ["relu"])]),
    "clip": (FLOAT, [make_node("Clip", ["c", "low", "high"], ["clip"])]),
    "max": (FLOAT, [make_node("Max", ["c", "low"], ["max"])]),
    "leaky": (FLOAT, [make_node("LeakyRelu", ["c"], ["leaky"])]),
    "pool": (FLOAT, [make_node("MaxPool", ["x"], ["pool"], kernel_shape=[2, 2], strides=[2, 2])]),
    "largest": (FLOAT, [make_node("ReduceMax", ["x"], ["largest"], axes=[1])]),
    "curves": (FLOAT, [make_node("Erf", ["x"], ["e"]), make_node("Tanh", ["e"], ["curves"])]),
    # Inputs that index and divide, also from the end.
    "found": (
        FLOAT,
        [
            make_node("Gather", ["table", "word"], ["words"]),
            make_node("Gather", ["kinds", "kind"], ["of kind"]),
            make_node("Add", ["words", "of kind"], ["found"]),
        ],
    ),
    "quotient": (INT64, [make_node("Div", ["a", "b"], ["quotient"])]),
    "left": (INT64, [make_node("Mod", ["a", "b"], ["left"])]),
    # Writes, which no schedule of TVM's is for.
    "product": (FLOAT, [make_node("MatMul", ["m", "dense"], ["product"])]),
    "written": (FLOAT, [make_node("ScatterElements", ["product", "at row", "row"], ["written"], axis=0)]),
    "elements": (FLOAT, [make_node("ScatterElements", ["product", "rows", "row"], ["elements"], axis=0)]),
    "cached": (FLOAT, [make_node("ScatterND", ["cache", "place", "product"], ["cached"])]),
    "gathered": (FLOAT, [make_node("GatherElements", ["product", "rows"], ["gathered"], axis=0)]),
    # How many there are depends on the numbers.
    "places": (INT64, [make_node("NonZero", ["left"], ["places"])]),
    # No vector instruction, no elements, numbers of any type.
    "bent": (FLOAT, [make_node("Sinh", ["m"], ["bent"])]),
    "none": (FLOAT, [make_node("Identity", ["nothing"], ["none"])]),
    "joined": (
        FLOAT,
        [
            make_node("Unsqueeze", ["m", "first"], ["new"]),
            make_node("Concat", ["past", "new"], ["joined"], axis=1),
        ],
    ),
    "classes": (FLOAT, [make_node("OneHot", ["class", "three", "off and on"], ["classes"])]),
    "on top": (FLOAT, [make_node("OneHot", ["class", "also three", "off and on"], ["on top"], axis=0)]),
}


def test_inputs_that_need_care_are_computed_as_onnxruntime_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = [node for _, made in MADE.values() for node in made]
    constants = {**CONSTANTS, "first": np.array([0])}
    net = model(nodes, INPUTS, {name: kind for name, (kind, _) in MADE.items()}, constants)
    onnx.save(net, tmp_path / "net.onnx")
    ours = results(tmp_path / "net.onnx", capsys, *VALUES.values())
    x, expected = VALUES["x"], dict(zip(MADE, by_onnxruntime(net, VALUES), strict=True))
    # onnxruntime's maxima keep NaN in some places alone; NumPy's keep it everywhere.
    expected.update(pool=x.reshape(1, 4, 3, 2, 3, 2).max((3, 5)), largest=x.max(1, keepdims=True))
    for found, (name, right) in zip(ours, expected.items(), strict=True):
        assert (found.shape, found.dtype) == (right.shape, right.dtype), name
        np.testing.assert_allclose(found, right, 1e-4, 1e-5, err_msg=name)
    assert np.isnan(ours[0]).any()


def test_weights_in_bfloat16_and_in_blocks_of_four_bits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kind = ml_dtypes.bfloat16
    nodes = [
        make_node("Cast", ["x"], ["short"], to=TensorProto.BFLOAT16),
        make_node("MatMul", ["short", "w"], ["product"]),
        make_node("Add", ["product", "bias"], ["sum"]),
        make_node("Softmax", ["sum"], ["parts"]),
        make_node("Cast", ["parts"], ["y"], to=FLOAT),
        make_node("DequantizeLinear", ["q", "scale"], ["wide"], axis=0, block_size=8),
        make_node("MatMul", ["x", "wide"], ["z"]),
    ]
    whole, scale = RNG.integers(-8, 8, (16, 8)), np.abs(drawn(2, 8))
    weights = {"w": drawn(16, 8).astype(kind), "bias": drawn(8).astype(kind), "scale": scale}
    net = model(nodes, {"x": (FLOAT, (4, 16))}, {"y": FLOAT, "z": FLOAT}, weights, 21)
    net.graph.initializer.append(helper.make_tensor("q", TensorProto.INT4, [16, 8], whole.flatten().tolist()))
    onnx.save(net, tmp_path / "net.onnx")
    x = drawn(4, 16, scale=1.0)
    powers = np.exp(x.astype(kind).astype("f") @ weights["w"].astype("f") + weights["bias"].astype("f"))
    parts, product = results(tmp_path / "net.onnx", capsys, x)
    np.testing.assert_allclose(parts, powers / powers.sum(-1, keepdims=True), 3e-2)
    np.testing.assert_allclose(product, x @ (whole * np.repeat(scale, 8, 0)), 1e-4, 1e-5)


def test_operands_along_an_axis_as_before_opset_7(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nodes = [
        make_node("Add", ["x", "bias"], ["sum"], broadcast=1, axis=1),
        make_node("Mul", ["sum", "rows"], ["y"], broadcast=1, axis=2),
        make_node("Sub", ["x", "first"], ["z"], broadcast=1, axis=0),
    ]
    weights = {"bias": drawn(3), "rows": drawn(4), "first": drawn(2)}
    onnx.save(model(nodes, {"x": (FLOAT, (2, 3, 4, 4))}, {"y": FLOAT, "z": FLOAT}, weights, 6), tmp_path / "net.onnx")
    x = drawn(2, 3, 4, 4)
    found = results(tmp_path / "net.onnx", capsys, x)
    product = (x + weights["bias"].reshape(1, 3, 1, 1)) * weights["rows"].reshape(1, 1, 4, 1)
    for ours, right in zip(found, (product, x - weights["first"].reshape(2, 1, 1, 1)), strict=True):
        np.testing.assert_allclose(ours, right, 1e-5, 1e-6)


def test_bounds_as_attributes_as_before_opset_10(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nodes = [
        make_node("Slice", ["x"], ["s"], axes=[2, 3], starts=[1, -5], ends=[7, np.iinfo(np.int64).max]),
        make_node("Pad", ["s"], ["p"], mode="constant", pads=[0, 0, 1, 1, 0, 0, 1, 1], value=0.5),
        make_node("Clip", ["p"], ["y"], min=-1.0, max=1.0),
        make_node("Slice", ["y"], ["t"], starts=[0, 1], ends=[1, 3]),
        make_node("ReduceMean", ["t"], ["mean"], axes=[2, 3], keepdims=0),
        make_node("Unsqueeze", ["mean"], ["z"], axes=[2]),
    ]
    net = model(nodes, {"x": (FLOAT, (1, 3, 8, 8))}, {"y": FLOAT, "z": FLOAT}, {}, 9)
    onnx.save(net, tmp_path / "net.onnx")
    x = drawn(1, 3, 8, 8, scale=1.0)
    for found, right in zip(results(tmp_path / "net.onnx", capsys, x), by_onnxruntime(net, {"x": x}), strict=True):
        np.testing.assert_allclose(found, right, 1e-5, 1e-6)


X = {"x": (FLOAT, (1, 4, 6, 6))}
NUMBERS: Mapping[str, tuple[int, tuple[int, ...]]] = dict.fromkeys(("start", "end", "step"), (INT64, ()))
BOXES: Mapping[str, tuple[int, tuple[int, ...]]] = {
    "boxes": (FLOAT, (1, 4, 4)),
    "scores": (FLOAT, (1, 1, 4)),
    "most": (INT64, (1,)),
}


def one(op: str, inputs: Mapping[str, Any], weights: Mapping[str, Array], opset: int) -> Any:
    node = make_node(op, [*inputs, *weights], ["y"], name="asked")
    return lambda: model([node], inputs, {"y": FLOAT}, weights, opset)


def outside() -> onnx.ModelProto:
    """A constant of which only a place in another file is said."""
    tensor = TensorProto(name="k", data_type=FLOAT, dims=[6], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="/etc/hostname")
    nodes = [make_node("Constant", [], ["k"], value=tensor), make_node("Add", ["x", "k"], ["y"])]
    return model(nodes, X, {"y": FLOAT}, {})


def sparse() -> onnx.ModelProto:
    values, at = numpy_helper.from_array(drawn(2), "k"), numpy_helper.from_array(np.array([1, 5]), "at")
    net = model([make_node("MatMul", ["x", "k"], ["y"])], X, {"y": FLOAT}, {})
    net.graph.sparse_initializer.append(helper.make_sparse_tensor(values, at, [6, 6]))
    return net


TRAINING: Arrays = {"ratio": np.array(0.5, np.float32), "training": np.array(True)}
REFUSED: Mapping[str, tuple[Callable[[], onnx.ModelProto], str, tuple[str, ...]]] = {
    "outside": (outside, "model_rejected", ("'k'", "graph.node[0]")),
    "range": (one("Range", NUMBERS, {}, 13), "unsupported_operator", ("Range",)),
    "counted": (one("NonMaxSuppression", BOXES, {}, 11), "unsupported_operator", ("max_output_boxes_per_class",)),
    "training": (one("Dropout", X, TRAINING, 13), "unsupported_operator", ("Dropout", "training_mode")),
    "sparse": (sparse, "model_rejected", ("'k'", "sparse")),
    "text": (
        one("Identity", {"words": (TensorProto.STRING, (4,))}, {}, 13),
        "model_rejected",
        ("'words'", "text"),
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_in_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    make, code, words = REFUSED[name]
    onnx.save(make(), tmp_path / "net.onnx")
    check_refusal(*command(tmp_path / "net.onnx", capsys), code, words)


def check_refusal(status: int, answer: Mapping[str, Any], code: str, words: tuple[str, ...]) -> None:
    assert (status, answer["code"]) == (1, code), answer
    assert [word for word in words if word not in answer["detail"]] == [], answer["detail"]


class Function(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Tensor) -> Any:
        return self.function(*inputs)


def export(path: Path, function: Callable[..., Any], *inputs: Tensor) -> Path:
    torch.export.save(torch.export.export(Function(function), inputs), path)
    return path


SEEDED = torch.Generator().manual_seed(0)
M, W, B = (torch.randn(*shape, generator=SEEDED) for shape in ((8, 32), (16, 32), (16,)))


def program(x: Tensor, half: Tensor, double: Tensor, short: Tensor, at: Tensor) -> tuple[Tensor, ...]:
    """What PyTorch programs hold that is easily computed as something else."""
    square, total = x @ x.T, (x @ x.T).sum()
    holes = torch.where(x > 1, torch.nan, x)
    mask = (x[0] > 0)[:, None] * (x[1] > 0)[None]
    return (
        F.linear(half, W.half(), B.half()),
        F.linear(double, W.double(), B.double()),
        F.layer_norm(short, (32,)),
        *F.max_pool2d(x[None, None], 2, return_indices=True),
        x.sum().argmax() + square.argmax(),
        torch.softmax(total, 0),
        total.cumsum(0),
        total.sort()[0],
        *(x[:0], x[:0].mean(0), x[:0].sum(0)),
        torch.logaddexp(square, x[:, :8]),
        mask.float() @ x.T,
        ((x > 0) + (x < -1)).sum(),
        torch.zeros(6, 7).scatter(0, at, square[:3, :7]),
        *(F.relu(holes), holes.clamp(-1, 1), holes.clamp(min=0)),
        *(torch.maximum(holes, holes.flip(1)), torch.minimum(holes, holes.flip(1))),
        *(holes.amax(1), holes.amin(0), holes.max(), *holes.max(1), *holes.min(0)),
    )


def test_pytorch_programs_that_need_care(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    at = torch.randint(0, 5, (3, 7), generator=SEEDED)
    inputs = (M, M.half(), M.double(), M.bfloat16(), at)
    expected = program(*inputs)
    ours = results(export(tmp_path / "net.pt2", program, *inputs), capsys, *inputs)
    for number, (found, right) in enumerate(zip(ours, expected, strict=True)):
        tolerance = 2e-2 if right.dtype in (torch.float16, torch.bfloat16) else 1e-4
        wide = right.double().numpy()
        np.testing.assert_allclose(found.astype(np.float64), wide, tolerance, tolerance, err_msg=f"output {number}")
        assert str(found.dtype) == str(right.dtype).removeprefix("torch.")


@pytest.mark.parametrize(
    ("function", "code", "words"),
    [
        (lambda x: x @ x.T + torch.randn(8, 8), "unsupported_operator", ("draws random numbers", "aten.randn.default")),
        (lambda x: (x @ x.T, x.shape[0]), "model_rejected", ("output 1", "8", "no tensor")),
    ],
    ids=["random", "size"],
)
def test_pytorch_programs_that_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], function: Callable[..., Any], code: str, words: tuple[str, ...]
) -> None:
    check_refusal(*command(export(tmp_path / "net.pt2", function, M), capsys), code, words)
