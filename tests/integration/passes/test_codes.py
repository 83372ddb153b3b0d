"""Quantised models on bytes: what onnxruntime computes of the same file, maps as codes, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import exported
import numpy as np
import onnx
import pytest
import rule_checks
from onnx import numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static
from run_once import compiled
from small_nets import Array, Net, blocks, by_onnxruntime, calls, plain_trunk, residual_trunk, run_network, wide_trunk

from tunesmith.errors import PrecisionUnavailable, UnsupportedOperator
from tunesmith.preparation import Preparation
from workers.tvm_backend import tir
from workers.tvm_backend.frontends import import_model
from workers.tvm_backend.passes import pipeline
from workers.tvm_backend.passes.extract_tasks import extract_tasks
from workers.tvm_backend.passes.layout import byte_compute, grids

import tvm  # isort: skip
from tvm import te  # isort: skip

pytestmark = pytest.mark.parallel

INT8 = Preparation(blocked=True, fast_math=True, int8=True)
SHAPE = (1, 3, 24, 24)


class Samples(CalibrationDataReader):
    """Inputs by which onnxruntime chooses scales."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        rng = np.random.default_rng(1)
        self._left: Iterator[Any] = iter([{"x": rng.standard_normal(shape, np.float32)} for _ in range(3)])

    def get_next(self) -> Any:
        """The next one; None at the end."""
        return next(self._left, None)


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pools, a residual, a depthwise convolution, shuffled channels, groups and a dense layer, in float32."""
    net = Net(*SHAPE)
    z = residual_trunk(net)
    parts, whole = (net.constant(np.array(shape, np.int64)) for shape in ((1, 3, 16, 6, 6), (1, 48, 6, 6)))
    z = net.op("Reshape", net.op("Transpose", net.op("Reshape", z, parts), perm=[0, 2, 1, 3, 4]), whole)
    z = net.conv(z, 54, 1, group=3)
    z = net.op("Flatten", net.op("GlobalAveragePool", net.op("Relu", net.conv(z, 64, group=1))))
    path = tmp_path_factory.mktemp("codes") / "model.onnx"
    return net.save(path, net.op("Gemm", z, net.random(64, 40), net.random(40)))


def quantised(net: Path, form: QuantFormat, shape: tuple[int, ...] = SHAPE, **options: Any) -> Path:
    """The network as onnxruntime quantises it; weights of seven bits, whose sums no CPU saturates there."""
    path = net.with_name(f"{form.name}.onnx")
    quantize_static(
        net, path, Samples(shape), quant_format=form, weight_type=QuantType.QInt8, reduce_range=True, **options
    )
    return path


def output_step(path: Path) -> float:
    """The scale of the model's output."""
    model = onnx.load(path)
    last = next(node for node in model.graph.node if node.output[0] == model.graph.output[0].name)
    scale = next(each for each in model.graph.initializer if each.name == last.input[1])
    return float(numpy_helper.to_array(scale))


def compared(
    path: Path, preparation: Preparation = INT8, shape: tuple[int, ...] = SHAPE
) -> tuple[pipeline.Prepared, float]:
    """The prepared model, and how far its result is from onnxruntime's, in steps of the output."""
    x = np.random.default_rng(2).standard_normal(shape, np.float32)
    made = pipeline.prepare(import_model.import_model(path, "onnx"), preparation)
    (ours,), (theirs,) = run_network(made, x), by_onnxruntime(path, x)
    assert np.ptp(theirs) > 20 * output_step(path)
    return made, float(np.abs(ours - theirs).max()) / output_step(path)


def test_a_network_is_onnxruntimes_on_bytes(net: Path) -> None:
    made, steps = compared(quantised(net, QuantFormat.QDQ, per_channel=True))
    assert steps < 1.01, "one rounding at the end may fall otherwise"
    on_bytes(made)


def test_blocks_are_as_deep_as_a_tile_where_channels_allow(tmp_path: Path) -> None:
    net = Net(*SHAPE)
    y = net.op("Flatten", net.op("GlobalAveragePool", wide_trunk(net, 128)))
    path = net.save(tmp_path / "model.onnx", net.op("Gemm", y, net.random(144, 10), net.random(10)))
    path = quantised(path, QuantFormat.QDQ, per_channel=True)
    made, steps = compared(path, replace(INT8, tiles=True))
    assert steps < 1.01
    assert blocks(made.module) == {64, 16}, "144 channels are nine blocks of 16"


