"""Figures of jobs with what is shipped and without it."""

from __future__ import annotations

from benchmarks.pretrained import study
from benchmarks.pretrained.study import Pair


def test_a_pair_without_a_latency_has_no_ratio_and_does_not_count() -> None:
    found = [Pair("a", 0, 1e-3, 2e-3), Pair("a", 1, 2e-3, 2e-3), Pair("b", 0, None, 1e-3), Pair("c", 0, 2e-3, 1e-3)]
    assert [each.ratio for each in found] == [0.5, 1.0, None, 2.0]
    assert study.line(found[0]) == "a, seed 0: 0.500"
    assert study.line(found[2]) == "b, seed 0: not comparable"
    report = study.report(found, {})
    assert [row[2:] for row in report.rows] == [
        (1000.0, 2000.0, 0.5),
        (2000.0, 2000.0, 1.0),
        (None, 1000.0, None),
        (2000.0, 1000.0, 2.0),
    ]
    assert "Geometric mean: 1.189 (" in report.summary, "each operator counts once: the root of 0.707 times 2"
    assert "over 2 operators" in report.summary


def test_nothing_comparable_is_said() -> None:
    assert "No pair is comparable." in study.report([Pair("a", 0, None, None)], {}).summary
