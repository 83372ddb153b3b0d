"""Blocked layouts: the same results, and no more conversions than there should be."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path

import numerics
import numpy as np
import onnx
import pytest
import torch
from effort import examples, some
from encoders import Encoder, save
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from layout_nets import CASES, Outputs, causal, chains, groups_of_blocks, padded, residual, separable, shuffled
from numpy.lib.stride_tricks import sliding_window_view
from onnx import TensorProto, helper
from small_nets import Array, Net, bare, by_onnxruntime, calls, run_network

from tunesmith.operators import parse_operator
from tunesmith.preparation import PLAIN, Preparation
from tunesmith.targets import Target
from workers.tvm_backend.warm import warm

warm("llvm")

import tvm  # noqa: E402

from workers.tvm_backend import tir  # noqa: E402
from workers.tvm_backend.design_space import space  # noqa: E402
from workers.tvm_backend.frontends import import_model  # noqa: E402
from workers.tvm_backend.passes import extract_tasks, fold_constants, layout, pipeline  # noqa: E402
from workers.tvm_backend.passes.layout import packing  # noqa: E402
from workers.tvm_backend.passes.layout.compute import LANES  # noqa: E402
from workers.tvm_backend.passes.layout.transposed import Axis, phase_weight  # noqa: E402

pytestmark = pytest.mark.parallel

BLOCKED = Preparation(blocked=True)
FEW = settings(max_examples=examples(10), deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)


def prepared(path: Path, preparation: Preparation = BLOCKED) -> pipeline.Prepared:
    return pipeline.prepare(import_model.import_model(path, "onnx"), preparation)


def close(ours: list[Array], theirs: list[Array]) -> None:
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4 * float(np.abs(b).max()))


def conversions(made: pipeline.Prepared) -> tuple[int, int]:
    """Into blocks and back, each as a function of its own or fused with others."""
    found = calls(made.module)
    return tuple(sum(count * name.count(word) for name, count in found.items()) for word in ("to_blocked", "to_plain"))


@pytest.mark.parametrize(("network", "extents", "count", "converted"), CASES, ids=[case[0].__name__ for case in CASES])
def test_results_and_conversions(
    tmp_path: Path, network: Callable[[Net], Outputs], extents: tuple[int, ...], count: int, converted: tuple[int, int]
) -> None:
    net = Net(*extents)
    path = net.save(tmp_path / "model.onnx", *network(net))
    made, x = prepared(path), net.rng.standard_normal(extents).astype(np.float32)
    found = calls(made.module)
    assert sum(n for name, n in found.items() if "conv2d_blocked" in name or "matmul_packed" in name) == count, found
    assert conversions(made) == converted, found
    close(run_network(made, x), by_onnxruntime(path, x))


def test_groups_are_products_with_their_epilogues(tmp_path: Path) -> None:
    net = Net(1, 12, 6, 5)
    made = prepared(net.save(tmp_path / "model.onnx", *shuffled(net)))
    found = calls(made.module)
    assert "reshape" not in found, "a view is no task"
    assert found["fused_group_matmul_add_relu"] == 3, found
    families = {bare(task.workload.name): task.workload.family for task in extract_tasks.extract_tasks(made.module)}
    assert families["fused_group_matmul_add_relu"] == "batch_matmul"
    assert found["fused_group_matmul_add_add_relu"] == 2, found
    assert found["group_matmul"] + found["fused_group_matmul_add"] == 1, found


@pytest.mark.parametrize(("network", "extents", "kept"), [(causal, (1, 20, 12), 0), (padded, (1, 16, 8, 8), 4)])
def test_zeros_around_a_map_are_the_convolutions_own(
    tmp_path: Path, network: Callable[[Net], Outputs], extents: tuple[int, ...], kept: int
) -> None:
    net = Net(*extents)
    found = calls(prepared(net.save(tmp_path / "model.onnx", *network(net))).module)
    assert sum(count for name, count in found.items() if "pad" in name) == kept, found


def test_bounds_of_an_old_operator_set(tmp_path: Path) -> None:
    net = Net(1, 16, 6, 6, opset=10)
    y = net.clip(net.conv("x", 20), 0.0, 0.5)
    path = net.save(tmp_path / "model.onnx", net.conv(net.depthwise(y), 16))
    made, x = prepared(path), net.rng.standard_normal((1, 16, 6, 6)).astype(np.float32)
    assert conversions(made) == (0, 1)
    close(run_network(made, x), by_onnxruntime(path, x))


@FEW
@given(chains())
def test_random_networks(tmp_path_factory: pytest.TempPathFactory, chain: tuple[Net, str]) -> None:
    net, out = chain
    path = net.save(tmp_path_factory.mktemp("net") / "model.onnx", out)
    x = net.rng.standard_normal(net.shapes["x"]).astype(np.float32)
    theirs = by_onnxruntime(path, x)
    assert np.isfinite(theirs[0]).all()
    close(run_network(prepared(path), x), theirs)


@given(st.integers(1, 40), st.integers(1, 40), st.sampled_from([1, LANES]))
def test_packed_weights_hold_every_weight_and_zeros(outs: int, channels: int, inner: int) -> None:
    weight = np.arange(1, 1 + outs * channels * 6, dtype=np.float32).reshape(outs, channels, 2, 3)
    packed = packing.conv2d_weight(weight, inner)
    for o, c in ((0, 0), (outs - 1, channels - 1), (outs // 2, channels // 2)):
        assert (packed[o // LANES, c // inner, :, :, c % inner, o % LANES] == weight[o, c]).all()
    assert np.count_nonzero(packed) == weight.size


@given(st.integers(1, 3), st.sampled_from([1, 2, 4]), st.sampled_from([16, 32]), st.sampled_from([16, 48]))
def test_groups_that_are_joined_do_not_meet(sets: int, joined: int, outs: int, channels: int) -> None:
    groups = sets * joined
    weight = np.arange(1, 1 + sets * outs * channels // joined * 2, dtype=np.float32)
    weight = weight.reshape(sets * outs, channels // joined, 1, 2)
    packed = packing.group_weight(weight, groups, joined)
    assert packed.shape == (sets * outs // LANES, channels // LANES, 1, 2, LANES, LANES)
    assert np.count_nonzero(packed) == weight.size
    for o, c in ((0, 0), (sets * outs - 1, weight.shape[1] - 1)):
        within = o // (sets * outs // groups) % joined * weight.shape[1] + c
        assert (packed[o // LANES, within // LANES, :, :, within % LANES, o % LANES] == weight[o, c]).all()


@given(
    st.tuples(*[st.integers(1, 5)] * 2),
    st.tuples(*[st.integers(1, 6)] * 2),
    st.tuples(*[st.integers(1, 4)] * 2),
    st.data(),
)
def test_phases_give_what_a_transposed_convolution_does(
    size: tuple[int, int], kernel: tuple[int, int], stride: tuple[int, int], data: st.DataObject
) -> None:
    rng = np.random.default_rng(0)
    x, weight = rng.normal(size=(2, *size)), rng.normal(size=(2, 3, *kernel))
    extra = [data.draw(st.integers(0, s - 1)) for s in stride]
    whole = [(n - 1) * s + k + more for n, s, k, more in zip(size, stride, kernel, extra, strict=True)]
    full = np.zeros((3, *whole))
    for i, j in np.ndindex(*size):
        full[:, i * stride[0] : i * stride[0] + kernel[0], j * stride[1] : j * stride[1] + kernel[1]] += np.einsum(
            "c,cokl->okl", x[:, i, j], weight
        )
    start = [data.draw(st.integers(0, extent - 1)) for extent in whole]
    stop = [data.draw(st.integers(first + 1, extent)) for first, extent in zip(start, whole, strict=True)]
    axes = [Axis.of(n, e - b, k, s, b) for n, b, e, k, s in zip(size, start, stop, kernel, stride, strict=True)]
    if axes[0] is None or axes[1] is None:
        assert any((e - 1) // s < n - 1 for e, s, n in zip(stop, stride, size, strict=True)), "inputs without outputs"
        return
    rows, columns = axes
    padded = np.pad(x, ((0, 0), (rows.before, rows.after), (columns.before, columns.after)))
    windows = sliding_window_view(padded, (rows.taps, columns.taps), (1, 2))
    found = np.einsum("cyxkl,ockl->oyx", windows, phase_weight(weight, rows, columns))
    assert found.shape[1:] == (rows.steps, columns.steps)
    split = found.reshape(*stride, 3, rows.steps, columns.steps).transpose(2, 3, 0, 4, 1)
    ours = split.reshape(3, rows.steps * stride[0], -1)[:, rows.cut :, columns.cut :]
    theirs = full[:, start[0] : stop[0], start[1] : stop[1]]
    np.testing.assert_allclose(ours[:, : theirs.shape[1], : theirs.shape[2]], theirs, atol=1e-12)


@given(st.integers(1, 200))
def test_panels_divide_the_columns(columns: int) -> None:
    lanes = packing.panel_lanes(columns, 4)
    fitting = [width for width in (4, 8, 16) if columns % width == 0]
    assert lanes == (max(fitting) if fitting else None)


def test_a_network_without_convolutions_gains_nothing(tmp_path: Path) -> None:
    net = Net(1, 32, 6, 6)
    y = net.op("MaxPool", net.op("Relu", "x"), kernel_shape=[2, 2])
    path = net.save(tmp_path / "model.onnx", net.op("Mul", y, net.random(1, 32, 1, 1)))
    assert prepared(path).module == prepared(path, PLAIN).module


@pytest.mark.parametrize(("kernel", "channels", "blocked"), [(1, 16, 0), (3, 64, 1)])
def test_a_convolution_between_plain_operators_pays_for_its_conversions(
    tmp_path: Path, kernel: int, channels: int, blocked: int
) -> None:
    net = Net(1, channels, 6, 6)
    turned = net.op("Transpose", "x", perm=[0, 1, 3, 2])
    out = net.op("Softmax", net.conv(turned, channels, kernel), axis=3)
    made = prepared(net.save(tmp_path / "model.onnx", out))
    assert conversions(made) == (0, blocked)


def test_an_operator_alone_keeps_its_layouts() -> None:
    mod = import_model.operator_module(parse_operator("conv2d:1x16x8x8,16x16x3x3"))
    assert calls(pipeline.prepare(mod).module) == {"conv2d": 1}
    assert calls(pipeline.prepare(mod, BLOCKED).module) == {"conv2d": 1}, "weights that are inputs cannot be packed"


def test_control_flow_is_left_alone(tmp_path: Path) -> None:
    def value(name: str, kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, kind, [1, 16, 4, 4] if kind == TensorProto.FLOAT else [])

    branches = [
        helper.make_graph([helper.make_node(kind, ["y"], [kind])], kind, [], [value(kind)]) for kind in ("Relu", "Neg")
    ]
    net = Net(1, 16, 4, 4)
    net.conv("x", 16)
    net.nodes[-1].output[0] = "y"
    net.nodes.append(helper.make_node("If", ["cond"], ["out"], then_branch=branches[0], else_branch=branches[1]))
    inputs = [value("x"), value("cond", TensorProto.BOOL)]
    graph = helper.make_graph(net.nodes, "net", inputs, [value("out")], net.weights)
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8), path)
    mod = import_model.import_model(path, "onnx")
    assert layout.block(mod) is mod


def test_families_and_fusion(tmp_path: Path) -> None:
    net = Net(1, 16, 6, 6)
    path = net.save(tmp_path / "model.onnx", *separable(net), *residual(net))
    found = extract_tasks.extract_tasks(prepared(path).module)
    names = {bare(task.workload.name): task.workload.family for task in found}
    assert names["fused_conv2d_blocked_add_add_relu"] == "conv2d", "bias, residual and activation join the kernel"
    assert names["fused_depthwise_conv2d_blocked_add_maximum_minimum"] == "depthwise_conv2d"
    assert extract_tasks.family("fused_matmul_packed3_add1", ()) == "matmul"
    for kind in ("conv2d_pairs", "group_conv2d_pairs", "matmul_pairs"):
        assert extract_tasks.family(f"fused_{kind}2_add_relu_to_bf16", ()) == kind, "precision is part of a family"
    net = Net(1, 32, 6, 6)
    found = extract_tasks.extract_tasks(prepared(net.save(path, *groups_of_blocks(net))).module)
    assert sum(task.workload.family == "group_conv2d" for task in found) == 3


def test_bounds_are_folded_when_a_model_is_imported(tmp_path: Path) -> None:
    net = Net(1, 16, 6, 6)
    mod = fold_constants.fold(
        import_model.import_model(net.save(tmp_path / "model.onnx", net.clip("x", 0.0, 6.0)), "onnx")
    )
    text = tvm.relax.transform.DeadCodeElimination()(mod).script()
    assert "maximum" in text
    assert "isnan" not in text


def test_bounds_are_literals_and_keep_nan(tmp_path: Path) -> None:
    net = Net(1, 16, 2, 4)
    made = prepared(net.save(tmp_path / "model.onnx", net.clip("x", -0.5, 6.0)))
    (task,) = extract_tasks.extract_tasks(made.module)
    assert len(task.workload.args) == 2, "a bound is no argument"
    assert "isnan" not in tir.load_module(task.module).script(), "a comparison with NaN is false"
    x = np.resize(np.array([np.nan, np.inf, -np.inf, -0.5, -0.0, 0.25, 6.0, 7.0], np.float32), (1, 16, 2, 4))
    np.testing.assert_array_equal(run_network(made, x)[0], np.clip(x, -0.5, 6.0))


def test_encoder_is_packed(tmp_path: Path) -> None:
    torch.manual_seed(0)
    encoder, ids = Encoder(width=32, heads=2, layers=1, tokens=8).eval(), torch.randint(0, 500, (1, 8))
    save(encoder, (ids,), tmp_path / "encoder.pt2")
    made = pipeline.prepare(import_model.import_model(tmp_path / "encoder.pt2", "pt2"), BLOCKED)
    found = calls(made.module)
    assert sum(n for name, n in found.items() if "matmul_packed" in name) == 5
    assert conversions(made) == (0, 0)
    assert found["fused_matmul_packed_add_gelu"] == 1, "the reshapes that regroup tokens are gone"
    assert found["fused_matmul_packed_add_add"] == 2, found
    with torch.no_grad():
        close(run_network(made, ids.numpy()), [encoder(ids).numpy()])


class Tail(torch.nn.Module):
    """What models of torch hold and those of ONNX do not: adaptive pooling, bounds as one operator, means of axes."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Conv2d(3, 20, 3, stride=2, padding=1)
        self.norm, self.second = torch.nn.BatchNorm2d(20), torch.nn.Conv2d(20, 32, 3, groups=1)
        self.last = torch.nn.Linear(128, 24)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = torch.nn.functional.hardswish(torch.nn.functional.relu6(self.norm(self.first(x))))
        z = torch.nn.functional.adaptive_avg_pool2d(torch.nn.functional.silu(self.second(y)), (2, 2))
        return self.last(torch.flatten(z, 1)), y.mean((2, 3))


