from __future__ import annotations

import math

import numpy as np
import pytest

from services.coordinator import reference
from tunesmith.answers.jobs import ReferenceBody
from tunesmith.measuring.ratio import BUILDS, PLACEMENTS, Verdict, ratio
from tunesmith.messages import ReferenceTiming

RNG = np.random.default_rng(0)


def samples(median: float, spread: float, count: int) -> list[float]:
    found: list[float] = (median * np.exp(spread * RNG.standard_normal(count))).tolist()
    return found


def test_a_ratio_says_how_many_times_as_fast() -> None:
    found = ratio([0.2] * 10, [0.05] * 30)
    assert found.value == pytest.approx(4.0)
    assert found.verdict is Verdict.FASTER
    assert (found.low, found.high) == pytest.approx((4 * math.exp(-BUILDS), 4 * math.exp(BUILDS)))
    assert ratio([0.05] * 30, [0.2] * 10).verdict is Verdict.SLOWER


@pytest.mark.parametrize("count", [3, 10, 30])
def test_equal_programs_are_hardly_ever_told_apart(count: int) -> None:
    verdicts = [ratio(samples(1.0, 0.1, count), samples(1.0, 0.1, count)).verdict for _ in range(400)]
    assert sum(verdict is not Verdict.NO_DIFFERENCE for verdict in verdicts) < 0.05 * len(verdicts)


def test_what_is_clearly_faster_is_found_with_few_samples() -> None:
    verdicts = [ratio(samples(3.0, 0.05, 3), samples(1.0, 0.05, 9)).verdict for _ in range(100)]
    assert sum(verdict is Verdict.FASTER for verdict in verdicts) > 90


@pytest.mark.parametrize(("others", "ours"), [([1.0], [0.5]), ([1.0, 9.0], [1.0, 1.1]), ([1.0, 1e6], [1e-6, 1.0])])
def test_few_or_wild_samples_show_nothing(others: list[float], ours: list[float]) -> None:
    found = ratio(others, ours)
    assert 0 <= found.low < found.value < found.high < math.inf
    assert found.verdict is not Verdict.SLOWER


def test_a_difference_of_two_builds_is_no_difference() -> None:
    assert ratio([1.019] * 30, [1.0] * 30).verdict is Verdict.NO_DIFFERENCE
    assert ratio([1.03] * 30, [1.0] * 30).verdict is Verdict.FASTER


def placed(median: float, between: float, each: int) -> list[float]:
    """Samples that lie close together in each placement, and further apart between them."""
    return [
        sample
        for _ in range(PLACEMENTS)
        for sample in samples(median * math.exp(between * RNG.standard_normal()), 0.005, each)
    ]


def test_equal_programs_whose_buffers_lie_elsewhere_are_hardly_ever_told_apart() -> None:
    pairs = [(placed(1.0, 0.06, 6), placed(1.0, 0.06, 6)) for _ in range(400)]
    verdicts_ = [
        sum(ratio(*pair, placements=count).verdict is not Verdict.NO_DIFFERENCE for pair in pairs) / len(pairs)
        for count in (1, PLACEMENTS)
    ]
    assert verdicts_[0] > 0.15, "without placements they were"
    assert verdicts_[1] < 0.07


def test_placements_hide_no_difference_that_each_of_them_shows() -> None:
    verdicts = [ratio(placed(1.5, 0.05, 2), placed(1.0, 0.05, 6), placements=PLACEMENTS).verdict for _ in range(100)]
    assert sum(verdict is Verdict.FASTER for verdict in verdicts) > 95


def test_samples_that_are_too_few_for_placements_are_one() -> None:
    few = [1.0, 1.1, 1.2, 1.05, 1.15, 1.1]
    assert ratio(few, few, placements=PLACEMENTS) == ratio(few, few)


def test_nothing_has_no_ratio() -> None:
    with pytest.raises(ValueError, match="samples"):
        ratio([], [1.0])


def test_a_call_from_python_is_no_runtime_s_fault() -> None:
    def body(seconds: float, tuned: float) -> ReferenceBody:
        timing = ReferenceTiming(runtime="onnxruntime", samples=[seconds] * 20)
        return reference._body(timing, [tuned] * 20)

    short = body(50e-6, 32e-6)
    assert short.ratio == pytest.approx(0.64)
    assert short.verdict is Verdict.NO_DIFFERENCE, "fifteen microseconds may be the call"
    assert body(50e-6, 20e-6).verdict is Verdict.FASTER
    assert body(20e-6, 25e-6).verdict is Verdict.SLOWER
    long = body(50e-3, 40e-3)
    assert long.verdict is Verdict.FASTER
    assert long.interval == pytest.approx((0.784, 0.816), rel=1e-2)
