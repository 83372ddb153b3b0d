"""Winograd's convolution: its arithmetic, when it fits, and the sketches that a rule makes of it."""

from __future__ import annotations

import json

import numpy as np
import pytest
import rule_checks
from effort import examples, some
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from rule_checks import AVX2, AVX512, NEON, check, conv_blocked, conv_winograd, fits, here, operator, own
from run_once import compiled

from tunesmith.analysis.cpu_model import CpuModel
from tunesmith.search.construction import construct
from tunesmith.targets import Target
from workers.tvm_backend.warm import warm

warm("llvm")

import tvm  # noqa: E402
from tvm import te  # noqa: E402
from tvm.s_tir import Schedule  # noqa: E402
from tvm.s_tir.schedule import Trace  # noqa: E402

from workers.tvm_backend import tir  # noqa: E402
from workers.tvm_backend.arguments import dtype_of  # noqa: E402
from workers.tvm_backend.design_space import space  # noqa: E402
from workers.tvm_backend.design_space.rules.registers import boxes  # noqa: E402
from workers.tvm_backend.design_space.rules.winograd import Winograd  # noqa: E402
from workers.tvm_backend.design_space.static_model import prior_of  # noqa: E402
from workers.tvm_backend.passes.layout import packing, winograd  # noqa: E402
from workers.tvm_backend.passes.layout.conv_problem import Convolution  # noqa: E402
from workers.tvm_backend.passes.layout.cook_toom import filtering  # noqa: E402
from workers.tvm_backend.passes.layout.winograd import (  # noqa: E402
    TILE_OF_PAIRS,
    columns,
    conv2d_winograd,
    conv2d_winograd_pairs,
    tiles,
)

pytestmark = pytest.mark.parallel

