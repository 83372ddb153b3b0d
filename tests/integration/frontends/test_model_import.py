from __future__ import annotations

import base64
import json
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from encoders import Encoder, save
from numerics import light_model
from onnx import TensorProto, helper
from small_nets import calls, run_network

from benchmarks.operators.onnx_models import write_operator
from tunesmith.errors import (
    DynamicShape,
    InvalidInput,
    InvalidOperator,
    MissingDependency,
    ModelRejected,
    NotAModel,
    TruncatedModel,
    UnsupportedOperator,
)
from tunesmith.operators import parse_operator
from tunesmith.options import JobOptions
from tunesmith.preparation import for_target, of_operator
from workers.tvm_backend.warm import warm

warm("llvm")

from workers.tvm_backend.frontends import import_model, operator_module  # noqa: E402
from workers.tvm_backend.frontends.operator_module import prepare_operator  # noqa: E402
from workers.tvm_backend.passes import extract_tasks, pipeline  # noqa: E402

pytestmark = pytest.mark.parallel


def make(path: Path, nodes: list[onnx.NodeProto], shape: list[object], weights: list[onnx.TensorProto] = ()) -> Path:  # type: ignore[assignment]
    """A model from ``x`` to ``y``."""
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "g", [value("x", TensorProto.FLOAT, shape)], [value("y", TensorProto.FLOAT, None)], list(weights)
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.mark.parametrize("content", [b"", b"hello, I am no model", b"\x89PNG\r\n\x1a\n" + bytes(64), b"\x00" * 100])
@pytest.mark.parametrize("source", ["onnx", "pt2"])
def test_not_a_model(tmp_path: Path, content: bytes, source: str) -> None:
    path = tmp_path / "model"
    path.write_bytes(content)
    with pytest.raises(NotAModel):
        import_model.import_model(path, source)


@pytest.mark.parametrize("share", [0.001, 0.3, 0.999])
def test_truncated_onnx(tmp_path: Path, share: float) -> None:
    data = light_model("squeezenet").read_bytes()
    path = tmp_path / "model.onnx"
    path.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(TruncatedModel):
        import_model.import_model(path, "onnx")


def test_unknown_source(tmp_path: Path) -> None:
    (tmp_path / "model").write_bytes(b"x")
    with pytest.raises(InvalidInput, match="onnx, pt2"):
        import_model.import_model(tmp_path / "model", "caffe")


def test_unsupported_operators_are_all_named_with_their_counts(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Frobnicate", ["x"], ["a"]),
        helper.make_node("Frobnicate", ["a"], ["b"]),
        helper.make_node("Relu", ["b"], ["c"]),
        helper.make_node("Twist", ["c"], ["y"], domain="acme"),
    ]
    with pytest.raises(UnsupportedOperator) as caught:
        import_model.import_model(make(tmp_path / "m.onnx", nodes, [1, 4]), "onnx")
    assert caught.value.extra["operators"] == {"Frobnicate": 2, "acme.Twist": 1}
    assert "Frobnicate (2×)" in caught.value.detail


def test_operators_of_branches_are_found(tmp_path: Path) -> None:
    value = helper.make_tensor_value_info("z", TensorProto.FLOAT, [1, 4])
    branch = helper.make_graph([helper.make_node("Frobnicate", ["x"], ["z"])], "branch", [], [value])
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["most"], keepdims=0),
        helper.make_node("Cast", ["most"], ["c"], to=TensorProto.BOOL),
        helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch),
    ]
    with pytest.raises(UnsupportedOperator) as caught:
        import_model.import_model(make(tmp_path / "m.onnx", nodes, [1, 4]), "onnx")
    assert caught.value.extra["operators"] == {"Frobnicate": 2}


def test_dynamic_dimension_is_named_and_can_be_fixed(tmp_path: Path) -> None:
    path = make(tmp_path / "m.onnx", [helper.make_node("Relu", ["x"], ["y"])], ["batch", 4])
    with pytest.raises(DynamicShape, match=r"'x'.*0 \('batch'\).*--input x=1,4") as caught:
        import_model.import_model(path, "onnx")
    assert caught.value.extra["dimensions"] == ["batch"]
    mod = import_model.import_model(path, "onnx", {"x": (3, 4)})
    assert pipeline.prepare(mod).inputs[0].shape == (3, 4)


