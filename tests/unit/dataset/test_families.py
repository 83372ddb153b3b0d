from __future__ import annotations

import pytest

from tunesmith.dataset.families import FAMILIES, draw_operators, operations, tensor_bytes, within_bounds
from tunesmith.errors import InvalidInput
from tunesmith.operators import NARROW_KINDS, parse_operator

pytestmark = pytest.mark.parallel


@pytest.mark.parametrize("seed", [0, 7])
def test_drawn_operators_are_valid_bounded_and_each_another(seed: int) -> None:
    found = draw_operators(list(FAMILIES), 140, seed)
    assert len({spec.canonical for spec in found}) == 140
    assert all(parse_operator(spec.canonical) == spec and within_bounds(spec) for spec in found)
    assert [spec.kind for spec in found[:7]] == list(FAMILIES)
    assert min(map(operations, found)) < 1e7 < 1e8 < max(map(operations, found)), "small and large ones"
    batches = {spec.dims[0] for spec in found if spec.kind == "conv2d"}
    assert len(batches) > 1
    assert {spec.stride for spec in found} == {1, 2}
    assert {1, 3, 5} <= {spec.kernel[0] for spec in found}


def test_a_seed_and_a_family_always_draw_the_same_and_more_only_adds() -> None:
    some = draw_operators(["gemm", "conv2d"], 10, 3)
    assert draw_operators(["gemm", "conv2d"], 20, 3)[:10] == some
    assert draw_operators(["gemm"], 5, 3) == [spec for spec in some if spec.kind == "gemm"]
    assert draw_operators(["gemm"], 5, 4) != draw_operators(["gemm"], 5, 3)


@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_narrow_operators_are_of_the_kinds_that_have_them_and_fill_registers(precision: str) -> None:
    found = draw_operators(list(FAMILIES), 30, 0, precision)
    assert {spec.kind for spec in found} == set(NARROW_KINDS)
    for spec in found:
        assert spec.precision == precision
        inner = (spec.channels, spec.dims[1]) if spec.kind == "conv2d" else spec.dims[1:]
        assert all(extent % 16 == 0 for extent in inner)


def test_bounds_count_arithmetic_and_memory() -> None:
    assert operations(parse_operator("gemm:2x3x4:float32")) == 48
    assert operations(parse_operator("conv2d:1x4x8x8,2x4x3x3,s1,p1:float32")) == 2 * 2 * 64 * 36
    assert operations(parse_operator("depthwise:1x4x8x8,k3,s1,p1:float32")) == 2 * 4 * 64 * 9
    assert tensor_bytes(parse_operator("gemm:2x3x4:float32")) == 4 * (8 + 12 + 6)
    assert tensor_bytes(parse_operator("gemm:2x3x4:int8")) == 8 + 12 + 6
    assert not within_bounds(parse_operator("gemm:16x16x16:float32"))
    assert not within_bounds(parse_operator("gemm:2048x2048x2048:float32"))


def test_what_cannot_be_drawn_is_refused_by_name() -> None:
    with pytest.raises(InvalidInput, match=r"no family 'conv3d'; there are conv2d, .*layernorm"):
        draw_operators(["gemm", "conv3d"], 1, 0)
    with pytest.raises(InvalidInput, match=r"softmax have only 0 shapes in bf16"):
        draw_operators(["softmax"], 1, 0, "bf16")