FEW = settings(max_examples=examples(4), deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
Array = NDArray[np.floating]
BOUNDS = {2: 2e-6, 4: 2e-5}
"""Of the largest error over the largest output."""


def convolution(
    source: tuple[int, int, int, int],
    outs: int,
    kernel: int = 3,
    stride: int = 1,
    dilation: int = 1,
    depthwise: bool = False,
    dtype: str = "float32",
) -> Convolution:
    """With padding that keeps the extents of the map at stride 1."""
    channels = 1 if depthwise else source[1]
    return Convolution(
        np.zeros((outs, channels, kernel, kernel), dtype),
        source,
        (stride, stride),
        (kernel // 2,) * 4,
        (dilation, dilation),
        source[1] if depthwise else 1,
        1,
        source[3] // stride,
        outs * channels * kernel**2,
    )


@pytest.mark.parametrize("m", [2, 4])
def test_the_matrices_filter(m: int) -> None:
    found, rng = filtering(m), np.random.default_rng(0)
    d, g = rng.standard_normal(m + 2), rng.standard_normal(3)
    np.testing.assert_allclose(found.out @ ((found.weight @ g) * (found.data @ d)), np.correlate(d, g), rtol=1e-12)


@pytest.mark.parametrize(
    ("source", "outs", "m"),
    [
        ((1, 64, 56, 56), 64, 4),
        ((1, 128, 28, 28), 128, 4),
        ((1, 256, 14, 14), 256, 2),
        ((1, 512, 7, 7), 512, None),
        ((8, 512, 7, 7), 512, 4),
        ((1, 32, 27, 27), 128, 4),
        ((1, 3, 224, 224), 64, None),
    ],
)
def test_where_it_may_pay(source: tuple[int, int, int, int], outs: int, m: int | None) -> None:
    assert winograd.fits(convolution(source, outs), blocked=True, cpu=CpuModel()) == m


@pytest.mark.parametrize(
    ("source", "outs", "m"),
    [
        ((1, 64, 56, 56), 64, 4),
        ((1, 256, 14, 14), 256, 2),
        ((1, 64, 8, 8), 128, None),
        ((1, 72, 56, 56), 64, None),
    ],
)
def test_where_it_may_pay_to_put_a_plain_map_into_blocks(
    source: tuple[int, int, int, int], outs: int, m: int | None
) -> None:
    assert winograd.fits(convolution(source, outs), blocked=False, cpu=CpuModel()) == m
    assert winograd.fits(convolution(source, outs), blocked=True, cpu=CpuModel()) is not None


@pytest.mark.parametrize(
    "other",
    [
        {"kernel": 1},
        {"kernel": 5},
        {"stride": 2},
        {"dilation": 2},
        {"depthwise": True},
        {"dtype": "float16"},
    ],
)
def test_what_it_cannot_do(other: dict[str, int | bool | str]) -> None:
    assert winograd.fits(convolution((1, 64, 56, 56), 64, **other), blocked=True, cpu=CpuModel()) is None  # type: ignore[arg-type]


@given(st.integers(1, 1000), st.sampled_from([2, 4]))
def test_tiles_cover_the_output_and_fill_registers(extent: int, m: int) -> None:
    found = columns(extent, m, CpuModel())
    assert extent <= tiles(extent, m) * m <= found * m
    assert found <= max(14, 1.2 * tiles(extent, m))
    assert found <= 14 or any(found % group == 0 for group in range(4, 15))


@given(
    st.sampled_from([CpuModel.of(1, *registers) for registers in ((64, 32), (32, 16), (16, 32))]),
    st.integers(1, 30),
    st.integers(1, 30),
    st.integers(1, 64),
)
def test_boxes_divide_the_grid_and_fit_registers(cpu: CpuModel, rows: int, cols: int, panels: int) -> None:
    registers = 16 // cpu.lanes()
    for box in boxes(cpu, registers, rows, cols, panels):
        assert rows % box.rows == cols % box.columns == 0
        assert registers * (box.rows * box.columns + 1) * box.vectors < cpu.registers


def exact(x: Array, w: Array, padding: tuple[int, int, int, int]) -> Array:
    """In float64, NCHW."""
    top, left, bottom, right = padding
    full = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (top, bottom), (left, right)))
    high, wide = full.shape[2] - 2, full.shape[3] - 2
    return sum(
        np.einsum("ncyx,oc->noyx", full[:, :, a : a + high, b : b + wide], w[:, :, a, b].astype(np.float64))
        for a in range(3)
        for b in range(3)
    )  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("m", "image", "outs", "padding", "plain"),
    [
        (2, (1, 64, 15, 14), 32, (1, 1, 1, 1), False),
        (4, (1, 64, 15, 14), 32, (1, 1, 1, 1), True),
        (4, (2, 20, 9, 8), 18, (0, 2, 1, 0), False),
        (4, (1, 256, 13, 13), 16, (1, 1, 1, 1), False),
        (2, (2, 32, 9, 8), 18, (0, 2, 1, 0), True),
    ],
)
def test_the_error_is_bounded(
    m: int, image: tuple[int, int, int, int], outs: int, padding: tuple[int, ...], plain: bool
) -> None:
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(shape).astype(np.float32) for shape in (image, (outs, image[1], 3, 3)))
    data, u = x[..., None] if plain else packing.feature_map(x), packing.winograd_weight(w, m)
    assert u.dtype == np.float32
    expected = packing.feature_map(exact(x, w, padding))  # type: ignore[arg-type]
    args = [
        te.placeholder([tvm.tirx.IntImm("int64", side) for side in each.shape], "float32", name)
        for each, name in ((data, "x"), (u, "u"))
    ]
    out = conv2d_winograd(*args, padding, m, columns(expected.shape[3], m, CpuModel()))
    assert [int(side) for side in out.shape] == list(expected.shape)
    mod = tvm.IRModule({"main": te.create_prim_func([*args, out])})
    built = compiled(mod, here().to_json())
    arrays = [tvm.runtime.tensor(np.ascontiguousarray(each)) for each in (data, u, np.zeros(expected.shape, "float32"))]
    built["main"](*arrays)
    assert np.abs(arrays[-1].numpy() - expected).max() <= BOUNDS[m] * np.abs(expected).max()


@pytest.mark.parametrize(("image", "outs"), [((1, 64, 16, 14), 32), ((2, 20, 9, 8), 18)])
def test_the_error_in_bfloat16_is_bounded(image: tuple[int, int, int, int], outs: int) -> None:
    rng, padding = np.random.default_rng(0), (1, 1, 1, 1)
    bits = dtype_of("bfloat16")
    x = rng.standard_normal(image).astype(bits)
    w = rng.standard_normal((outs, image[1], 3, 3)).astype(np.float32)
    data, u = packing.feature_map(x).view("uint16"), packing.winograd_pairs(w, TILE_OF_PAIRS)
    expected = packing.feature_map(exact(x.astype(np.float32), w, padding))
    args = [
        te.placeholder([tvm.tirx.IntImm("int64", side) for side in each.shape], "uint16", name)
        for each, name in ((data, "x"), (u, "u"))
    ]
    out = conv2d_winograd_pairs(*args, padding, columns(expected.shape[3], TILE_OF_PAIRS, CpuModel()))
    built = compiled(tvm.IRModule({"main": te.create_prim_func([*args, out])}), here().to_json())
    arrays = [tvm.runtime.tensor(np.ascontiguousarray(each)) for each in (data, u, np.zeros(expected.shape, "float32"))]
    built["main"](*arrays)
    off = arrays[-1].numpy() - expected
    assert 1e-3 < np.sqrt(np.square(off).mean() / np.square(expected).mean()) < 5e-3


