"""Rules on products of bfloat16 pairs: right whatever is decided, and on the instruction where there is one."""

from __future__ import annotations

import re

import pair_tasks
import pytest
import rule_checks
from effort import examples
from emulated import emulated
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pair_tasks import ZNVER4, between, by_winograd, check, convolution, dense, depthwise, of_groups, plain_depthwise

import tvm  # isort: skip
from tvm import topi  # isort: skip
from tvm.s_tir import SBlock  # isort: skip
from tvm_ffi import structural_walk  # isort: skip

from workers.tvm_backend import tir
from workers.tvm_backend.design_space.rules.row_words import DepthwiseWords
from workers.tvm_backend.passes import ordering
from workers.tvm_backend.passes.extract_tasks import Extracted

pytestmark = pytest.mark.parallel

FEW = settings(max_examples=examples(3), deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
EVEN = st.integers(1, 4).map(lambda pairs: 2 * pairs)
"""Rows of maps whose rows are taken in twos."""


@FEW
@given(
    st.lists(st.integers(1, 20), min_size=1, max_size=2).map(tuple),
    st.integers(1, 3),
    st.integers(1, 20),
    st.sampled_from([16, 8]),
    st.booleans(),
    st.booleans(),
)
def test_dense_layers(
    rows: tuple[int, ...], panels: int, depth: int, lanes: int, residual: bool, rounded: bool
) -> None:
    assert check(dense(rows, panels, depth, lanes, residual=residual, rounded=rounded)) >= 1


@FEW
@given(
    st.tuples(st.integers(1, 2), st.integers(1, 2), st.integers(7, 12), st.integers(7, 12)),
    st.integers(1, 3),
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
    st.tuples(st.integers(1, 2), st.integers(1, 2)),
    st.tuples(*[st.integers(0, 1)] * 4),
    st.tuples(st.integers(1, 2), st.integers(1, 2)),
    st.sampled_from([16, 2]),
    st.booleans(),
    st.booleans(),
)
def test_convolutions(
    image: tuple[int, int, int, int],
    outs: int,
    kernel: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[int, int, int, int],
    dilation: tuple[int, int],
    inner: int,
    residual: bool,
    rounded: bool,
) -> None:
    task = convolution(image, outs, kernel, stride, padding, dilation, inner, residual=residual, rounded=rounded)
    assert check(task) >= 2


@FEW
@given(
    st.tuples(st.integers(1, 2), st.integers(1, 3), st.integers(3, 12), st.integers(3, 16)),
    st.integers(1, 4),
    st.tuples(*[st.integers(0, 2)] * 4),
    st.booleans(),
    st.booleans(),
)
def test_convolutions_by_winograds_algorithm(
    image: tuple[int, int, int, int],
    outs: int,
    padding: tuple[int, int, int, int],
    residual: bool,
    rounded: bool,
) -> None:
    task = by_winograd(image, outs, padding, residual=residual, rounded=rounded)
    mods = [emulated(mod) for mod in rule_checks.scheduled(task, ZNVER4, each=1)]
    plain = rule_checks.scheduled(task, rule_checks.AVX2, each=1)
    assert 2 <= len(mods) <= 4
    assert 2 <= len(plain) <= 4
    check(task, more=[*mods, *plain])


@pytest.mark.parametrize("kernel", [1, 3])
def test_spare_blocks_are_computed_and_not_written(kernel: int) -> None:
    task = convolution((1, 2, 5, 13), 3, (kernel, kernel), padding=(kernel // 2,) * 4, spare=1)
    assert check(task) >= 2
    for mod in rule_checks.scheduled(task, ZNVER4, each=2):
        found: list[SBlock] = []
        structural_walk(mod["main"].body, (SBlock, found.append))
        last = str(mod["main"].params[-1].name)
        (writes,) = [
            block for block in found if any(str(each.source.name) == last for each in block.writes) and block.iter_vars
        ]
        assert [int(each.dom.extent) for each in writes.iter_vars][1] == 3, "no store behind the end of the result"


def test_convolutions_of_groups() -> None:
    assert check(convolution((1, 4, 7, 7), 2, (3, 3), padding=(1, 1, 1, 1), groups=2)) >= 2


def test_products_of_groups() -> None:
    assert check(of_groups(2, 3, 5, 7, residual=True)) == 2, "odd channels, pixels that fill no registers"


@FEW
@given(st.tuples(st.integers(1, 2), st.integers(1, 3), EVEN, st.integers(1, 9)))
def test_depthwise_convolutions_in_blocks(image: tuple[int, int, int, int]) -> None:
    right_by_words(depthwise(image))


@FEW
@given(
    st.tuples(st.integers(1, 2), st.integers(1, 5), EVEN, st.one_of(st.integers(9, 40), st.just(32))),
    st.booleans(),
    st.booleans(),
)
def test_depthwise_convolutions_of_plain_maps(image: tuple[int, int, int, int], residual: bool, rounded: bool) -> None:
    right_by_words(plain_depthwise(image, residual=residual, rounded=rounded))


@pytest.mark.parametrize("image", [(1, 2, 4, 14), (1, 2, 7, 7)])
def test_what_is_left_of_a_row_is_rounded_in_vectors(image: tuple[int, int, int, int]) -> None:
    """Two rows at a time on words, and an odd number of them that are widened."""
    for mod in rule_checks.scheduled(plain_depthwise(image, rounded=True), ZNVER4, each=1):
        text = str(tvm.compile(mod, target=tir.tvm_target(ZNVER4)).mod.inspect_source("asm"))
        assert not re.search(r"\bmovw\s+%\w+, -?\d*\(%r\w+,", text), "no number is stored by itself"


def right_by_words(task: Extracted) -> None:
    """The rule's schedule is on the instruction, and right whatever is decided."""
    mod = rule_checks.by_rule(task, DepthwiseWords(), ZNVER4)
    on_the_instruction(mod)
    assert check(task, more=[emulated(mod)]) >= 1


MAP = (1, 2, 9, 9, 16)
OTHERS = {
    "max pool": (lambda x: ordering.max_pool(x, [3, 3], [2, 2], [1] * 4, [1, 1], [1, 2, 5, 5, 16]), [MAP], []),
    "sum of two": (lambda x, y: topi.nn.relu(topi.add(x, y)), [MAP, MAP], []),
    "mean": (lambda x: topi.sum(x, axis=[2, 3], keepdims=True), [MAP], []),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_stands_between_products(name: str) -> None:
    assert check(between(*OTHERS[name])) >= 1


@pytest.mark.parametrize(
    "task",
    [
        dense((12,), 4, 32),
        convolution((1, 2, 8, 8), 4, (3, 3)),
        of_groups(2, 8, 8, 16),
        by_winograd((1, 2, 8, 8), 4, (1, 1, 1, 1)),
    ],
    ids=["dense", "conv", "groups", "winograd"],
)
def test_all_multiply_adds_are_on_the_instruction(task: pair_tasks.Extracted) -> None:
    mods = rule_checks.scheduled(task, ZNVER4, each=1)
    assert mods
    for mod in mods:
        on_the_instruction(mod)


def on_the_instruction(mod: tvm.IRModule) -> None:
    """The compiled code for a CPU that has it multiplies nothing otherwise."""
    text = str(tvm.compile(mod, target=tir.tvm_target(ZNVER4)).mod.inspect_source("asm"))
    assert len(re.findall(r"\bvdpbf16ps\b", text)) >= 4
    assert not re.search(r"\bvfn?madd", text), "bias is added, nothing else is multiplied"
    assert "call" not in re.findall(r"\bcallq?\b.*ts_dpbf16ps", text)
