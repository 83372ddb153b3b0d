"""Blocked layouts: the same results, and no more conversions than there should be."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numerics
import numpy as np
import onnx
import pytest
import torch
from encoders import Encoder, save
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper
from small_nets import Array, Net, bare, by_onnxruntime, calls, run

from tunesmith.operators import parse_operator
from tunesmith.preparation import PLAIN, Preparation
from workers.tvm_backend.warm import warm

warm("llvm")

import tvm  # noqa: E402

from workers.tvm_backend import folding, importing, layout, prepare, tasks, tir  # noqa: E402
from workers.tvm_backend.layout import packing  # noqa: E402
from workers.tvm_backend.layout.compute import LANES  # noqa: E402

BLOCKED = Preparation(blocked=True)
FEW = settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
Outputs = list[str]


def odd_channels(net: Net) -> Outputs:
    y = net.op("Relu", net.conv("x", 20, pads=[1, 0, 2, 1], strides=[2, 1]))
    return [net.conv(y, 9, pads=[2] * 4, dilations=[2, 2])]


def image(net: Net) -> Outputs:
    y = net.op("Relu", net.conv("x", 16, 7, strides=[2, 2]))
    y = net.op("MaxPool", y, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    y = net.op("Flatten", net.op("GlobalAveragePool", net.conv(y, 32, 1)))
    return [net.op("Gemm", y, net.random(12, 32), net.random(12), transB=1)]


def residual(net: Net) -> Outputs:
    y = net.op("Relu", net.conv("x", 16))
    for _ in range(2):
        inner = net.norm(net.conv(net.op("Relu", net.norm(net.conv(y, 16))), 16))
        y = net.op("Relu", net.op("Add", inner, y))
    return [net.op("Add", net.conv(y, 24, 1, strides=[2, 2]), net.conv(y, 24, strides=[2, 2]))]


def fire(net: Net) -> Outputs:
    y = net.op("Relu", net.conv("x", 12, 1))
    y = net.op("Concat", net.op("Relu", net.conv(y, 16, 1)), net.op("Relu", net.conv(y, 20)), axis=1)
    return [net.op("GlobalAveragePool", net.conv(net.op("Dropout", y), 10, 1))]


def ragged_concat(net: Net) -> Outputs:
    y = net.op("Concat", net.conv("x", 12), net.conv("x", 16), axis=1)
    return [net.conv(y, 16)]


def separable(net: Net) -> Outputs:
    y = net.clip(net.conv("x", 24, strides=[2, 2]), 0.0, 6.0)
    for stride in (1, 2):
        y = net.clip(net.depthwise(y, strides=[stride] * 2), 0.0, 6.0)
        y = net.conv(y, 24, 1)
    y = net.op("Add", net.conv(net.clip(net.depthwise(y, 5), 0.0, 6.0), 24, 1), y)
    return [net.op("ReduceMean", y, axes=[2, 3], keepdims=0)]


def squeeze_and_excite(net: Net) -> Outputs:
    y = net.op("HardSwish", net.conv("x", 24))
    gate = net.op("Relu", net.conv(net.op("GlobalAveragePool", y), 8, 1))
    gate = net.op("HardSigmoid", net.conv(gate, 24, 1), alpha=0.2, beta=0.5)
    return [net.conv(net.op("Mul", y, gate), 16)]


def dense_gate(net: Net) -> Outputs:
    y = net.conv("x", 32)
    y = net.op("Mul", net.op("Sigmoid", y), y)
    gate = net.op("Gemm", net.op("ReduceMean", y, axes=[-2, -1], keepdims=0), net.random(32, 32), net.random(32))
    gate = net.op("Reshape", net.op("Sigmoid", gate), net.constant([1, 32, 1, 1]))
    return [net.conv(net.op("Mul", gate, y), 16)]


def before_activation(net: Net) -> Outputs:
    y = net.conv("x", 16)
    for _ in range(2):
        more = net.conv(net.op("Relu", net.norm(y)), 16)
        y = net.op("Concat", y, more, axis=1)
    return [net.op("Relu", net.norm(y))]


def pools(net: Net) -> Outputs:
    negative = net.op("Sub", net.conv("x", 20), net.constant(np.float32(9.0)))
    window = {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]}
    tops = net.op("MaxPool", negative, **window, ceil_mode=1)
    with_pad = net.op("AveragePool", negative, **window, count_include_pad=1)
    without = net.op("AveragePool", negative, **window, count_include_pad=0)
    return [net.conv(tops, 8), net.conv(net.op("Add", with_pad, without), 8)]


def constants(net: Net) -> Outputs:
    y = net.op("Mul", net.op("Relu", net.conv("x", 20)), net.random(20, 1, 1))
    y = net.op("Add", net.op("Sub", net.constant(np.float32(1.5)), y), net.random(1, 1, 7, 6))
    y = net.op("Div", y, net.constant(net.rng.uniform(1, 2, (1, 20, 1, 1))))
    return [net.conv(net.op("Tanh", net.op("LeakyRelu", y, alpha=0.1)), 16)]


def one_channel(net: Net) -> Outputs:
    y = net.conv("x", 20)
    return [net.conv(net.op("Mul", y, net.op("Sigmoid", net.conv(y, 1))), 16)]


def steep(net: Net) -> Outputs:
    y = net.conv("x", 16)
    y = net.op("Div", net.op("Exp", y), net.op("Exp", net.op("Abs", y)))
    return [net.conv(net.op("Log", net.op("Exp", net.conv(y, 20))), 16)]


def both_ways(net: Net) -> Outputs:
    y = net.conv("x", 20)
    turned = net.op("Transpose", y, perm=[0, 1, 3, 2])
    return [net.op("Add", net.conv(y, 16), net.conv(turned, 16)), net.op("Softmax", y, axis=3), y]


def groups(net: Net) -> Outputs:
    return [net.conv(net.op("Relu", net.conv(net.conv("x", 24), 24, group=2)), 16)]


def shuffled(net: Net) -> Outputs:
    y = net.op("Relu", net.conv("x", 24, 1, group=3))
    for _ in range(2):
        z = net.op("Relu", net.conv(y, 12, 1, group=3))
        z = net.op("Reshape", z, net.constant([1, 3, 4, 6, 5]))
        z = net.op("Reshape", net.op("Transpose", z, perm=[0, 2, 1, 3, 4]), net.constant([1, 12, 6, 5]))
        z = net.op("Mul", net.conv(net.depthwise(z), 24, 1, group=3), net.constant(np.float32(0.5)))
        y = net.op("Relu", net.op("Add", z, y))
    y = net.op("Concat", y, net.op("Add", net.conv(y, 8, 1, group=2), net.random(1, 1, 6, 5)), axis=1)
    return [net.conv(y, 16)]


def products(net: Net) -> Outputs:
    y = net.op("Relu", net.op("Add", net.op("MatMul", "x", net.random(10, 48)), net.random(48)))
    y = net.op("MatMul", net.op("MatMul", y, net.random(48, 12)), net.random(12, 10))
    return [net.op("Add", y, "x")]


def regrouped_rows(net: Net) -> Outputs:
    y = net.op("Reshape", "x", net.constant([14, 12]))
    y = net.op("Add", net.op("MatMul", y, net.random(12, 16)), net.random(1, 16))
    y = net.op("Mul", net.op("Sigmoid", y), y)
    y = net.op("Mul", net.op("MatMul", y, net.random(16, 8)), net.random(14, 1))  # one factor for each row
    three = net.op("Reshape", y, net.constant([7, 2, 8]))
    return [net.op("MatMul", net.op("Sub", net.constant(np.float32(2.0)), three), net.random(8, 12)), y]


CASES: list[tuple[Callable[[Net], Outputs], tuple[int, ...], int, tuple[int, int]]] = [
    # network, extents of its input, functions that are blocked or packed, conversions into blocks and back
    (odd_channels, (1, 5, 9, 7), 2, (1, 1)),
    (image, (1, 3, 13, 14), 3, (1, 0)),
    (residual, (2, 16, 6, 6), 7, (1, 1)),
    (fire, (1, 16, 5, 6), 4, (1, 1)),
    (ragged_concat, (1, 16, 5, 5), 3, (2, 3)),
    (separable, (1, 3, 12, 12), 7, (1, 1)),
    (squeeze_and_excite, (1, 16, 5, 7), 4, (1, 1)),
    (dense_gate, (1, 16, 5, 5), 3, (1, 1)),
    (before_activation, (1, 16, 5, 4), 3, (1, 1)),
    (pools, (1, 16, 7, 6), 3, (1, 2)),
    (constants, (1, 16, 7, 6), 2, (1, 1)),
    (one_channel, (1, 16, 5, 5), 2, (1, 2)),
    (steep, (1, 16, 4, 4), 3, (2, 2)),
    (both_ways, (1, 16, 6, 6), 3, (2, 2)),
    (groups, (1, 16, 6, 6), 2, (2, 2)),
    (shuffled, (1, 12, 6, 5), 1, (1, 1)),
    (products, (2, 7, 10), 2, (0, 0)),
    (regrouped_rows, (2, 7, 12), 3, (0, 0)),
]


def prepared(path: Path, preparation: Preparation = BLOCKED) -> prepare.Prepared:
    return prepare.prepare(importing.import_model(path, "onnx"), preparation)


def close(ours: list[Array], theirs: list[Array]) -> None:
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4 * float(np.abs(b).max()))


def conversions(made: prepare.Prepared) -> tuple[int, int]:
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
    close(run(made, x), by_onnxruntime(path, x))


def test_groups_are_products_with_their_epilogues(tmp_path: Path) -> None:
    net = Net(1, 12, 6, 5)
    made = prepared(net.save(tmp_path / "model.onnx", *shuffled(net)))
    found = calls(made.module)
    assert "reshape" not in found, "a view is no task"
    assert found["fused_group_matmul_add_relu"] == 3, found
    families = {bare(task.workload.name): task.workload.family for task in tasks.extract_tasks(made.module)}
    assert families["fused_group_matmul_add_relu"] == "batch_matmul"
    assert found["fused_group_matmul_add_add_relu"] == 2, found
    assert found["group_matmul"] + found["fused_group_matmul_add"] == 1, found


def test_bounds_of_an_old_operator_set(tmp_path: Path) -> None:
    net = Net(1, 16, 6, 6, opset=10)
    y = net.clip(net.conv("x", 20), 0.0, 0.5)
    path = net.save(tmp_path / "model.onnx", net.conv(net.depthwise(y), 16))
    made, x = prepared(path), net.rng.standard_normal((1, 16, 6, 6)).astype(np.float32)
    assert conversions(made) == (1, 1)
    close(run(made, x), by_onnxruntime(path, x))


KINDS = ("conv", "depthwise", "group", "activation", "scale", "add", "concat", "pool", "gate", "transpose")


@st.composite
def chains(draw: st.DrawFn) -> tuple[Net, str]:
    """A random network whose operators nearly all work on blocks; channels are mostly no multiple of LANES."""
    channels = st.sampled_from([8, 9, 16, 20, 32])
    net = Net(draw(st.integers(1, 2)), draw(st.sampled_from([1, 3, 4, 5, 16, 20])), *draw(
        st.tuples(st.integers(5, 9), st.integers(5, 9))), seed=draw(st.integers(0, 99)))
    maps = [net.conv("x", draw(channels))]
    for _ in range(draw(st.integers(2, 6))):
        y = draw(st.sampled_from(maps))
        same = [other for other in maps if net.shapes[other] == net.shapes[y]]
        beside = [other for other in maps if net.shapes[other][2:] == net.shapes[y][2:]]
        size = min(net.shapes[y][2:])
        kind = draw(st.sampled_from(KINDS))
        if kind == "conv":
            kernel, dilation = draw(st.sampled_from([(1, 1), (3, 1), (3, 2)]))
            pads = [draw(st.integers(dilation, 2)) if kernel == 3 else 0 for _ in range(4)]
            maps.append(net.conv(y, draw(channels), kernel, pads=pads, dilations=[dilation] * 2,
                                 strides=[draw(st.integers(1, 2)) for _ in range(2)]))
        elif kind == "depthwise":
            maps.append(net.depthwise(y, strides=[draw(st.integers(1, 2))] * 2))
        elif kind == "group" and net.shapes[y][1] % 4 == 0:
            maps.append(net.conv(y, draw(st.sampled_from([8, 20, 32])), draw(st.sampled_from([1, 1, 3])), group=4))
        elif kind == "transpose":
            maps.append(net.op("Transpose", y, perm=[0, 1, 3, 2]))
        elif kind == "activation":
            maps.append(net.op(draw(st.sampled_from(["Relu", "Sigmoid", "Tanh", "HardSwish", "Abs", "Erf"])), y))
        elif kind == "scale":
            other = net.random(net.shapes[y][1], 1, 1) if draw(st.booleans()) else net.constant(np.float32(0.7))
            maps.append(net.op(draw(st.sampled_from(["Mul", "Add", "Sub"])), y, other))
        elif kind == "add":
            maps.append(net.op(draw(st.sampled_from(["Add", "Mul", "Sub"])), y, draw(st.sampled_from(same))))
        elif kind == "concat":
            maps.append(net.op("Concat", y, draw(st.sampled_from(beside)), axis=1))
        elif kind == "gate":
            pooled = net.op("GlobalAveragePool", y)
            maps.append(net.op("Mul", net.op("Sigmoid", net.conv(pooled, net.shapes[y][1], 1)), y))
        elif kind == "pool" and size >= 3:
            maps.append(net.op(draw(st.sampled_from(["MaxPool", "AveragePool"])), y, kernel_shape=[3, 3],
                               pads=[1] * 4, strides=[draw(st.integers(1, 2))] * 2))
    return net, maps[-1]


@FEW
@given(chains())
def test_random_networks(tmp_path_factory: pytest.TempPathFactory, chain: tuple[Net, str]) -> None:
    net, out = chain
    path = net.save(tmp_path_factory.mktemp("net") / "model.onnx", out)
    x = net.rng.standard_normal(net.shapes["x"]).astype(np.float32)
    theirs = by_onnxruntime(path, x)
    assert np.isfinite(theirs[0]).all()
    close(run(prepared(path), x), theirs)


@given(st.integers(1, 40), st.integers(1, 40), st.sampled_from([1, 3, LANES]))
def test_packed_weights_hold_every_weight_and_zeros(outs: int, channels: int, inner: int) -> None:
    weight = np.arange(1, 1 + outs * channels * 6, dtype=np.float32).reshape(outs, channels, 2, 3)
    packed = packing.conv2d_weight(weight, inner)
    for o, c in ((0, 0), (outs - 1, channels - 1), (outs // 2, channels // 2)):
        assert (packed[o // LANES, c // inner, :, :, c % inner, o % LANES] == weight[o, c]).all()
    assert np.count_nonzero(packed) == weight.size


@given(st.integers(1, 200))
def test_panels_divide_the_columns(columns: int) -> None:
    lanes = packing.panel_lanes(columns)
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
    assert conversions(made) == (blocked, blocked)


def test_an_operator_alone_keeps_its_layouts() -> None:
    mod = importing.operator_module(parse_operator("conv2d:1x16x8x8,16x16x3x3"))
    assert calls(prepare.prepare(mod).module) == {"conv2d": 1}
    assert calls(prepare.prepare(mod, BLOCKED).module) == {"conv2d": 1}, "weights that are inputs cannot be packed"


def test_control_flow_is_left_alone(tmp_path: Path) -> None:
    def value(name: str, kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, kind, [1, 16, 4, 4] if kind == TensorProto.FLOAT else [])

    branches = [helper.make_graph([helper.make_node(kind, ["y"], [kind])], kind, [], [value(kind)])
                for kind in ("Relu", "Neg")]
    net = Net(1, 16, 4, 4)
    net.conv("x", 16)
    net.nodes[-1].output[0] = "y"
    net.nodes.append(helper.make_node("If", ["cond"], ["out"], then_branch=branches[0], else_branch=branches[1]))
    inputs = [value("x"), value("cond", TensorProto.BOOL)]
    graph = helper.make_graph(net.nodes, "net", inputs, [value("out")], net.weights)
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8), path)
    mod = importing.import_model(path, "onnx")
    assert layout.block(mod) is mod


def test_families_and_fusion(tmp_path: Path) -> None:
    net = Net(1, 16, 6, 6)
    path = net.save(tmp_path / "model.onnx", *separable(net), *residual(net))
    found = tasks.extract_tasks(prepared(path).module)
    names = {bare(task.workload.name): task.workload.family for task in found}
    assert names["fused_conv2d_blocked_add_add_relu"] == "conv2d", "bias, residual and activation join the kernel"
    assert names["fused_depthwise_conv2d_blocked_add_maximum_minimum"] == "depthwise_conv2d"
    assert tasks.family("fused_matmul_packed3_add1", ()) == "matmul"


def test_bounds_are_folded_when_a_model_is_imported(tmp_path: Path) -> None:
    net = Net(1, 16, 6, 6)
    mod = folding.fold(importing.import_model(net.save(tmp_path / "model.onnx", net.clip("x", 0.0, 6.0)), "onnx"))
    text = tvm.relax.transform.DeadCodeElimination()(mod).script()
    assert "maximum" in text
    assert "isnan" not in text


def test_encoder_is_packed(tmp_path: Path) -> None:
    torch.manual_seed(0)
    encoder, ids = Encoder(width=32, heads=2, layers=1, tokens=8).eval(), torch.randint(0, 500, (1, 8))
    save(encoder, (ids,), tmp_path / "encoder.pt2")
    made = prepare.prepare(importing.import_model(tmp_path / "encoder.pt2", "pt2"), BLOCKED)
    found = calls(made.module)
    assert sum(n for name, n in found.items() if "matmul_packed" in name) == 5
    assert conversions(made) == (0, 0)
    assert found["fused_matmul_packed_add_gelu"] == 1, "the reshapes that regroup tokens are gone"
    assert found["fused_matmul_packed_add_add"] == 2, found
    with torch.no_grad():
        close(run(made, ids.numpy()), [encoder(ids).numpy()])


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
    made = prepare.prepare(importing.import_model(tmp_path / "net.pt2", "pt2"), BLOCKED)
    found = calls(made.module)
    assert found["adaptive_avg_pool2d"] == 1
    assert conversions(made) == (1, 2), found
    with torch.no_grad():
        close(run(made, x.numpy()), [out.numpy() for out in net(x)])


def test_a_chain_of_concatenations_is_stored_once(tmp_path: Path) -> None:
    net = Net(1, 16, 5, 4)
    maps = net.conv("x", 16)
    for _ in range(4):
        maps = net.op("Concat", maps, net.conv(net.op("Relu", net.norm(maps)), 16), axis=1)
    path = net.save(tmp_path / "model.onnx", net.conv(net.op("Relu", maps), 8, 1))
    made, x = prepared(path), net.rng.standard_normal((1, 16, 5, 4)).astype(np.float32)
    found = calls(made.module)
    assert not any("concatenate" in name and "relu" not in name for name in found), found
    close(run(made, x), by_onnxruntime(path, x))


def test_squeezenet_is_blocked_throughout() -> None:
    made = prepared(numerics.light_model("squeezenet"))
    found = calls(made.module)
    assert conversions(made) == (1, 1), found
    assert sum(n for name, n in found.items() if "conv2d_blocked" in name) == 26
    assert not any("conv2d" in name and "blocked" not in name for name in found)
    main = tir.load_module(made.module)["main"]
    assert [tuple(int(d) for d in var.ty.shape.values) for var in main.params[:1]] == [(1, 3, 224, 224)]
