"""Models in bfloat16: what is stored as bits, how far results lie from float32, and the exported folder."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import exported
import ml_dtypes
import numpy as np
import pytest
import torch
from encoders import Encoder, save
from layout_nets import shuffled
from small_nets import Array, Net, blocks, by_onnxruntime, calls, plain_trunk, residual_trunk, run_network, wide_trunk

from tunesmith.analysis.cpu_model import CpuModel
from tunesmith.preparation import Preparation
from workers.tvm_backend.warm import warm

warm("llvm")

import tvm  # noqa: E402
from tvm import relax, te  # noqa: E402

from workers.tvm_backend import tir  # noqa: E402
from workers.tvm_backend.arguments import dtype_of  # noqa: E402
from workers.tvm_backend.dot.bits import rounded  # noqa: E402
from workers.tvm_backend.export import script  # noqa: E402
from workers.tvm_backend.frontends import import_model  # noqa: E402
from workers.tvm_backend.passes import fold_constants, ordering, pipeline  # noqa: E402
from workers.tvm_backend.passes.layout.blocks import Blocks, computed_blocks  # noqa: E402
from workers.tvm_backend.passes.layout.narrow_compute import max_pool2d_bits  # noqa: E402

pytestmark = pytest.mark.parallel

BF16 = Preparation(blocked=True, fast_math=True, bf16=True)
SHAPE = (1, 3, 24, 24)


@dataclass(frozen=True)
class Case:
    """A model that is prepared in bfloat16, an input, and what onnxruntime makes of it in float32."""

    made: pipeline.Prepared
    x: Array
    right: Array


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    """A residual network with pools, a depthwise convolution, a concatenation and a dense layer."""
    net = Net(*SHAPE)
    z = residual_trunk(net)
    z = net.op("Flatten", net.op("GlobalAveragePool", net.op("Relu", net.conv(z, 64, group=1))))
    path = tmp_path_factory.mktemp("narrow") / "model.onnx"
    net.save(path, net.op("Gemm", z, net.random(64, 40), net.random(40)))
    x = net.rng.standard_normal(SHAPE).astype(np.float32)
    return Case(pipeline.prepare(import_model.import_model(path, "onnx"), BF16), x, by_onnxruntime(path, x)[0])


def close(ours: Array, right: Array, share: float) -> None:
    assert np.abs(ours - right).max() < share * np.abs(right).max()


def test_every_map_is_stored_as_bits(case: Case) -> None:
    found = calls(case.made.module)
    assert sum(count for name, count in found.items() if "conv2d_pairs" in name) == 6, found
    assert sum(count for name, count in found.items() if "depthwise_conv2d_pairs" in name) == 1, found
    assert sum(count for name, count in found.items() if "matmul_pairs" in name) == 1, found
    assert found["concatenate"] == 1, "bits are moved, not widened and rounded"
    assert not any("reshape" in name or "bf16" in name for name in found), "nothing converts by itself"
    main = tir.load_module(case.made.module)["main"]
    kinds = {str(each.var.ty.dtype) for block in main.body.blocks for each in block.bindings[:-1]}
    assert kinds == {"uint16"}


def test_rows_of_plain_maps_share_lanes(tmp_path: Path) -> None:
    net = Net(1, 24, 8, 14)
    path = net.save(tmp_path / "model.onnx", plain_trunk(net))
    made = pipeline.prepare(import_model.import_model(path, "onnx"), BF16)
    assert blocks(made.module) == set()
    assert any("depthwise_conv2d_pairs" in name for name in calls(made.module))
    x = net.rng.standard_normal((1, 24, 8, 14)).astype(np.float32)
    close(run_network(made, x)[0], by_onnxruntime(path, x)[0], 1e-2)


def test_shuffled_channels_are_moved_as_bits(tmp_path: Path) -> None:
    net = Net(1, 24, 8, 14)
    parts, whole = (net.constant(np.array(shape, np.int64)) for shape in ((1, 3, 12, 8, 14), (1, 36, 8, 14)))
    y = net.op("Relu", net.conv("x", 36, 1, group=3))
    y = net.op("Reshape", net.op("Transpose", net.op("Reshape", y, parts), perm=[0, 2, 1, 3, 4]), whole)
    path = net.save(tmp_path / "model.onnx", net.conv(y, 24, 1, group=3))
    made = pipeline.prepare(import_model.import_model(path, "onnx"), BF16)
    functions = {var.name_hint: each for var, each in tir.load_module(made.module).functions.items()}
    (shuffle,) = [each for name, each in functions.items() if "transpose" in name]
    assert {str(each.ty.dtype) for each in shuffle.params} == {"uint16"}
    assert "float32" not in shuffle.script(), "to widen and to round them would be work for nothing"
    x = net.rng.standard_normal((1, 24, 8, 14)).astype(np.float32)
    close(run_network(made, x)[0], by_onnxruntime(path, x)[0], 1e-2)


VALUES = np.array([0.0, -0.0, 1.0, -1.0, 2.5, -2.5, 1e-40, -1e-40, 3e38, -3e38, np.inf, -np.inf, np.nan], np.float32)


@pytest.mark.parametrize("padding", [(0, 0, 0, 0), (1, 1, 1, 1), (0, 1, 2, 3)])
@pytest.mark.parametrize("special", [False, True])
def test_the_largest_of_bits_is_that_of_the_numbers(padding: tuple[int, int, int, int], special: bool) -> None:
    rng = np.random.default_rng(0)
    x = rng.choice(VALUES if special else VALUES[:-3], (1, 2, 9, 11, 16))
    shape = [1, 2, (9 + padding[0] + padding[2] - 3) // 2 + 1, (11 + padding[1] + padding[3] - 3) // 2 + 1, 16]
    windows = [3, 3], [2, 2], list(padding), [1, 1]

    def pooled(compute: Callable[..., Any], given: Array) -> Array:
        source = te.placeholder(given.shape, str(given.dtype))
        function = te.create_prim_func([source, compute(source, *windows, shape)])
        arrays = [tvm.runtime.tensor(given), tvm.runtime.tensor(np.zeros(shape, np.float32))]
        tvm.compile(function, target="llvm")(*arrays)
        return arrays[1].numpy()

    bits = x.astype(ml_dtypes.bfloat16)
    bits[np.isnan(x)] = np.nan
    right = pooled(ordering.max_pool, bits.astype(np.float32))
    np.testing.assert_array_equal(pooled(max_pool2d_bits, bits.view(np.uint16)), right)


def test_one_block_more_is_computed_where_a_tile_would_have_one_vector(tmp_path: Path) -> None:
    cpu = CpuModel()
    counts = {(count, columns): computed_blocks(count, columns, cpu) for count in (3, 16, 63) for columns in (7, 13)}
    assert {key: made for key, made in counts.items() if made != key[0]} == {(63, 13): 64}
    assert computed_blocks(63, 13, cpu, Blocks(32)) == 63, "tiles of a matrix unit are filled otherwise"
    net = Net(1, 16, 3, 13)
    y = net.op("Relu", net.conv(net.op("Relu", net.conv("x", 32, 1)), 1000, 1))
    path = net.save(tmp_path / "model.onnx", net.conv(net.op("GlobalAveragePool", y), 24, 1))
    made = pipeline.prepare(import_model.import_model(path, "onnx"), BF16)
    assert any(each.shape[0] == 64 for each in made.params.values()), "weights of 63 blocks are filled up"
    x = net.rng.standard_normal((1, 16, 3, 13)).astype(np.float32)
    close(run_network(made, x)[0], by_onnxruntime(path, x)[0], 1e-2)


def test_results_are_within_a_hundredth_of_float32(case: Case) -> None:
    (ours,) = run_network(case.made, case.x)
    close(ours, case.right, 1e-2)
    assert np.abs(ours - case.right).max() > 1e-4 * np.abs(case.right).max(), "they are rounded"


def test_blocks_are_as_deep_as_a_tile_where_channels_allow(tmp_path: Path) -> None:
    net = Net(1, 3, 29, 31)
    y = net.op("Flatten", net.op("GlobalAveragePool", wide_trunk(net, 64)))
    path = net.save(tmp_path / "model.onnx", net.op("Gemm", y, net.random(80, 10), net.random(10)))
    made = pipeline.prepare(import_model.import_model(path, "onnx"), replace(BF16, tiles=True))
    assert blocks(made.module) == {32, 16}, "80 channels are five blocks of 16"
    x = net.rng.standard_normal((1, 3, 29, 31)).astype(np.float32)
    close(run_network(made, x)[0], by_onnxruntime(path, x)[0], 0.02)


def test_maps_that_would_not_join_have_blocks_that_do(tmp_path: Path) -> None:
    net = Net(*SHAPE)
    path = net.save(tmp_path / "model.onnx", net.conv(residual_trunk(net), 32, 1))
    made = pipeline.prepare(import_model.import_model(path, "onnx"), replace(BF16, tiles=True))
    assert blocks(made.module) == {16}, "32 and 16 channels are joined"


def test_groups_are_products_of_bits(tmp_path: Path) -> None:
    net = Net(1, 12, 6, 5)
    path = net.save(tmp_path / "model.onnx", *shuffled(net))
    made, x = pipeline.prepare(import_model.import_model(path, "onnx"), BF16), net.rng.standard_normal((1, 12, 6, 5))
    found = calls(made.module)
    assert sum(count for name, count in found.items() if "group_matmul_pairs" in name) == 6, found
    main = tir.load_module(made.module)["main"]
    floats = [each.value for block in main.body.blocks for each in block.bindings if str(each.var.ty.dtype) != "uint16"]
    assert len(floats) == 1, "the result alone is float32"
    close(run_network(made, x.astype(np.float32))[0], by_onnxruntime(path, x.astype(np.float32))[0], 1e-2)


def test_the_exported_folder_needs_tvm_alone(tmp_path: Path) -> None:
    made = pipeline.prepare(import_model.import_model(exported.small(tmp_path / "small.onnx"), "onnx"), BF16)
    exported.write(made, "pairs", tmp_path)
    assert "pairs" not in exported.compiled(tmp_path), "every product has its schedule"
    x = np.random.default_rng(3).standard_normal(exported.SHAPE, np.float32)
    close(exported.run(tmp_path, x), run_network(made, x)[0], 2e-3)


def test_intrinsics_of_another_tvm_are_refused() -> None:
    with pytest.raises(SystemExit, match=rf"TVM {re.escape(tvm.__version__)} cannot read intrinsics.json"):
        script().register_intrinsics({"ts_other": ["{}", "{}"]})


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_half_precision_is_computed_in_float32_on_bits(kind: str) -> None:
    """What names its own type is computed between conversions; rounding after an operator is left out."""
    rng, half = np.random.default_rng(0), dtype_of(kind)
    x, w = (rng.standard_normal(shape).astype(half) for shape in ((4, 32), (32, 16)))
    given, builder = relax.Var("x", relax.TensorType(x.shape, kind)), relax.BlockBuilder()
    with builder.function("main", [given]):
        with builder.dataflow():
            y = builder.emit(relax.op.matmul(given, fold_constants.to_constant(w)))
            y = builder.emit(relax.op.astype(builder.emit(relax.op.astype(y, "float32")), kind))
            y = builder.emit(relax.op.add(relax.op.nn.relu(y), relax.op.full((16,), relax.const(1.5, kind), kind)))
            least, most = builder.emit(relax.op.split(y, 2, axis=1)), relax.op.argmax(y, axis=1)
            parts = [relax.TupleGetItem(least, 1), builder.emit(most), builder.emit(relax.op.astype(y, "int32"))]
            done = builder.emit_output(relax.Tuple([builder.emit(parts[0]), *parts[1:]]))
        builder.emit_func_output(done)
    mod = builder.get()
    mod["main"] = mod["main"].with_attr("input_names", '["x"]')
    made = pipeline.prepare(mod, BF16)
    assert sum("matmul_pairs_relu" in name for name in calls(made.module)) == 1
    assert made.inputs[0].dtype == kind
    ours = run_network(made, x)
    right = np.maximum(x.astype("float32") @ w.astype("float32"), 0) + 1.5
    assert [str(each.dtype) for each in ours] == [kind, "int64", "int32"]
    close(ours[0].astype("float32"), right[:, 8:], 1e-2)
    assert (ours[1] == right.argmax(axis=1)).all()
    assert (abs(ours[2] - right.astype("int32")) <= 1).all()


def test_rounding_is_that_of_bfloat16() -> None:
    bits = np.random.default_rng(0).integers(0, 2**32, 4096, dtype=np.uint64).astype(np.uint32)
    special = np.array([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 3.4e38, 1.00390625, 1.01171875], np.float32)
    values = np.concatenate([special, bits.view(np.float32)])
    x = te.placeholder(values.shape, "float32", "x")
    y = te.compute(values.shape, lambda i: rounded(x[i]), name="y")
    made = tvm.runtime.tensor(np.zeros(values.shape, np.uint16))
    mod = tvm.IRModule({"main": te.create_prim_func([x, y])})
    tvm.compile(mod, target="llvm")["main"](tvm.runtime.tensor(values), made)
    ours = made.numpy().view(ml_dtypes.bfloat16)
    with np.errstate(invalid="ignore"):  # some of the bits are signalling NaN
        right = values.astype(ml_dtypes.bfloat16).astype(np.float32)
    np.testing.assert_array_equal(ours.astype(np.float32), right)


def test_a_residual_stream_stays_float32(tmp_path: Path) -> None:
    net, ids = Encoder(64, 2, 1, 16), torch.randint(0, 500, (1, 16))
    save(net, (ids,), tmp_path / "encoder.pt2")
    made = pipeline.prepare(import_model.import_model(tmp_path / "encoder.pt2", "pt2"), BF16)
    found = calls(made.module)
    assert sum(count for name, count in found.items() if "matmul_pairs" in name) == 5, found
    main = tir.load_module(made.module)["main"]
    bits = {
        str(each.value.args[0].name_hint)
        for block in main.body.blocks
        for each in block.bindings
        if str(each.var.ty.dtype) == "uint16" and getattr(each.value.op, "name", "") == "relax.call_tir"
    }
    assert made.note == ""
    assert any("gelu" in name for name in bits), "what a product alone reads is bits"
    assert (found["layer_norm"], found["fused_layer_norm"]) == (1, 1), (
        "the first one is added later, the last one is not"
    )
    (ours,) = run_network(made, ids.numpy())
    close(ours, net(ids).detach().numpy(), 1e-2)
