"""Counts of machine code by hand, in the text that LLVM prints."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tunesmith.analysis import rows
from tunesmith.analysis.machine_code import AT, COLUMNS, COUNTS, FEATURES, PLACE, code_row, features

PRODUCT = """
\t.type\t.L__tvm_parallel_lambda,@function
.L__tvm_parallel_lambda:
\tpushq\t%rbx
.LBB2_1:
\tvxorps\t%xmm0, %xmm0, %xmm0
.LBB2_2:
\tvbroadcastss\t(%rdi,%rax,4), %zmm1
\tvfmadd231ps\t(%rsi), %zmm1, %zmm0
\tvfmadd231ps\t64(%rsi){1to16}, %zmm1, %zmm2
\tvmovups\t%zmm0, 64(%rsp)
\tincq\t%rax
\tjne\t.LBB2_2
\tvmulss\t%xmm0, %xmm1, %xmm2
\tvaddps\t(%rcx), %ymm3, %ymm3
\tcmpl\t$8, (%rdx)
\tjb\t.LBB2_1
\tcallq\texpf@PLT
\tretq
"""
HELPER = """
\t.type\t__truncsfhf2,@function
__truncsfhf2:
\tvmulss\t%xmm0, %xmm1, %xmm2
\tretq
"""


def counted(text: str, part: str) -> dict[str, float]:
    row = code_row(text)
    found = {name: float(row[PLACE[f"{part}.{name}"]]) for name in COUNTS}
    return {name: count for name, count in found.items() if count}


def test_the_hottest_loop_and_the_whole() -> None:
    expected = {"instructions": 6, "products": 2, "product_lanes": 32, "loads": 3, "stores": 1, "stack": 1}
    assert counted(PRODUCT, "hot") == {**expected, "spread": 2, "lanes": 32, "jumps": 1}
    whole = counted(PRODUCT, "all")
    assert whole["instructions"] == 14
    assert (whole["lanes"], whole["scalar"], whole["calls"], whole["jumps"]) == (32 + 1 + 8, 1, 1, 2)
    assert whole["loads"] == 5, "a comparison reads what it compares"
    row = code_row(PRODUCT)
    assert [row[PLACE[f"loops.{name}"]] for name in ("all", "inner", "depth")] == [2, 1, 2]
    assert row[PLACE["hot.depth"]] == 2


def test_helpers_of_every_library_do_not_count() -> None:
    assert (code_row(PRODUCT + HELPER) == code_row(PRODUCT)).all()
    assert (code_row(HELPER + PRODUCT) == code_row(PRODUCT)).all()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("vgatherqps\t(%rax,%zmm1), %ymm0 {%k1}", {"gathered": 16}),
        ("vscatterdps\t%xmm1, (%rax,%xmm2) {%k1}", {"scattered": 4}),
        ("vpermt2ps\t%zmm1, %zmm2, %zmm3", {"shuffles": 1}),
        ("vinsertf32x4\t$1, (%rax), %zmm1, %zmm2", {"loads": 1, "shuffles": 1}),
        ("vdivps\t%ymm1, %ymm2, %ymm3", {"lanes": 8, "divided": 8}),
        ("vdpbf16ps\t%zmm1, %zmm2, %zmm3", {"products": 1, "lanes": 32, "product_lanes": 32}),
        ("vpdpbusd\t(%rax), %ymm2, %ymm3", {"products": 1, "lanes": 32, "product_lanes": 32, "loads": 1}),
        ("vfnmadd213ss\t%xmm1, %xmm2, %xmm3", {"products": 1, "lanes": 1, "product_lanes": 1, "scalar": 1}),
        ("vmovss\t8(%rbp), %xmm0", {"loads": 1, "stack": 1, "scalar": 1}),
        ("leaq\t(%rax,%rbx), %rcx", {}),
    ],
)
def test_each_kind_of_instruction(line: str, expected: dict[str, float]) -> None:
    before = "\t.type\tmain,@function\nmain:\n\tvmulps\t%zmm1, %zmm2, %zmm3\n"
    plain, found = code_row(before), code_row(f"{before}\t{line}\n")
    more = {name: float(found[PLACE[f"all.{name}"]] - plain[PLACE[f"all.{name}"]]) for name in COUNTS}
    assert {name: count for name, count in more.items() if count} == {"instructions": 1, **expected}


@pytest.mark.parametrize("text", ["", "no code", "\t.type\tmain,@function\nmain:\n\tfmla\tv0.4s, v1.4s, v2.4s\n"])
def test_of_what_is_not_x86_nothing_is_known(text: str) -> None:
    row = code_row(text)
    assert row.shape == (len(COLUMNS),)
    assert np.isnan(row).all()


@given(st.text(alphabet="\t\n.:,%()$@abvfmLB120 jxz", max_size=400))
def test_any_text_is_counted_or_unknown(text: str) -> None:
    row = code_row(text)
    assert np.isnan(row).all() or (row >= 0).all()


def test_what_a_ranker_sees_does_not_depend_on_the_unrolling() -> None:
    """A body that is written out twice has the same shares, and twice the cycles."""
    known = np.zeros((2, len(rows.COLUMNS)), dtype=np.float32)
    once = code_row(PRODUCT)
    twice = once.copy()
    twice[: 2 * len(COUNTS) + 1] *= 2
    twice[PLACE["hot.depth"]] = once[PLACE["hot.depth"]]
    found = features(np.stack([once, twice]), known)
    assert found.shape == (2, len(FEATURES))
    apart = {name for name, (a, b) in zip(FEATURES, found.T, strict=True) if a != b}
    assert apart == {"code.hot.cycles", "code.size"}
    cycles = found[:, FEATURES.index("code.hot.cycles")]
    assert cycles.tolist() == [1.5, 3.0], "three loads, two a cycle"
    assert found[0, FEATURES.index("code.hot.product_cycles")] == pytest.approx(1.5 / 32)


def test_the_rate_is_held_against_the_static_model() -> None:
    known = np.zeros((1, len(rows.COLUMNS)), dtype=np.float32)
    known[0, rows.PLACE["work.operations"]], known[0, rows.PLACE[rows.STATIC]] = 20.0, -10.0
    (found,) = features(code_row(PRODUCT)[np.newaxis], known)
    assert found[FEATURES.index("code.static.products")] == pytest.approx(30 + np.log2(1.5 / 32))


def test_columns_have_names_of_their_own() -> None:
    assert len(set(COLUMNS)) == len(COLUMNS)
    assert len(set(FEATURES)) == len(FEATURES)
    assert list(AT) == list(COUNTS)
