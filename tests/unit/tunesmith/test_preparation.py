"""Preparations and their keys."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tunesmith.errors import PrecisionUnavailable
from tunesmith.operators import parse_operator
from tunesmith.options import JobOptions
from tunesmith.preparation import OLDER, PIPELINE, PLAIN, Preparation, for_target, of_operator

EVERY = [Preparation(*choice) for choice in itertools.product((False, True), repeat=6)]
MADE = [made for made in EVERY if made.bf16 + made.int8 <= 1]
"""Those that targets get."""


@pytest.mark.parametrize("made", EVERY, ids=lambda made: made.key)
def test_a_key_tells_everything(made: Preparation) -> None:
    assert Preparation.parse(made.key) == made


@pytest.mark.parametrize("version", OLDER)
@pytest.mark.parametrize("made", EVERY, ids=lambda made: made.key)
def test_a_key_of_an_older_version_is_read(made: Preparation, version: str) -> None:
    assert Preparation.parse(made.key.replace(PIPELINE, version)) == made


def test_keys_differ_and_name_the_pipeline() -> None:
    assert len({made.key for made in EVERY}) == len(EVERY)
    assert PLAIN.key == PIPELINE
    assert all(made.key.startswith(PIPELINE) for made in EVERY)
    assert max(len(made.key) for made in MADE) <= 60  # the column of the database


@given(st.one_of(st.text(), st.sampled_from(EVERY).map(lambda made: f"{made.key}+other")))
def test_what_is_no_key_of_this_version_is_refused(text: str) -> None:
    if text not in {made.key for made in EVERY}:
        with pytest.raises(ValueError, match="not one of this version's"):
            Preparation.parse(text)


@pytest.mark.parametrize("text", ["", "tunesmith.prepare/0", f"{PIPELINE}+", f"{PIPELINE}+fast-math+blocked"])
def test_near_misses_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"{PIPELINE}+blocked+fast-math")):
        Preparation.parse(text)


@pytest.mark.parametrize(
    ("kind", "operator", "refused", "expected"),
    [
        ("llvm", False, (), Preparation(blocked=True, fast_math=True, winograd=True)),
        ("llvm", False, ("fast_math",), Preparation(blocked=True, winograd=True)),
        ("llvm", False, ("winograd",), Preparation(blocked=True, fast_math=True)),
        ("llvm", False, ("fast_math", "winograd"), Preparation(blocked=True)),
        ("llvm", True, (), Preparation(fast_math=True)),
        ("llvm", True, ("winograd",), Preparation(fast_math=True)),
        ("llvm", True, ("fast_math",), PLAIN),
        ("cuda", False, (), PLAIN),
        ("cuda", True, ("fast_math",), PLAIN),
    ],
)
def test_what_suits_a_target(kind: str, operator: bool, refused: tuple[str, ...], expected: Preparation) -> None:
    assert for_target(kind, operator, JobOptions(**dict.fromkeys(refused, False))) == expected
    assert for_target(kind, operator, JobOptions(space="tvm")) == PLAIN


@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_narrow_precision_is_for_models_on_cpus(precision: str) -> None:
    narrow = JobOptions(precision=precision)
    algorithm = "+winograd" if precision == "bf16" else ""
    assert for_target("llvm", False, narrow).key == f"{PIPELINE}+blocked+fast-math{algorithm}+{precision}"
    plain = JobOptions(precision=precision, winograd=False)
    assert for_target("llvm", False, plain).key == f"{PIPELINE}+blocked+fast-math+{precision}"
    assert for_target("llvm", False, narrow).precision == precision
    assert for_target("llvm", False, narrow, (precision,)).key == f"{PIPELINE}+blocked+fast-math+{precision}+tiles"
    assert not for_target("llvm", False, JobOptions(), (precision,)).tiles, "float32 is for vectors"
    for kind, operator, options, why in (
        ("cuda", False, narrow, "the target is of kind cuda"),
        ("llvm", True, narrow, "a single operator"),
        ("llvm", False, JobOptions(precision=precision, space="tvm"), "use space all"),
    ):
        with pytest.raises(PrecisionUnavailable, match=why):
            for_target(kind, operator, options)


def test_an_operator_has_its_precision_in_its_type() -> None:
    spec, narrow = parse_operator("gemm:8x16x32:bf16"), JobOptions(precision="bf16")
    assert of_operator("llvm", spec) == of_operator("llvm", spec, narrow) == for_target("llvm", False, narrow)
    with pytest.raises(PrecisionUnavailable, match="kind cuda"):
        of_operator("cuda", spec)