@pytest.mark.parametrize("shapes", [{"z": (1, 4)}, {"x": (1, 5)}, {"x": (4,)}, {"x": (0, 4)}])
def test_shapes_that_contradict_the_model(tmp_path: Path, shapes: dict[str, tuple[int, ...]]) -> None:
    path = make(tmp_path / "m.onnx", [helper.make_node("Relu", ["x"], ["y"])], ["batch", 4])
    with pytest.raises(InvalidInput):
        import_model.import_model(path, "onnx", shapes)


def test_weights_outside_of_the_file(tmp_path: Path) -> None:
    weight = helper.make_tensor("w", TensorProto.FLOAT, [4], np.zeros(4, np.float32).tobytes(), raw=True)
    path = make(tmp_path / "m.onnx", [helper.make_node("Add", ["x", "w"], ["y"])], [1, 4], [weight])
    onnx.save(onnx.load(path), path, save_as_external_data=True, location="weights", size_threshold=0)
    with pytest.raises(ModelRejected, match="outside the file"):
        import_model.import_model(path, "onnx")


def test_a_model_that_tvm_cannot_convert(tmp_path: Path) -> None:
    path = make(tmp_path / "m.onnx", [helper.make_node("Reshape", ["x", "x"], ["y"])], [1, 4])
    with pytest.raises(ModelRejected, match=r"Reshape, which makes .y., cannot be imported"):
        import_model.import_model(path, "onnx")


@pytest.mark.parametrize(
    ("spec", "family", "flops"),
    [
        ("gemm:64x32x16", "matmul", 2 * 64 * 32 * 16),
        ("bmm:2x8x8x16", "batch_matmul", 2 * 2 * 8 * 8 * 16),
        ("dense:4x8x16", "dense", 2 * 4 * 8 * 16),
        ("conv2d:1x8x16x16,4x8x3x3,s1,p1", "conv2d", 2 * 4 * 16 * 16 * 8 * 9),
        ("depthwise:1x8x16x16,k3,s1,p1", "depthwise_conv2d", 2 * 8 * 16 * 16 * 9),
        ("softmax:2x3x4", "softmax", None),
        ("layernorm:8x16", "layer_norm", None),
    ],
)
def test_operator_specs(spec: str, family: str, flops: float | None) -> None:
    parsed = parse_operator(spec)
    prepared = pipeline.prepare(import_model.operator_module(parsed))
    assert prepared.inputs == parsed.inputs
    assert not prepared.params
    (task,) = extract_tasks.extract_tasks(prepared.module)
    assert task.workload.family == family
    assert task.workload.args[-1].shape == parsed.output.shape
    assert len(task.workload.args) == len(parsed.inputs) + 1
    assert flops is None or task.workload.flops == flops


@pytest.mark.parametrize("spec", ["gemm:8x32x16:bf16", "dense:8x32x16:bf16", "conv2d:1x16x8x8,16x16x3x3,s1,p1:bf16"])
def test_an_operator_in_bf16_is_what_its_model_is_with_that_precision(spec: str, tmp_path: Path) -> None:
    parsed = parse_operator(spec)
    preparation = of_operator("llvm", parsed)
    assert preparation == for_target("llvm", False, JobOptions(precision="bf16"))
    model = import_model.import_model(write_operator(spec, tmp_path / "m.onnx"), "onnx")
    both = prepare_operator(parsed, preparation), pipeline.prepare(model, preparation)
    ours, theirs = ([task.workload.hash for task in extract_tasks.extract_tasks(made.module)] for made in both)
    assert ours == theirs
    assert [each.name for each in both[0].inputs] == [t.name for t in parsed.inputs if t.name not in parsed.weights]