def test_a_model_of_torch(tmp_path: Path) -> None:
    torch.manual_seed(0)
    net, x = Tail().eval(), torch.randn(1, 3, 12, 13)
    save(net, (x,), tmp_path / "net.pt2")
    made = pipeline.prepare(import_model.import_model(tmp_path / "net.pt2", "pt2"), BLOCKED)
    found = calls(made.module)
    assert found["adaptive_avg_pool2d"] == 1
    assert conversions(made) == (0, 2), found
    with torch.no_grad():
        close(run_network(made, x.numpy()), [out.numpy() for out in net(x)])


NORMS = [
    (torch.nn.GroupNorm(4, 20), (2, 20, 5, 7)),
    (torch.nn.GroupNorm(3, 12), (1, 12, 9)),
    (torch.nn.InstanceNorm2d(8, affine=True), (1, 8, 6, 6)),
    (torch.nn.InstanceNorm2d(8, affine=True), (3, 8, 6, 6)),
]


def normalised(
    norm: torch.nn.Module, shape: tuple[int, ...], mean: float, folder: Path, choice: Preparation
) -> tuple[pipeline.Prepared, list[Array], list[Array]]:
    """What is prepared of ``norm``, and what it and PyTorch make of numbers about ``mean``."""
    torch.manual_seed(0)
    for weight in norm.parameters():
        torch.nn.init.normal_(weight)
    net, x = torch.nn.Sequential(norm, torch.nn.ReLU()).eval(), 3.0 * torch.randn(shape) + mean
    save(net, (x,), folder / "net.pt2")
    made = pipeline.prepare(import_model.import_model(folder / "net.pt2", "pt2"), choice)
    with torch.no_grad():
        return made, run_network(made, x.numpy()), [copy.deepcopy(net).double()(x.double()).numpy()]


