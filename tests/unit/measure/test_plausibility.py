"""Times that cannot be true are refused, with the numbers; times at the device's limit are not."""

from __future__ import annotations

import math

import pytest

from tunesmith.measuring.plausibility import least_seconds
from tunesmith.messages import Calibration
from tunesmith.types import FailureKind, StopReason, TensorSpec, Values
from workers.measure.plausibility import check
from workers.protocol import RunOutcome

PEAK = 5e11
CALIBRATION = Calibration(
    peak_flops=PEAK,
    bandwidth=4e10,
    noise_floor=0.02,
    reference_seconds=1e-3,
    latest_seconds=1e-3,
    measured_at="2026-01-01T00:00:00Z",
    drift=1.0,
)
FLOPS = 2.0 * 1024**3
SQUARE = TensorSpec("float32", (1024, 1024))
GEMM = (SQUARE, SQUARE, SQUARE)


def outcome(*samples: float) -> RunOutcome:
    return RunOutcome(samples, seconds=1.0, device_seconds=0.5, stopped=StopReason.STABLE)


@pytest.mark.parametrize("share", [0.01, 0.9, 1.0, 1.8])
def test_up_to_the_margin_it_is_believed(share: float) -> None:
    given = outcome(*[FLOPS / (PEAK * share)] * 3)
    assert check(given, FLOPS, GEMM, CALIBRATION) is given


def test_beyond_it_is_implausible_and_says_why() -> None:
    found = check(outcome(*[FLOPS / (PEAK * 4)] * 3), FLOPS, GEMM, CALIBRATION)
    assert (found.failure, found.samples, found.stopped) == (FailureKind.IMPLAUSIBLE, (), None)
    assert (found.seconds, found.device_seconds) == (1.0, 0.5)
    assert "2000 GFLOP/s" in found.message
    assert "at most 1000" in found.message
    assert "float32" in found.message


@pytest.mark.parametrize("samples", [(0.0,), (1e-3, -1e-9), (math.nan, 1e-3), (math.inf,), ()])
@pytest.mark.parametrize("calibration", [None, CALIBRATION])
def test_no_time_is_no_measurement(samples: tuple[float, ...], calibration: Calibration | None) -> None:
    found = check(outcome(*samples), 0.0, (), calibration)
    assert found.failure is FailureKind.IMPLAUSIBLE
    assert found.samples == ()


def test_one_odd_sample_does_not_decide() -> None:
    usual = FLOPS / (PEAK * 0.5)
    given = outcome(usual, usual / 100, usual)
    assert check(given, FLOPS, GEMM, CALIBRATION) is given


def test_narrow_types_may_be_faster_and_doubles_not() -> None:
    at = outcome(FLOPS / (PEAK * 4))
    bytes_ = (TensorSpec("int8", (8, 8)), TensorSpec("int8", (8, 8)), TensorSpec("int32", (8, 8)))
    assert check(at, FLOPS, bytes_, CALIBRATION).failure is None
    doubles = (TensorSpec("float64", (8, 8)),) * 3
    assert check(outcome(FLOPS / (PEAK * 1.5)), FLOPS, doubles, CALIBRATION).failure is FailureKind.IMPLAUSIBLE


def test_bits_are_as_fast_as_their_instruction_and_as_float32_without_one() -> None:
    bits = TensorSpec("uint16", (1024, 1024), values=Values(-1.0, 1.0, bits_of="bfloat16"))
    fast = CALIBRATION.model_copy(update={"narrow_flops": {"bf16": 2 * PEAK}})
    for share, calibration, refused in ((3.6, fast, False), (4.4, fast, True), (2.2, CALIBRATION, True)):
        found = check(outcome(FLOPS / (PEAK * share)), FLOPS, (bits, bits, SQUARE), calibration)
        assert (found.failure is FailureKind.IMPLAUSIBLE) == refused
    assert "bfloat16" in check(outcome(FLOPS / (PEAK * 5)), FLOPS, (bits, bits, SQUARE), fast).message


def test_a_product_of_bytes_is_as_fast_as_its_instruction() -> None:
    codes = TensorSpec("uint8", (8, 4, 4), values=Values(0, 255))
    weights = TensorSpec("int8", (2, 4, 16, 4), values=Values(-127, 127, bits_of="int8"))
    product = (codes, weights, TensorSpec("int32", (32,)), TensorSpec("float32", ()), codes)
    fast = CALIBRATION.model_copy(update={"narrow_flops": {"int8": 4 * PEAK}})
    for share, calibration, refused in ((7.6, fast, False), (8.4, fast, True), (2.2, CALIBRATION, True)):
        found = check(outcome(FLOPS / (PEAK * share)), FLOPS, product, calibration)
        assert (found.failure is FailureKind.IMPLAUSIBLE) == refused
    assert "for int8)" in check(outcome(FLOPS / (PEAK * 9)), FLOPS, product, fast).message
    assert check(outcome(FLOPS / (PEAK * 9)), FLOPS, (codes, codes), fast).failure is None, "they are only moved"


def test_a_kernel_that_does_nothing_cannot_have_stored_its_output() -> None:
    """A copy has no arithmetic to count."""
    found = check(outcome(1e-7, 1e-7), 0.0, (SQUARE, SQUARE), CALIBRATION)
    assert found.failure is FailureKind.IMPLAUSIBLE
    assert "4194304 bytes" in found.message
    assert check(outcome(1e-4), 0.0, (SQUARE, SQUARE), CALIBRATION).failure is None


def test_a_device_that_became_faster_may_be_faster() -> None:
    quick = CALIBRATION.model_copy(update={"drift": 0.5})
    assert check(outcome(FLOPS / (PEAK * 3.5)), FLOPS, GEMM, quick).failure is None


def test_without_a_calibration_nothing_is_too_fast() -> None:
    given = outcome(1e-9)
    assert check(given, FLOPS, GEMM, None) is given


def test_a_failure_stays_what_it_was() -> None:
    failed = RunOutcome((), FailureKind.CRASH, "gone")
    assert check(failed, FLOPS, GEMM, CALIBRATION) is failed


def test_the_roofline_bound_is_arithmetic_or_memory_that_no_cache_holds() -> None:
    cached = CALIBRATION.model_copy(update={"cache_sizes": (32_768, 1_048_576)})
    moved = 3 * 4 * 1024**2 / CALIBRATION.bandwidth
    assert least_seconds(FLOPS, GEMM, cached, 2) == pytest.approx(FLOPS / PEAK)
    assert least_seconds(1.0, GEMM, cached, 2) == pytest.approx(moved)
    assert least_seconds(1.0, GEMM, cached, 64) == least_seconds(1.0, GEMM, CALIBRATION, 2) == 1.0 / PEAK
