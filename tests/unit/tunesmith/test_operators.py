from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tunesmith.errors import InvalidOperator
from tunesmith.operators import DTYPES, FORMS, NARROW_KINDS, looks_like_operator, parse_operator

n = st.integers(1, 300)


def shape(rank: int) -> st.SearchStrategy[str]:
    return st.lists(n, min_size=rank, max_size=rank).map(lambda dims: "x".join(map(str, dims)))


specs = st.one_of(
    st.tuples(st.sampled_from(["gemm", "dense"]), shape(3)),
    st.tuples(st.just("bmm"), shape(4)),
    st.tuples(st.just("softmax"), shape(3)),
    st.tuples(st.just("layernorm"), shape(2)),
    st.tuples(
        st.just("conv2d"),
        st.builds(
            lambda c, h, o, k, s, p: f"1x{c}x{h + k}x{h + k},{o}x{c}x{k}x{k},s{s},p{p}",
            n,
            n,
            n,
            st.integers(1, 7),
            st.integers(1, 3),
            st.integers(0, 3),
        ),
    ),
    st.tuples(st.just("depthwise"), st.builds(lambda c, h, k: f"1x{c}x{h + k}x{h + k},k{k}", n, n, st.integers(1, 7))),
).flatmap(lambda pair: st.sampled_from(DTYPES).map(lambda dtype: f"{pair[0]}:{pair[1]}:{dtype}"))


@given(specs)
def test_canonical_text_parses_to_the_same(text: str) -> None:
    spec = parse_operator(text)
    assert parse_operator(spec.canonical) == spec
    assert all(min(t.shape) >= 1 for t in (*spec.inputs, spec.output))


@pytest.mark.parametrize(
    ("text", "canonical", "inputs", "output"),
    [
        ("gemm:2x3x4:float32", "gemm:2x3x4:float32", [(2, 4), (4, 3)], (2, 3)),
        ("gemm:2x3x4", "gemm:2x3x4:float32", [(2, 4), (4, 3)], (2, 3)),
        ("bmm:12x128x128x64:float16", "bmm:12x128x128x64:float16", [(12, 128, 64), (12, 64, 128)], (12, 128, 128)),
        ("dense:2x3x4", "dense:2x3x4:float32", [(2, 4), (3, 4)], (2, 3)),
        (
            "conv2d:1x64x56x56,64x64x3x3,s1,p1:float32",
            "conv2d:1x64x56x56,64x64x3x3,s1,p1:float32",
            [(1, 64, 56, 56), (64, 64, 3, 3)],
            (1, 64, 56, 56),
        ),
        (
            "conv2d:1x3x224x224,64x3x7x7,p3,s2",
            "conv2d:1x3x224x224,64x3x7x7,s2,p3:float32",
            [(1, 3, 224, 224), (64, 3, 7, 7)],
            (1, 64, 112, 112),
        ),
        (
            "depthwise:1x128x28x28,k3,s2,p1:float32",
            "depthwise:1x128x28x28,k3,s2,p1:float32",
            [(1, 128, 28, 28), (128, 1, 3, 3)],
            (1, 128, 14, 14),
        ),
        ("softmax:12x128x128:float32", "softmax:12x128x128:float32", [(12, 128, 128)], (12, 128, 128)),
        ("gemm:2x3x4:bf16", "gemm:2x3x4:bf16", [(2, 4), (4, 3)], (2, 3)),
        ("layernorm:128x768", "layernorm:128x768:float32", [(128, 768), (768,), (768,)], (128, 768)),
    ],
)
def test_shapes(text: str, canonical: str, inputs: list[tuple[int, ...]], output: tuple[int, ...]) -> None:
    spec = parse_operator(text)
    assert spec.canonical == canonical
    assert [t.shape for t in spec.inputs] == inputs
    assert spec.output.shape == output
    assert {t.dtype for t in (*spec.inputs, spec.output)} == {spec.dtype}
    assert (spec.precision, spec.dtype == "float32") == ("bf16", True) or not text.endswith("bf16")


def test_narrow_types_are_for_products_with_weights() -> None:
    for kind in NARROW_KINDS:
        shape_ = "2x3x4" if kind != "conv2d" else "1x3x8x8,4x3x3x3"
        for narrow, types in (("bf16", ["float32"] * 3), ("int8", ["uint8", "int8", "uint8"])):
            found = parse_operator(f"{kind}:{shape_}:{narrow}")
            assert found.precision == narrow
            assert found.weights & {t.name for t in found.inputs[1:]}
            assert [t.dtype for t in (*found.inputs, found.output)] == types
    for narrow in ("bf16", "int8"):
        with pytest.raises(InvalidOperator, match=f"{narrow} is for products with weights"):
            parse_operator(f"bmm:2x2x2x2:{narrow}")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "gemm",
        "gemm:",
        "gemm:2x3",
        "gemm:2x3x4x5",
        "gemm:0x3x4",
        "gemm:-1x3x4",
        "gemm:2x3x4:int4",
        "gemm:2x3x4:",
        "gemm:2x3x4,s1",
        "gemm:axbxc",
        "gemm:2x3x4:float32:float32",
        "gemm:1000000x1000000x1",
        "gemm:99999999999x1x1",
        "pool:1x2",
        "conv2d:1x64x56x56",
        "conv2d:1x64x56x56,64x32x3x3",
        "conv2d:1x64x56,64x64x3x3",
        "conv2d:1x64x56x56,64x64x3x3,s0",
        "conv2d:1x64x56x56,64x64x3x3,s1,s2",
        "conv2d:1x64x56x56,64x64x3x3,k3",
        "conv2d:1x64x2x2,64x64x5x5",
        "depthwise:1x8x28x28",
        "depthwise:1x8x28x28,k0",
        "depthwise:1x8x28,k3",
        "layernorm:7",
        "softmax:1x1x1x1x1x1x1",
        "gemm:٣x٣x٣",
    ],
)
def test_nonsense_is_refused_with_the_accepted_form(text: str) -> None:
    with pytest.raises(InvalidOperator) as caught:
        parse_operator(text)
    assert caught.value.field == "operator"
    assert any(form in caught.value.detail for form in FORMS.values())
    assert caught.value.exit_code == 2


def test_operators_and_files_are_told_apart() -> None:
    assert looks_like_operator("gemm:1x2x3")
    assert looks_like_operator("gemm:nonsense")
    assert not looks_like_operator("gemm.onnx")
    assert not looks_like_operator("model.onnx")
    assert not looks_like_operator("C:model.onnx")
