from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import rule_checks
from effort import THOROUGH, examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rule_checks import AVX2, AVX512, NEON, check, conv_blocked, dense, dense_packed, fits, here, operator, own

from tunesmith.analysis.cpu_model import CpuModel
from tunesmith.analysis.machine_code import PLACE, code_row
from tunesmith.targets import Target
from workers.tvm_backend.build.assembly import assembly_of
from workers.tvm_backend.design_space import rules, space
from workers.tvm_backend.design_space.replay import Replayer
from workers.tvm_backend.design_space.rules.blocked_conv import BlockedConvolution
from workers.tvm_backend.design_space.rules.direct_conv import DirectConvolution
from workers.tvm_backend.design_space.rules.elementwise import common_axes
from workers.tvm_backend.design_space.rules.machine import cpu_model_of
from workers.tvm_backend.design_space.rules.packed_matmul import PackedMatmul
from workers.tvm_backend.design_space.rules.pointwise import PointwiseConvolution
from workers.tvm_backend.design_space.rules.registers import (
    accumulators,
    largest_divisor,
    product_tiles,
    row_tiles,
    tile,
)
from workers.tvm_backend.design_space.rules.stages import find, inline
from workers.tvm_backend.passes import extract_tasks, pipeline
from workers.tvm_backend.passes.extract_tasks import Extracted

from tvm import relax  # isort: skip

pytestmark = pytest.mark.parallel