@pytest.mark.parametrize(
    ("source", "outs", "pays"),
    [
        ((1, 64, 56, 56), 64, True),
        ((1, 128, 28, 28), 32, True),
        ((1, 512, 7, 7), 512, False),
        ((1, 8, 56, 56), 64, False),
    ],
)
def test_where_it_may_pay_in_bfloat16(source: tuple[int, int, int, int], outs: int, pays: bool) -> None:
    assert winograd.fits_pairs(convolution(source, outs), CpuModel()) is pays
    assert not winograd.fits_pairs(convolution(source, outs, stride=2), CpuModel())


@pytest.mark.parametrize("plain", [False, True])
@FEW
@given(
    st.tuples(st.integers(1, 2), st.integers(1, 3), st.integers(3, 20), st.integers(3, 20)),
    st.integers(1, 4),
    st.tuples(*[st.integers(0, 2)] * 4),
    st.sampled_from([2, 4]),
    st.sampled_from(["relu", "silu"]),
    st.booleans(),
)
def test_sketches_of_any_shape(
    plain: bool,
    image: tuple[int, int, int, int],
    outs: int,
    padding: tuple[int, int, int, int],
    m: int,
    activation: str,
    residual: bool,
) -> None:
    task = conv_winograd(image, outs, padding, m, activation, residual, plain)
    assert 2 <= check(task, each=1) <= 4


def test_it_is_recognised_by_its_structure() -> None:
    for plain in (False, True):
        task = conv_winograd((1, 2, 14, 14), 2, (1, 1, 1, 1), 4, plain=plain)
        assert 0 < fits(Winograd(), task, here()) == len(own(task, here())) <= 4
    for other in (
        conv_blocked((1, 2, 14, 14), 2, (3, 3), (1, 1), (1, 1, 1, 1)),
        operator("gemm:64x64x64"),
        operator("softmax:4x16"),
    ):
        assert fits(Winograd(), other, here()) == 0


def test_the_generator_leaves_the_stages_to_the_rule() -> None:
    task = conv_winograd((1, 2, 14, 14), 2, (1, 1, 1, 1), 4)
    (other,) = [body for body in space.generate(task.module, here()) if body.postprocs]
    assert len(other.knobs) <= 2


def test_it_is_a_convolution() -> None:
    workload = conv_winograd((1, 2, 14, 14), 2, (1, 1, 1, 1), 4).workload
    assert "conv2d_winograd" in workload.name
    assert workload.family == "conv2d"


def test_what_follows_is_fused() -> None:
    """``conv_winograd`` finds one task, so bias, activation and residual are part of it."""
    assert len(conv_winograd((1, 2, 14, 14), 2, (1, 1, 1, 1), 2, residual=True).workload.args) == 5


def test_traces_replay_without_the_rules() -> None:
    task = conv_winograd((1, 2, 13, 13), 4, (1, 1, 1, 1), 4, plain=True)
    made = space.TraceSpace(task.module, here(), own(task, here()))
    points, valid = made.resolve(made.space.sample(np.random.default_rng(0), 3))
    expected = rule_checks.run_schedule(tir.load_module(task.module), task, here())
    assert valid.all()
    for candidate in made.space.candidates(points):
        sch = Schedule(tir.load_module(task.module))
        Trace.apply_json_to_schedule(json.loads(made.trace(candidate)), sch)
        np.testing.assert_allclose(rule_checks.run_schedule(sch.mod, task, here()), expected, rtol=1e-4, atol=1e-4)


TARGETS = [(AVX512, "zmm"), (AVX2, "ymm"), (NEON, ".4s")]


@pytest.mark.parametrize(
    ("target", "fused", "m"), some([(*each, m) for each in TARGETS for m in (2, 4)], kind=lambda case: case[1])
)
def test_each_target_multiplies_in_its_vectors(target: Target, fused: str, m: int) -> None:
    warm("llvm", target.triple)
    rule_checks.check_vectors(conv_winograd((1, 1, 8, 8), 2, (1, 1, 1, 1), m), target, fused)


def test_a_first_batch_is_constructed() -> None:
    task = conv_winograd((1, 4, 28, 28), 8, (1, 1, 1, 1), 4)
    bodies = own(task, AVX512)
    made = space.TraceSpace(task.module, AVX512, bodies)
    assert all(made.nests.nest(body.hash, ()) is not None for body in bodies)
    prior = prior_of(made, AVX512, None)
    first = construct(made.space, prior, np.random.default_rng(0), 8)
    assert len(first) == 8
    assert np.isfinite(prior(first)).all()
