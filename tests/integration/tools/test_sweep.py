"""ONNX's own cases with every input kept an input, and the page that tells what becomes of all of them."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tools.sweep.__main__ import page
from tools.sweep.base import AGREES, DIFFERS, REFUSED, CaseOutcome
from tools.sweep.onnx_cases import cases
from tools.sweep.running import compare

pytestmark = pytest.mark.parallel
MODULES = ("bitshift", "cast", "cumsum", "pad", "rangeop", "reducel2", "resize", "scan", "topk", "trilu")
"""ONNX's modules of operators whose operands decide shapes, or that TVM's importer lacks."""
COUNT = 6


def test_a_sample_of_the_cases_agrees(tmp_path: Path) -> None:
    made = [case for case in cases(MODULES, MODULES) if "tf_crop" not in case.name]
    sample = random.Random(1).sample(made, COUNT)
    assert {case.name: compare(case, tmp_path) for case in sample} == dict.fromkeys(
        (case.name for case in sample), (AGREES, "")
    )


def test_the_page_groups_what_does_not_agree() -> None:
    detail = "unsupported_operator: Loop, which makes 'y', is not supported with 600 steps; export the model without it"
    outcomes = [CaseOutcome(name, "Loop", REFUSED, detail.replace("'y'", f"'{name}'")) for name in ("a", "b")]
    outcomes += [CaseOutcome("c", "Mul", AGREES), CaseOutcome("d", "Abs", DIFFERS, "output 0: other numbers")]
    made = page("onnx", outcomes)
    assert "| `Loop` | 2 | refused | is not supported with 600 steps |" in made
    assert "| `Abs` | 1 | differs | output 0: other numbers |" in made
    assert "| cases | 4 | 0 | 1 | 2 | 1 | 0 |" in made