@pytest.mark.parametrize("spec", ["gemm:8x32x16:int8", "dense:8x32x16:int8", "conv2d:1x16x6x6,32x16x3x3,s1,p1:int8"])
def test_an_operator_in_int8_takes_and_makes_bytes(spec: str) -> None:
    parsed = parse_operator(spec)
    made = prepare_operator(parsed, of_operator("llvm", parsed))
    assert sum(count for name, count in calls(made.module).items() if "quads_requantized" in name) == 1
    assert [(each.name, each.dtype) for each in made.inputs] == [(parsed.inputs[0].name, "uint8")]
    codes = np.random.default_rng(0).integers(0, 256, parsed.inputs[0].shape).astype(np.uint8)
    (ours,) = run_network(made, codes)
    weight = operator_module.drawn(parsed, parsed.inputs[1]).value.numpy()
    x = torch.tensor((codes.astype(np.float32) - operator_module.CODE_OF_ZERO) * operator_module.INPUT_STEP)
    if parsed.kind == "conv2d":
        right = torch.nn.functional.conv2d(x, torch.tensor(weight), padding=1).numpy()
    else:
        right = x.numpy() @ (weight if parsed.kind == "gemm" else weight.T)
    expected = np.rint(np.clip(right / operator_module.OUTPUT_STEP + operator_module.CODE_OF_ZERO, 0, 255))
    assert (ours.dtype, ours.shape) == (np.uint8, parsed.output.shape)
    assert np.abs(ours.astype(int) - expected).max() <= 1, "one rounding may fall otherwise"
    assert (ours != expected).mean() < 0.01
    assert ours.std() > 20


@pytest.mark.parametrize("spec", ["gemm:8x32x15:bf16", "gemm:8x7x16:bf16", "gemm:8x32x14:int8"])
def test_an_operator_of_which_nothing_would_be_narrow_is_refused(spec: str) -> None:
    parsed = parse_operator(spec)
    with pytest.raises(InvalidOperator, match=r"would be computed in float32.*write its type as float32"):
        prepare_operator(parsed, of_operator("llvm", parsed))


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("encoder") / "encoder.pt2"
    save(Encoder(), (torch.randint(0, 500, (1, 32)),), path)
    return path


def test_encoder_by_torch_export(encoder: Path) -> None:
    prepared = pipeline.prepare(import_model.import_model(encoder, "pt2"))
    assert [(i.name, i.dtype, i.shape) for i in prepared.inputs] == [("ids", "int64", (1, 32))]
    found = extract_tasks.extract_tasks(prepared.module)
    families = {t.workload.family for t in found}
    assert {"matmul", "batch_matmul", "softmax", "layer_norm", "take"} <= families
    weights = {family: {t.weights for t in found if t.workload.family == family} for family in families}
    assert any(weights["matmul"])
    assert weights["batch_matmul"] == weights["softmax"] == weights["layer_norm"] == {()}  # the last one's are small
    sizes = {array.shape for array in prepared.params.values()}
    assert {t.workload.args[place].shape for t in found for place in t.weights} <= sizes


def test_truncated_archive(tmp_path: Path, encoder: Path) -> None:
    path = tmp_path / "model.pt2"
    path.write_bytes(encoder.read_bytes()[:5000])
    with pytest.raises(TruncatedModel):
        import_model.import_model(path, "pt2")


def test_dynamic_dimension_of_an_exported_program(tmp_path: Path) -> None:
    path = tmp_path / "dynamic.pt2"
    dynamic = {"ids": {0: torch.export.Dim("batch", max=8)}}
    save(Encoder(layers=1), (torch.randint(0, 500, (2, 32)),), path, dynamic)
    with pytest.raises(DynamicShape, match="'ids'"):
        import_model.import_model(path, "pt2")
    assert pipeline.prepare(import_model.import_model(path, "pt2", {"ids": (4, 32)})).inputs[0].shape == (4, 32)


def test_without_torch_the_extra_is_named(encoder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingDependency, match="extra 'torch'"):
        import_model.import_model(encoder, "pt2")


def test_names_of_a_model_stay_out_of_the_programs_that_users_share(tmp_path: Path) -> None:
    weight = onnx.numpy_helper.from_array(np.ones((64, 64), np.float32), "secret_weight")
    value = helper.make_tensor_value_info
    nodes = [
        helper.make_node("MatMul", ["secret_input", "secret_weight"], ["secret_mid"], name="secret_node"),
        helper.make_node("Relu", ["secret_mid"], ["secret_output"]),
    ]
    graph = helper.make_graph(
        nodes,
        "secret_graph",
        [value("secret_input", TensorProto.FLOAT, [8, 64])],
        [value("secret_output", TensorProto.FLOAT, [8, 64])],
        [weight],
    )
    path = tmp_path / "secret_file.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    made = pipeline.prepare(import_model.import_model(path, "onnx"))
    assert [spec.name for spec in made.inputs] == ["secret_input"]
    for task in extract_tasks.extract_tasks(made.module):
        shared = task.module + task.metaschedule + base64.b64decode(json.loads(task.metaschedule)[1])
        assert b"secret" not in shared
        assert "secret" not in task.workload.name