FEW = settings(max_examples=examples(12), deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
CONTRACTIONS = (PackedMatmul(), DirectConvolution(), PointwiseConvolution(), BlockedConvolution())
CPUS = [CpuModel.of(1, *registers) for registers in ((64, 32), (32, 16), (16, 32))]
small = st.integers(1, 40)
rows = st.lists(small, min_size=1, max_size=2).map(tuple)
activations = st.sampled_from(["relu", "gelu", "silu"])


@FEW
@given(rows, small, small, activations, st.booleans())
def test_dense_layers_of_any_shape(
    rows: tuple[int, ...], columns: int, depth: int, activation: str, residual: bool
) -> None:
    assert check(dense(rows, columns, depth, activation, residual)) >= 1


@FEW
@given(rows, st.integers(1, 4), small, activations, st.booleans())
def test_dense_layers_whose_weights_are_packed(
    rows: tuple[int, ...], panels: int, depth: int, activation: str, residual: bool
) -> None:
    assert check(dense_packed(rows, panels, depth, activation, residual)) >= 1


@pytest.mark.parametrize("rows", [1, 13])
def test_what_only_the_residual_is_made_of_is_computed_on_the_way(rows: int) -> None:
    task = dense((rows,), 40, 24, residual=True, wrapped=True)
    assert task.workload.name.count("squeeze") == 1, "one function"
    assert check(task, each=1) >= fits(PackedMatmul(), task, here()) >= 1


@pytest.mark.parametrize("lanes", [4, 8])
@pytest.mark.parametrize("rows", [1, 5])
def test_narrow_panels_are_products_too(rows: int, lanes: int) -> None:
    assert check(dense_packed((rows,), 125, 24, lanes=lanes)) >= 1


@FEW
@given(st.sampled_from(["gemm:{m}x{n}x{k}", "dense:{m}x{n}x{k}", "bmm:{b}x{m}x{n}x{k}"]), small, small, small, small)
def test_products_of_any_shape(form: str, b: int, m: int, n: int, k: int) -> None:
    check(operator(form.format(b=b, m=max(m, 2), n=max(n, 2), k=max(k, 2))))


def test_a_deep_reduction_may_go_in_pieces() -> None:
    deep = dense((23,), 48, CpuModel().deep_steps, residual=True)
    cpu = cpu_model_of(here())
    tiles = len(product_tiles(cpu, 1, 23, -(-48 // cpu.lanes())))
    more = -tiles if cpu.few_registers else tiles  # columns are then packed, in one go
    assert fits(PackedMatmul(), deep, here()) - fits(PackedMatmul(), dense((23,), 48, 32), here()) == more
    assert check(deep, each=1) == fits(PackedMatmul(), deep, here())


@FEW
@given(
    st.integers(1, 2),
    st.sampled_from([3, 8]),
    st.sampled_from([16, 24, 32, 48]),
    st.integers(7, 20),
    st.integers(7, 20),
    st.sampled_from([1, 3, 5]),
    st.sampled_from([1, 2]),
    st.integers(0, 2),
)
def test_convolutions_of_any_shape(
    n: int, i: int, o: int, h: int, w: int, kernel: int, stride: int, padding: int
) -> None:
    spec = f"conv2d:{n}x{i}x{h}x{w},{o}x{i}x{kernel}x{kernel},s{stride},p{padding}"
    for target in (here(), AVX2):
        assert check(operator(spec), target=target) >= 1


@FEW
@given(st.integers(1, 2), small, small, st.integers(1, 5), st.integers(1, 20), st.integers(0, 1))
def test_pointwise_convolutions_of_any_shape(n: int, i: int, o: int, h: int, w: int, padding: int) -> None:
    high, wide = 4 * h - 2 * padding, 4 * w - 2 * padding
    task = operator(f"conv2d:{n}x{i}x{high}x{wide},{o}x{i}x1x1,s1,p{padding}")
    assert fits(PointwiseConvolution(), task, here()) >= 1
    assert check(task) >= 1


def test_a_product_skips_no_pixels() -> None:
    assert fits(PointwiseConvolution(), operator("conv2d:1x8x8x8,16x8x1x1,s2,p0"), here()) == 0


@FEW
@given(
    st.tuples(st.integers(1, 2), st.integers(1, 2), st.integers(7, 20), st.integers(7, 20)),
    st.integers(1, 4),
    st.tuples(st.integers(1, 4), st.integers(1, 4)),
    st.tuples(st.integers(1, 2), st.integers(1, 2)),
    st.tuples(*[st.integers(0, 2)] * 4),
    st.tuples(st.integers(1, 2), st.integers(1, 2)),
    activations,
    st.booleans(),
    st.sampled_from([16, 3]),
    st.booleans(),
)
def test_blocked_convolutions_of_any_shape(
    image: tuple[int, int, int, int],
    outs: int,
    kernel: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[int, int, int, int],
    dilation: tuple[int, int],
    activation: str,
    residual: bool,
    inner: int,
    few_registers: bool,
) -> None:
    task = conv_blocked(image, outs, kernel, stride, padding, dilation, activation, residual, inner)
    assert check(task, target=AVX2 if few_registers else here()) >= 2


@FEW
@given(
    st.integers(2, 3),
    st.integers(1, 2),
    st.integers(1, 2),
    st.tuples(st.integers(1, 2), st.integers(5, 9)),
    st.integers(1, 3),
    st.integers(1, 2),
)
def test_groups_of_blocks_of_any_shape(
    groups: int, inputs: int, outputs: int, image: tuple[int, int], kernel: int, stride: int
) -> None:
    task = conv_blocked(
        (image[0], groups * inputs, image[1], 7),
        groups * outputs,
        (kernel, 2),
        (stride, 1),
        (1, 0, 1, 0),
        groups=groups,
    )
    assert fits(BlockedConvolution(), task, AVX512) == 2
    assert check(task) >= 2


@pytest.mark.parametrize("spec", ["softmax:4x16x16", "layernorm:16x32", "depthwise:1x16x14x14,k3,s1,p1"])
def test_what_is_no_contraction_is_left_to_others(spec: str) -> None:
    assert [fits(rule, operator(spec), here()) for rule in CONTRACTIONS] == [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("statements", "sketches"),
    [
        ("S[i, j] = T.max(C[i, j], T.float32(0.0))", True),
        ("S[i, j] = C[j, i]", False),
        ("S[i, j] = C[i, j] + C[i, 0]", False),
        ("S[15 - i, j] = C[i, j]", False),
    ],
)
def test_only_what_is_element_by_element_is_folded(statements: str, sketches: bool) -> None:
    assert (fits(PackedMatmul(), rule_checks.product_followed_by(statements), here()) > 0) == sketches


VECTORS: list[tuple[str, Callable[[], Extracted]]] = [
    ("product", lambda: operator("gemm:64x256x64")),
    ("product", lambda: dense_packed((8, 16), 4, 64)),
    ("product", lambda: dense_packed((197,), 4, 64)),
    ("blocked", lambda: conv_blocked((1, 2, 14, 14), 4, (3, 3), (1, 1), (1, 1, 1, 1), residual=True)),
    ("blocked", lambda: conv_blocked((1, 2, 7, 7), 4, (1, 1), (1, 1), (0, 0, 0, 0))),
    ("blocked", lambda: conv_blocked((1, 4, 7, 7), 4, (3, 3), (1, 1), (1, 1, 1, 1), groups=4)),
    ("direct", lambda: operator("conv2d:1x8x14x14,32x8x3x3,s1,p1")),
    ("pointwise", lambda: operator("conv2d:1x8x16x16,32x8x1x1,s1,p0")),
]
"""Tasks by the rule that they are for."""
TARGETS = {"zmm": AVX512, "ymm": AVX2, ".4s": NEON}
PAIRS = [(*each, fused) for each in VECTORS for fused in TARGETS]
"""Every rule and every target are among each fourth of them and the last."""


@pytest.mark.parametrize(
    ("rule", "task", "fused"),
    PAIRS if THOROUGH else [*PAIRS[::4], PAIRS[-1]],
    ids=lambda value: value if isinstance(value, str) else "task",
)
def test_each_target_multiplies_in_its_vectors(rule: str, task: Callable[[], Extracted], fused: str) -> None:
    rule_checks.check_vectors(task(), TARGETS[fused], fused)


def shuffle(*extents: int) -> Extracted:
    """A map [1, C, H, W] whose channels take turns: C is the product of the first two of four extents."""
    first, second, high, wide = extents
    x, builder = relax.Var("x", relax.TensorType([1, first * second, high, wide], "float32")), relax.BlockBuilder()
    with builder.function("main", [x], {"input_names": '["x"]', "num_input": 1}):
        with builder.dataflow():
            parts = builder.emit(relax.op.reshape(x, [1, *extents]))
            turned = builder.emit(relax.op.permute_dims(parts, [0, 2, 1, 3, 4]))
            out = builder.emit_output(relax.op.reshape(turned, [1, first * second, high, wide]))
        builder.emit_func_output(out)
    (found,) = extract_tasks.extract_tasks(pipeline.prepare(builder.get()).module)
    return found


@pytest.mark.parametrize("extents", [(2, 3, 7, 7), (4, 8, 5, 1), (3, 2, 4, 6)])
def test_shuffled_channels_are_copied_plane_by_plane(extents: tuple[int, int, int, int]) -> None:
    task = shuffle(*extents)
    sch = Replayer(task.module, AVX512).fresh()
    inline(sch, [stage.name for stage in find(sch) or () if stage.consumers])
    (stage,) = find(sch) or ()
    assert common_axes(stage) == 2, "rows and columns are one run"
    assert check(task) >= 1
    assert all(len(body.knobs) == 2 for body in own(task, AVX512)), "chunks of planes, and of a plane"


def test_sketches_are_few() -> None:
    assert 3 <= len(own(operator("gemm:64x256x64"), here())) <= 6
    assert 2 <= len(own(operator("dense:64x256x64"), here())) <= 4
    assert 3 <= len(own(operator("gemm:197x256x64"), here())) <= 6
    assert 1 <= len(own(dense_packed((197,), 4, 64), here())) <= 2
    plain = operator("conv2d:1x8x14x14,32x8x3x3,s1,p1")
    assert [len(own(plain, target)) for target in (AVX512, AVX2)] == [1, 2]
    blocked = conv_blocked((1, 2, 14, 14), 4, (3, 3), (1, 1), (1, 1, 1, 1))
    assert [len(own(blocked, target)) for target in (AVX512, AVX2)] == [2, 4]


def test_packed_weights_are_not_packed_again() -> None:
    for mod in rule_checks.scheduled(dense_packed((16,), 4, 64), AVX512, each=4):
        assert mod.script().count("sblock_alloc_buffer") == mod.script().count('scope="local"') == 1


def test_rows_that_fill_no_tiles_are_tested_while_they_are_copied_and_not_while_they_are_multiplied() -> None:
    for mod in rule_checks.scheduled(dense_packed((197,), 4, 64), AVX512, each=4):
        blocks = mod.script().split("with T.sblock(")
        tested = [block.partition(")")[0].strip('"') for block in blocks if "if_then_else" in block]
        assert len(tested) == 1
        assert tested[0].endswith("_pad")


@given(
    st.sampled_from(CPUS),
    st.integers(1, 300),
    st.integers(1, 300),
    st.integers(1, 32),
)
def test_a_tile_stays_near_the_registers(cpu: CpuModel, scalars: int, vectors: int, most: int) -> None:
    budget = accumulators(cpu)
    limits = tile(replace(cpu, max_pixels=most), scalars, vectors)
    assert 1 <= limits.scalars <= most
    assert scalars % limits.scalars == 0
    assert limits.vectors >= 1
    assert limits.scalars * limits.vectors <= budget or limits.vectors <= 2


@given(
    st.sampled_from(CPUS),
    st.sampled_from([1, 2, 4]),
    st.integers(28, 2000),
    st.integers(1, 300),
)
def test_a_tile_of_a_product_is_in_registers(cpu: CpuModel, registers: int, rows: int, panels: int) -> None:
    tiles = product_tiles(cpu, registers, rows, panels)
    assert 1 <= len(tiles) <= 2
    for found in tiles:
        assert 1 <= found.scalars <= rows
        assert registers * (found.scalars + 1) * found.vectors < cpu.registers
        padded = -(-rows // found.scalars) * found.scalars
        assert padded <= 1.25 * rows


@given(st.sampled_from(CPUS), st.integers(1, 300), st.integers(1, 300))
def test_a_tile_of_a_row_is_in_registers(cpu: CpuModel, columns: int, vectors: int) -> None:
    tiles = row_tiles(cpu, columns, vectors)
    assert 1 <= len(tiles) <= 2
    for found in tiles:
        assert 1 <= found.scalars <= columns
        assert vectors % found.vectors == 0
        assert (found.scalars + 1) * found.vectors < cpu.registers


@pytest.mark.parametrize(("columns", "best"), [(13, (5, 2)), (14, (5, 2)), (28, (6, 2)), (55, (5, 2)), (7, (4, 2))])
def test_sixteen_registers_take_tiles_that_need_not_divide_a_row(columns: int, best: tuple[int, int]) -> None:
    (first, *_) = row_tiles(CpuModel.of(1, 32, 16), columns, 4)
    assert (first.scalars, first.vectors) == best


@pytest.mark.parametrize(("width", "kernel"), [(13, 1), (13, 3), (14, 3)])
def test_sums_of_rows_that_no_tile_divides_stay_in_registers(width: int, kernel: int) -> None:
    task = conv_blocked((1, 32, width, width), 4, (kernel, kernel), (1, 1), (kernel // 2,) * 4)
    made = space.TraceSpace(task.module, AVX2, own(task, AVX2))
    points, valid = made.resolve(made.space.sample(np.random.default_rng(0), 4))
    assert valid.all()
    for candidate in made.space.candidates(points):
        counts = code_row(assembly_of(made, candidate))
        assert 8 * counts[PLACE["hot.stores"]] < counts[PLACE["hot.products"]]


@given(st.integers(1, 500), st.integers(1, 500))
def test_the_largest_divisor(extent: int, limit: int) -> None:
    found = largest_divisor(extent, limit)
    assert extent % found == 0
    assert found <= limit
    assert all(extent % more for more in range(found + 1, min(extent, limit) + 1))


def test_rules_are_for_cpus() -> None:
    task = operator("gemm:64x64x64")
    replayer = Replayer(task.module, here())
    assert list(rules.schedules(replayer.fresh, Target({"kind": "cuda"}))) == []
    assert len(list(rules.schedules(replayer.fresh, here()))) >= 3
