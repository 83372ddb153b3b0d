from __future__ import annotations

import math
from dataclasses import replace

import pytest

from benchmarks.harness.comparison import Compared
from benchmarks.harness.limits import Level, Peak, least_seconds, share_of_peak

PEAK = Peak(100e9, (Level("L1", 32e3, 400e9), Level("L2", 1e6, 200e9), Level("memory", math.inf, 20e9)))


@pytest.mark.parametrize(
    ("flops", "bytes_", "expected"),
    [
        (1e9, 16e3, 1e-2),  # operations decide
        (1.0, 32e3, 32e3 / 400e9),  # just fits into the nearest cache
        (1.0, 33e3, 33e3 / 200e9),
        (1.0, 1e9, 1e9 / 20e9),
        (0.0, 0.0, 0.0),
    ],
)
def test_the_slower_of_operations_and_data_is_the_limit(flops, bytes_, expected):
    assert least_seconds(flops, bytes_, PEAK) == pytest.approx(expected)


def test_the_share_is_one_at_the_limit_and_falls_with_the_latency():
    assert share_of_peak(1e9, 1.0, 1e-2, PEAK) == pytest.approx(1.0)
    assert share_of_peak(1e9, 1.0, 2e-2, PEAK) == pytest.approx(0.5)


def test_without_caches_everything_comes_from_the_memory():
    assert least_seconds(0.0, 1e3, Peak(1e9, (Level("memory", math.inf, 1e6),))) == pytest.approx(1e-3)


@pytest.mark.parametrize("seconds", [0.0, -1.0, math.nan])
def test_a_latency_that_cannot_be_is_refused(seconds):
    with pytest.raises(ValueError, match="above 0"):
        share_of_peak(1.0, 1.0, seconds, PEAK)


def test_the_better_of_two_measurements_of_a_machine_counts() -> None:
    slow = Peak(50e9, (Level("L1", 32e3, 500e9), Level("L2", 1e6, 100e9), Level("memory", math.inf, 30e9)))
    both = Peak(100e9, (Level("L1", 32e3, 500e9), Level("L2", 1e6, 200e9), Level("memory", math.inf, 30e9)))
    assert PEAK.at_best(slow) == slow.at_best(PEAK) == both


def test_each_precision_has_a_peak_of_its_own() -> None:
    narrow = replace(PEAK, narrow={"bf16": 190e9})
    assert narrow.at_best(replace(PEAK, narrow={"bf16": 200e9})).of("bf16").flops == 200e9
    assert (PEAK.of("bf16").flops, narrow.of("float32").flops) == (100e9, 100e9), "without an instruction float32's"
    assert least_seconds(1e9, 16e3, narrow.of("bf16")) == pytest.approx(1e-2 / 1.9)


def test_a_share_is_that_of_the_precision_and_of_its_data():
    outcome = Compared(1e9, 2e9, [], replace(PEAK, narrow={"bf16": 1e12}))
    assert outcome.share(1.0) == pytest.approx(2e9 / 20e9)
    assert outcome.share_in("float32", 1.0) == outcome.share(1.0)
    assert outcome.share_in("bf16", 1.0) == pytest.approx(1e9 / 20e9), "half of the bytes"
    assert replace(outcome, bytes_=1.0).share_in("bf16", 1.0) == pytest.approx(1e9 / 1e12)
    assert replace(outcome, peak=None).share_in("bf16", 1.0) is None
