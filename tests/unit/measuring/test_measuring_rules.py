"""The pure rules of measuring: when to stop, what to drop, how sure a latency is."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tunesmith.measuring import interval, racing, stopping
from tunesmith.measuring.champion_latency import champion_latency
from tunesmith.types import StopReason

seconds = st.floats(1e-7, 10.0)
some_samples = st.lists(seconds, min_size=1, max_size=40)


def stop(samples: list[float], variation: float = 0.01) -> StopReason | None:
    return stopping.stop(samples, min_repeats=3, repeats=10, variation=variation)


def test_equal_samples_stop_at_the_minimum_and_not_before() -> None:
    assert [stop([1e-3] * n) for n in (0, 1, 2, 3)] == [None, None, None, StopReason.STABLE]


def test_one_sample_is_never_stable() -> None:
    assert stopping.stop([1.0], min_repeats=1, repeats=10, variation=0.5) is None
    assert stopping.stop([1.0], min_repeats=1, repeats=1, variation=0.5) is StopReason.CAPPED


def test_scattered_samples_go_on_to_the_cap() -> None:
    scattered = [1.0, 2.0] * 5
    assert [stop(scattered[:n]) for n in (3, 9, 10)] == [None, None, StopReason.CAPPED]


def test_the_bound_is_on_the_error_of_the_mean_so_that_samples_help() -> None:
    samples = [0.98, 1.02] * 20
    errors = [stopping.relative_error(samples[:n]) for n in (4, 10, 20, 40)]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < errors[0] / 3


def test_one_hiccup_does_not_keep_sampling() -> None:
    calm = [1.0, 1.001, 0.999, 1.002, 0.998, 1.0]
    assert stop([*calm, 3.0]) is StopReason.STABLE
    assert stop([*calm, 3.0, 3.0]) is None


@pytest.mark.parametrize("wrong", [0.0, -1.0, math.nan, math.inf])
def test_nonsense_is_never_stable(wrong: float) -> None:
    assert stop([wrong] * 3) is None
    assert stop([wrong] * 10) is StopReason.CAPPED


@given(some_samples)
def test_stopping_depends_neither_on_the_unit_nor_on_the_order(samples: list[float]) -> None:
    error = stopping.relative_error(samples)
    assert stopping.relative_error([sample * 1024 for sample in samples[::-1]]) == pytest.approx(error)


def test_a_champions_latency_is_its_median_or_on_a_slower_device_its_share_of_the_former_champions() -> None:
    assert champion_latency([1.0, 3.0, 2.0], [], 1.0) == 2.0
    assert champion_latency([2.0], [4.0, 4.0], None) == 2.0
    assert champion_latency([1.0], [1.25], 1.0) == 0.8  # everything takes 1.25 times as long as it did
    assert champion_latency([0.5], [0.6], 1.0) == 0.5  # faster than ever
    assert champion_latency([0.9], [5.0], 1.0) == 0.9  # the champion was disturbed
    assert champion_latency([1.2], [5.0], 1.0) == pytest.approx(1.2 / 1.5)
    assert champion_latency([2.0], [5.0], 1.0) == 1.0  # it won, and by how much is not known


def test_only_clearly_slower_candidates_are_dropped() -> None:
    assert racing.clearly_slower(1.6, 1.0, 1.5)
    assert not racing.clearly_slower(1.5, 1.0, 1.5)
    assert racing.clearly_slower(math.inf, 1.0, 1.5)


@pytest.mark.parametrize("incumbent", [None, 0.0, -1.0])
def test_without_an_incumbent_everything_runs_on(incumbent: float | None) -> None:
    assert not racing.clearly_slower(100.0, incumbent, 1.5)


@given(some_samples, st.floats(0, 0.5))
def test_the_interval_holds_the_median_and_scales(samples: list[float], floor: float) -> None:
    low, high = interval.median_interval(samples, floor)
    assert 0 <= low <= statistics.median(samples) <= high
    assert interval.median_interval([1024 * s for s in samples], floor) == pytest.approx((1024 * low, 1024 * high))


def test_the_noise_floor_is_the_half_width_of_samples_that_agree() -> None:
    assert interval.median_interval([2.0] * 5, 0.03) == pytest.approx((1.94, 2.06))
    assert interval.median_interval([2.0] * 5, 0.0) == (2.0, 2.0)


def test_more_confidence_more_spread_and_fewer_samples_widen_it() -> None:
    def width(samples: list[float], floor: float = 0.01, confidence: float = 0.95) -> float:
        low, high = interval.median_interval(samples, floor, confidence)
        return high - low

    calm, wild = [0.99, 1.0, 1.01] * 3, [0.9, 1.0, 1.1] * 3
    assert width(calm) < width(wild)
    assert width(calm) < width(calm, confidence=0.99)
    assert width(calm) < width(calm, floor=0.1)
    assert width(wild) < width(wild[:3]) < 2.0
    assert width([1.0]) > 0.6


@pytest.mark.parametrize(("samples", "confidence"), [([], 0.95), ([1.0], 0.0), ([1.0], 1.0)])
def test_an_interval_of_nothing_is_refused(samples: list[float], confidence: float) -> None:
    with pytest.raises(ValueError):
        interval.median_interval(samples, 0.01, confidence)


@pytest.mark.parametrize("memory", [0.0, 0.7])
@pytest.mark.parametrize("scatter", [0.002, 0.01, 0.02])
def test_stopping_early_leaves_the_interval_honest(memory: float, scatter: float) -> None:
    """Samples end where they happen to agree, and those next to each other are alike: both narrow the interval."""
    rng, floor, held = np.random.default_rng(7), 0.02, 0

    def measured() -> list[float]:
        offset, error, samples = 1 + rng.normal(0, floor / 1.96 / math.sqrt(2)), 0.0, list[float]()
        while len(samples) < 3 or stop(samples) is None:
            error = memory * error + math.sqrt(1 - memory**2) * rng.normal(0, scatter)
            samples.append(offset * (1 + error))
        return samples

    for _ in range(600):
        low, high = interval.median_interval(measured(), floor)
        held += low <= statistics.median(measured()) <= high
    assert held / 600 > 0.9


def test_a_record_brings_its_noise_floor() -> None:
    assert interval.recorded_interval([2.0] * 5, {"noise_floor": 0.03}) == interval.median_interval([2.0] * 5, 0.03)
    assert interval.recorded_interval([2.0] * 5, {}) == (2.0, 2.0)
    assert interval.recorded_interval([], {"noise_floor": 0.03}) is None


@pytest.mark.parametrize("degrees", [2, 3, 5, 9, 29])
def test_students_quantile_against_the_tables(degrees: int) -> None:
    table = {2: 4.303, 3: 3.182, 5: 2.571, 9: 2.262, 29: 2.045}
    assert interval.student_quantile(1.959964, degrees) == pytest.approx(table[degrees], rel=0.035)


@pytest.mark.parametrize("count", [3, 5, 10, 30])
@pytest.mark.parametrize("noise", ["normal", "skewed"])
def test_it_covers_the_next_median_as_often_as_it_says(count: int, noise: str) -> None:
    """Each measurement has its own offset, as on a device whose clock wanders, and samples scatter around it."""
    rng, floor, rounds = np.random.default_rng(count), 0.02, 2000

    def measured() -> np.ndarray:
        offset = 1 + rng.normal(0, floor / 1.96 / math.sqrt(2), (rounds, 1))
        scatter = rng.normal(0, 0.02, (rounds, count)) if noise == "normal" else rng.exponential(0.02, (rounds, count))
        return offset * (1 + scatter)

    first, repeated = measured(), np.median(measured(), axis=1)
    bounds = np.array([interval.median_interval(list(row), floor) for row in first])
    covered = float(np.mean((bounds[:, 0] <= repeated) & (repeated <= bounds[:, 1])))
    assert 0.93 <= covered <= 0.995, covered
