"""Rules on products of quads of bytes: NumPy's whole numbers whatever is decided, and on the instruction there is."""

from __future__ import annotations

import re

import numpy as np
import pytest
import rule_checks
from effort import examples
from emulated import emulated
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pair_tasks import ZNVER4
from quad_tasks import Case, assembly, convolution, dense, depthwise, of_groups

from tunesmith.targets import Target

import tvm  # isort: skip

from workers.tvm_backend import tir
from workers.tvm_backend.arguments import random_array
from workers.tvm_backend.design_space import space
from workers.tvm_backend.design_space.rules.row_words import DepthwiseWords
from workers.tvm_backend.design_space.static_model import prior_of
from workers.tvm_backend.passes.value_ranges.functions import Function
from workers.tvm_backend.passes.value_ranges.search import argument_specs

pytestmark = pytest.mark.parallel

FEW = settings(max_examples=examples(2), deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
EVEN = st.integers(1, 4).map(lambda pairs: 2 * pairs)
"""Rows of maps whose rows are taken in twos."""
SAPPHIRE = Target({"kind": "llvm", "mcpu": "sapphirerapids", "num-cores": 2})
ALDER_LAKE = Target({"kind": "llvm", "mcpu": "alderlake", "num-cores": 2})
NOT_DOTS = r"\b(vpmaddwd|vpmaddubsw|vpmulld)\b"


@FEW
@given(st.integers(2, 20), st.integers(1, 3), st.integers(1, 20), st.sampled_from([16, 8]))
def test_dense_layers(rows: int, panels: int, quads: int, lanes: int) -> None:
    assert dense((rows,), panels * lanes, 4 * quads, lanes).check() >= 1


@FEW
@given(
    st.integers(1, 2),
    st.sampled_from([(4, 1), (32, 1), (32, 2)]),
    st.integers(1, 3),
    st.tuples(st.integers(1, 2), st.integers(1, 2)),
    st.tuples(*[st.integers(0, 1)] * 4),
    st.tuples(st.integers(1, 2), st.integers(1, 2)),
)
def test_convolutions(
    images: int,
    channels: tuple[int, int],
    kernel: int,
    stride: tuple[int, int],
    padding: tuple[int, int, int, int],
    dilation: tuple[int, int],
) -> None:
    case = convolution((images, channels[0], 7, 8), 32, kernel, stride, padding, dilation, channels[1])
    assert case.check() >= 2


@pytest.mark.parametrize("kernel", [1, 3])
def test_spare_blocks_are_computed_and_not_written(kernel: int) -> None:
    assert convolution((1, 32, 5, 13), 48, kernel, padding=(kernel // 2,) * 4, spare=1).check() >= 2


def test_products_of_groups() -> None:
    assert of_groups(2, 3, 6, 7).check() == 2, "channels that fill no lanes, pixels that fill no registers"


@FEW
@given(st.tuples(st.integers(1, 2), st.sampled_from([16, 32]), EVEN, st.integers(1, 9)))
def test_depthwise_convolutions_in_blocks(image: tuple[int, int, int, int]) -> None:
    right_by_words(depthwise(image))


@FEW
@given(st.tuples(st.integers(1, 2), st.integers(1, 5), EVEN, st.one_of(st.integers(9, 40), st.just(32))))
def test_depthwise_convolutions_of_plain_maps(image: tuple[int, int, int, int]) -> None:
    right_by_words(depthwise(image, lanes=1))


FUSED = {
    "dense": lambda: dense((6,), 32, 12),
    "convolution": lambda: convolution((1, 16, 5, 7), 16, 3),
    "groups": lambda: of_groups(2, 3, 8, 16),
    "depthwise": lambda: depthwise((1, 16, 4, 5)),
}
"""A small product of each kind."""


@pytest.mark.parametrize("kind", FUSED)
def test_sums_may_be_numbers_before_they_are_codes(kind: str) -> None:
    assert FUSED[kind]().rectified().check() >= 1


@pytest.mark.parametrize("kind", FUSED)
@pytest.mark.parametrize("rectified", [False, True])
def test_codes_of_drawn_arguments_spread(kind: str, rectified: bool) -> None:
    case = FUSED[kind]().rectified() if rectified else FUSED[kind]()
    mod = tir.load_module(case.task.module)
    specs = argument_specs(Function(mod["main"]), case.task.workload.args)
    case.arrays = [random_array(spec, at) for at, spec in enumerate(specs[:-1])]
    codes = case.run(mod, rule_checks.here())
    assert len(np.unique(codes)) > 25
    assert ((codes == 0) | (codes == 255)).mean() < 0.7


def right_by_words(case: Case) -> None:
    """The rule's schedule is on the instruction, and right whatever is decided."""
    assert case.check() >= 1
    mod = rule_checks.by_rule(case.task, DepthwiseWords(), ZNVER4)
    text = str(tvm.compile(mod, target=tir.tvm_target(ZNVER4)).mod.inspect_source("asm"))
    assert len(re.findall(r"vpdpbusd.*%zmm", text)) >= 4
    assert (case.run(emulated(mod), rule_checks.here()) == case.expected).mean() > 0.99


def test_depthwise_convolutions_in_deeper_blocks_widen_rows() -> None:
    case = depthwise((1, 32, 4, 4), lanes=32)
    assert rule_checks.fits(DepthwiseWords(), case.task, ZNVER4) == 0
    assert case.check() >= 1
    assert rule_checks.scheduled(case.task, ZNVER4, each=1)


@pytest.mark.parametrize(("columns", "lanes"), [(8, 16), (14, 1)])
def test_with_a_matrix_unit_both_ways_of_a_depthwise_convolution_are_estimated(columns: int, lanes: int) -> None:
    task = depthwise((1, 32, 8, columns), lanes).task
    bodies = rule_checks.own(task, SAPPHIRE)
    assert len(bodies) >= 2
    for body in bodies:
        made = space.TraceSpace(task.module, SAPPHIRE, [body])
        prior = prior_of(made, SAPPHIRE, None)
        assert prior is not None
        assert np.isfinite(prior(made.space.sample(np.random.default_rng(0), 4))).all()


def test_products_are_on_the_instruction_of_the_cpu() -> None:
    case = convolution((1, 16, 4, 4), 16, 3)
    for each in (case, of_groups(1, 8, 8, 16)):
        for target, pattern in ((ZNVER4, r"vpdpbusd.*%zmm"), (ALDER_LAKE, r"\bvpdpbusd\b.*%ymm")):
            text = assembly(each, target)
            assert len(re.findall(pattern, text)) >= 4
            assert not re.search(NOT_DOTS, text)
    for target, name in ((rule_checks.AVX512, "vpmaddwd"), (rule_checks.NEON, r"mla\s+v\d+\.4s")):
        assert len(re.findall(name, assembly(case, target))) >= 4
