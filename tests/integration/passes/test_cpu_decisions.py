"""Another CPU, another decision: what layouts, algorithms and rules make of a CPU model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pair_tasks import ZNVER4, convolution
from rule_checks import AVX512, dense
from small_nets import Net, calls

from tunesmith.analysis.cpu_model import CpuModel
from tunesmith.preparation import Preparation
from workers.tvm_backend.design_space.replay import Replayer
from workers.tvm_backend.design_space.rules.blocked_conv import BlockedConvolution
from workers.tvm_backend.design_space.rules.machine import cpu_model_of
from workers.tvm_backend.design_space.rules.packed_matmul import PackedMatmul
from workers.tvm_backend.design_space.rules.registers import Tile, product_tiles
from workers.tvm_backend.frontends import import_model
from workers.tvm_backend.passes import extract_tasks, pipeline
from workers.tvm_backend.passes.layout import winograd
from workers.tvm_backend.passes.layout.conv_problem import Convolution

pytestmark = pytest.mark.parallel

ZEN5 = CpuModel()
SLOW_MEMORY = replace(ZEN5, bandwidth=ZEN5.bandwidth / 10)


def names(path: Path, cpu: CpuModel) -> set[str]:
    made = pipeline.prepare(import_model.import_model(path, "onnx"), Preparation(blocked=True), cpu)
    return set(calls(made.module))


def test_a_tenth_of_the_bandwidth_keeps_a_small_convolution_plain(tmp_path: Path) -> None:
    """Its result has to be converted back: 144 multiply-adds an element pay for that, or not."""
    net = Net(1, 16, 8, 8)
    path = net.save(tmp_path / "net.onnx", net.conv("x", 16))
    assert any("conv2d_blocked" in name for name in names(path, ZEN5))
    assert not any("blocked" in name for name in names(path, SLOW_MEMORY))


def test_a_tenth_of_the_bandwidth_makes_winograds_weights_too_dear() -> None:
    weight = np.zeros((64, 64, 3, 3), np.float32)
    conv = Convolution(weight, (1, 64, 14, 14), (1, 1), (1, 1, 1, 1), (1, 1), 1, 1, 14, 14 * 14 * weight[0].size)
    assert winograd.fits(conv, blocked=True, cpu=ZEN5) == 2
    assert winograd.fits(conv, blocked=True, cpu=SLOW_MEMORY) is None


def test_more_weights_are_small_where_the_first_cache_is_larger(tmp_path: Path) -> None:
    net = Net(4, 64)
    path = net.save(tmp_path / "net.onnx", net.op("Gemm", "x", net.random(64, 64), net.random(64)))
    module = pipeline.prepare(import_model.import_model(path, "onnx")).module
    (here,) = extract_tasks.extract_tasks(module)
    (there,) = extract_tasks.extract_tasks(module, replace(ZEN5, small_bytes=64 << 10))
    assert here.weights
    assert not there.weights


def test_dear_loads_make_larger_tiles() -> None:
    """Rows share the load of a vector: the dearer it is, the more of them a tile has."""
    cheap, dear = (product_tiles(replace(ZEN5, load_vector=price), 1, 840, 8)[0] for price in (0.0, 8.0))
    assert dear.scalars > cheap.scalars


def test_tiles_of_an_instruction_for_pairs_are_square() -> None:
    """4×4, 6×4 and 8×2 were measured to be best, and 14×1 too narrow; a convolution may have 2×2 pixels by 4 blocks."""
    assert product_tiles(ZEN5.of_dots(), 1, 1024, 64) == [Tile(4, 6), Tile(6, 4)]
    assert product_tiles(ZEN5, 1, 1024, 64)[0].scalars == 8
    variants = BlockedConvolution().variants(
        Replayer(convolution((1, 4, 14, 14), 4, (3, 3)).module, ZNVER4).fresh(), cpu_model_of(ZNVER4)
    )
    plans = [variant.keywords["plan"] for variant in variants]
    assert [(plan.rows, plan.tile.vectors) for plan in plans] == [(2, 4)] * 2


def test_a_short_reduction_is_deep_where_caches_are_small() -> None:
    replayer, cpu = Replayer(dense((64,), 64, 256).module, AVX512), cpu_model_of(AVX512)
    usual, small = (
        len(list(PackedMatmul().variants(replayer.fresh(), each))) for each in (cpu, replace(cpu, deep_steps=128))
    )
    assert small > usual