def test_rows_of_plain_maps_share_lanes(tmp_path: Path) -> None:
    net = Net(1, 24, 8, 14)
    path = quantised(net.save(tmp_path / "model.onnx", plain_trunk(net)), QuantFormat.QDQ, (1, 24, 8, 14))
    made, steps = compared(path, shape=(1, 24, 8, 14))
    assert steps < 1.01
    assert blocks(made.module) == set()
    assert any("depthwise_conv2d_quads" in name for name in calls(made.module))


def test_formulas_between_codes_have_schedules(tmp_path: Path) -> None:
    """A kernel makes codes of codes; TVM names those that it uses twice, and tells their bounds."""
    net = Net(8, 32)
    y = net.op("MatMul", "x", net.random(32, 64))
    half, one, root = (net.constant(np.float32(value)) for value in (0.5, 1.0, 2**0.5))
    y = net.op("Mul", net.op("Mul", y, net.op("Add", net.op("Erf", net.op("Div", y, root)), one)), half)
    path = net.save(tmp_path / "model.onnx", net.op("MatMul", y, net.random(64, 16)))
    made, steps = compared(quantised(path, QuantFormat.QDQ, (8, 32)), shape=(8, 32))
    assert steps < 1.01
    formulas = [task for task in extract_tasks(made.module) if "erf" in task.workload.name]
    assert formulas
    for task in formulas:
        assert rule_checks.check(task) >= 1


def test_both_notations_make_the_same(net: Path) -> None:
    made = pipeline.prepare(import_model.import_model(quantised(net, QuantFormat.QOperator), "onnx"), INT8)
    on_bytes(made)


def on_bytes(made: pipeline.Prepared) -> None:
    """Every product multiplies bytes, and every map is stored as codes."""
    found = calls(made.module)
    assert sum(count for name, count in found.items() if "conv2d_quads" in name) == 6, found
    assert sum(count for name, count in found.items() if "depthwise_conv2d_quads" in name) == 1, found
    assert sum(count for name, count in found.items() if "group_matmul_quads" in name) == 1, found
    assert sum(count for name, count in found.items() if "matmul_quads" in name) == 2, found
    assert found["max_pool2d"] == 1, "codes are compared as they are"
    main = tir.load_module(made.module)["main"]
    kinds = {str(each.var.ty.dtype) for block in main.body.blocks for each in block.bindings[:-1]}
    assert kinds == {"uint8"}


def test_the_exported_folder_needs_tvm_alone(tmp_path: Path) -> None:
    path = quantised(exported.small(tmp_path / "small.onnx"), QuantFormat.QDQ, exported.SHAPE)
    made = pipeline.prepare(import_model.import_model(path, "onnx"), INT8)
    exported.write(made, "quads", tmp_path)
    assert "quads" not in exported.compiled(tmp_path), "every product has its schedule"
    x = np.random.default_rng(3).standard_normal(exported.SHAPE, np.float32)
    np.testing.assert_allclose(exported.run(tmp_path, x), run_network(made, x)[0], rtol=1e-6)


def test_products_quantised_by_computed_scales_are_exact(tmp_path: Path) -> None:
    net = Net(6, 32)
    y = net.op("Relu", net.op("MatMul", "x", net.random(32, 48)))
    path = net.save(tmp_path / "net.onnx", net.op("MatMul", y, net.random(48, 16)))
    quantize_dynamic(path, tmp_path / "dynamic.onnx", weight_type=QuantType.QInt8)
    x = np.random.default_rng(3).standard_normal((6, 32), np.float32)
    made = pipeline.prepare(import_model.import_model(tmp_path / "dynamic.onnx", "onnx"), INT8)
    assert sum(count for name, count in calls(made.module).items() if "matmul_quads" in name) == 2
    (ours,), (theirs,) = run_network(made, x), by_onnxruntime(tmp_path / "dynamic.onnx", x)
    np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-6 * np.abs(theirs).max())