@pytest.mark.parametrize(("norm", "shape"), some(NORMS, kind=lambda case: type(case[0])))
def test_groups_are_normalised_as_rows(tmp_path: Path, norm: torch.nn.Module, shape: tuple[int, ...]) -> None:
    made, ours, theirs = normalised(norm, shape, 7.0, tmp_path, BLOCKED)
    (task,) = [task for task in extract_tasks.extract_tasks(made.module) if "norm" in task.workload.name]
    target = Target({"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 2})
    assert any(not body.postprocs for body in space.generate(task.module, target)), "a rule of our own fits"
    close(ours, theirs)


@pytest.mark.parametrize(
    ("norm", "shape", "choice"),
    some(
        [(*norm, choice) for norm in NORMS for choice in (PLAIN, BLOCKED)], kind=lambda case: (type(case[0]), case[2])
    ),
)
def test_groups_far_from_zero_keep_their_variance(
    tmp_path: Path, norm: torch.nn.Module, shape: tuple[int, ...], choice: Preparation
) -> None:
    _, ours, theirs = normalised(norm, shape, 3000.0, tmp_path, choice)
    np.testing.assert_allclose(ours[0], theirs[0], atol=1e-2)


def test_a_chain_of_concatenations_is_stored_once(tmp_path: Path) -> None:
    net = Net(1, 16, 5, 4)
    maps = net.conv("x", 16)
    for _ in range(4):
        maps = net.op("Concat", maps, net.conv(net.op("Relu", net.norm(maps)), 16), axis=1)
    path = net.save(tmp_path / "model.onnx", net.conv(net.op("Relu", maps), 8, 1))
    made, x = prepared(path), net.rng.standard_normal((1, 16, 5, 4)).astype(np.float32)
    found = calls(made.module)
    assert not any("concatenate" in name and "relu" not in name for name in found), found
    close(run_network(made, x), by_onnxruntime(path, x))


def test_squeezenet_is_blocked_throughout() -> None:
    made = prepared(numerics.light_model("squeezenet"))
    found = calls(made.module)
    assert conversions(made) == (0, 1), found
    assert sum(n for name, n in found.items() if "conv2d_blocked" in name) == 26
    assert not any("conv2d" in name and "blocked" not in name for name in found)
    main = tir.load_module(made.module)["main"]
    assert [tuple(int(d) for d in var.ty.shape.values) for var in main.params[:1]] == [(1, 3, 224, 224)]


def test_a_model_that_blocked_layouts_break_is_prepared_without_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> tvm.IRModule:
        raise ValueError("what nobody thought of")

    net = Net(1, 16, 6, 6)
    path = net.save(tmp_path / "model.onnx", net.conv("x", 16))
    monkeypatch.setattr(layout, "block", broken)
    plain = prepared(path, PLAIN)
    for asked, lost in ((BLOCKED, ""), (Preparation(blocked=True, bf16=True), ", and nothing is computed in bf16")):
        made = prepared(path, asked)
        assert made.module == plain.module
        text = f"it keeps its own layouts{lost} (ValueError: what nobody thought of)"
        assert (made.note, plain.note) == (f"maps in blocks of channels do not fit the model: {text}", "")
    assert "what nobody thought of" in caplog.text