def test_convolutions_quantised_by_computed_scales_are_exact(tmp_path: Path) -> None:
    """Their borders are the code of a zero that each run computes."""
    net = Net(1, 16, 9, 9)
    y = net.op("Relu", net.conv("x", 32))
    path = net.save(tmp_path / "net.onnx", net.conv(y, 16, 5))
    symmetric = {"WeightSymmetric": True}
    quantize_dynamic(path, tmp_path / "dynamic.onnx", weight_type=QuantType.QUInt8, extra_options=symmetric)
    x = np.random.default_rng(3).standard_normal((1, 16, 9, 9), np.float32)
    made = pipeline.prepare(import_model.import_model(tmp_path / "dynamic.onnx", "onnx"), INT8)
    found = calls(made.module)
    assert sum(count for name, count in found.items() if "conv2d_quads" in name) == 2, found
    (ours,), (theirs,) = run_network(made, x), by_onnxruntime(tmp_path / "dynamic.onnx", x)
    np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-6 * np.abs(theirs).max())


def test_what_is_not_quantised_is_refused(net: Path) -> None:
    with pytest.raises(PrecisionUnavailable, match=r"precision int8 is for quantised models, .*tunesmith quantize"):
        pipeline.prepare(import_model.import_model(net, "onnx"), INT8)


@pytest.mark.parametrize("scale", [0.0, np.nan])
def test_a_scale_that_is_none_is_refused(net: Path, scale: float) -> None:
    path = net.with_name("odd.onnx")
    model = onnx.load(quantised(net, QuantFormat.QDQ))
    first = next(node for node in model.graph.node if node.op_type == "QuantizeLinear" and node.input[0] != "x")
    for each in model.graph.initializer:
        if each.name == first.input[1]:
            each.CopyFrom(numpy_helper.from_array(np.float32(scale), each.name))
    onnx.save(model, path)
    with pytest.raises(
        UnsupportedOperator, match=rf"QuantizeLinear .* is not supported with a scale of {scale:g}; quant"
    ):
        import_model.import_model(path, "onnx")


@pytest.mark.parametrize("inverse", [1.0, 2.0, 1e30])
@pytest.mark.parametrize("top", [15, 255])
@pytest.mark.parametrize("zero", [0, 7, 128, 255])
def test_every_number_has_the_code_of_the_nearest_on_the_grid(inverse: float, top: int, zero: int) -> None:
    far = [2.0**22 - 1, 2.0**22, 2.0**23 + 2, 1.5 * 2.0**23, 2.0**24, 1e9, 2.0**31, 1e12, 1e30, 3e38, np.inf]
    near = np.arange(-520, 521) / 4
    x = np.array([*near, *far, *(-value for value in far), 1e-40, -0.0, *[0.0] * 3], np.float32)
    args = te.placeholder(x.shape, "float32"), te.placeholder((), "float32"), te.placeholder((), "float32")
    mod = tvm.IRModule({"main": te.create_prim_func([*args, byte_compute.to_codes(*args, top)])})
    given = [tvm.runtime.tensor(each) for each in (x, np.array(inverse, np.float32), np.array(zero, np.float32))]
    found = tvm.runtime.empty(x.shape, "uint8")
    for target in (rule_checks.here().to_json(), {"kind": "llvm"}):
        run = compiled(mod, target)["main"]
        run(*given, found)
        with np.errstate(over="ignore"):
            place = np.rint(x.astype(np.float64) * np.float64(np.float32(inverse)) + zero)
        np.testing.assert_array_equal(found.numpy(), np.clip(place, 0, top).astype(np.uint8))
        run(tvm.runtime.tensor(np.full(x.shape, np.nan, np.float32)), *given[1:], found)
        assert set(found.numpy().tolist()) <= {0, top}


def test_weights_are_found_on_their_grids() -> None:
    rng = np.random.default_rng(0)
    numbers = rng.integers(-127, 128, (6, 300)).astype(np.int8)
    numbers[1], numbers[2], numbers[3] = numbers[1] // 3, 0, np.minimum(numbers[3], -1)
    numbers[3, 0] = -128
    scales = rng.uniform(1e-4, 1e3, 6).astype(np.float32)
    weight: Array = numbers.astype(np.float32) * scales[:, None]
    found = grids.of_weights(weight)
    assert found is not None
    np.testing.assert_allclose(found[0] * found[1][:, None], weight, rtol=1e-6)
    assert grids.of_weights(rng.standard_normal((6, 300)).astype(np.float32)) is None
    weight[4, 7] = np.nan
    assert grids.of_weights(weight) is None
