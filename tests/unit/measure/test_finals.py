"""Who is confirmed, and what a confirmation means; what counts as a right result."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tunesmith.measuring.pairs import faster
from tunesmith.messages import MeasureLimits, WireCandidate, WireResult
from tunesmith.types import FailureKind, StopReason, TensorSpec
from workers.measure.finals import CLOSE_RATIO, choose, conclude, lasting, settled, tolerance
from workers.protocol import Confirmed, RunOutcome
from workers.tvm_backend.run.references import BLOCK, UNWRITTEN, References, difference, prefilled

LIMITS = MeasureLimits()
FLOATS = (TensorSpec("float32", (4,)), TensorSpec("float32", (4,)))
RACED = WireResult(
    index=3, samples=[1.0, 1.1], stopped=StopReason.STABLE, build_seconds=0.1, run_seconds=0.5, device_seconds=0.4
)
CHAMPION = WireCandidate(index=-1, sketch="s", decisions=[1])
TEN = tuple(1.0 + i / 100 for i in range(10))


def concluded(confirmed: Confirmed, limits: MeasureLimits = LIMITS) -> WireResult:
    return conclude(RACED, confirmed, "[[], []]", FLOATS, limits, CHAMPION)


def test_finalists_are_the_fastest_that_beat_the_incumbent() -> None:
    results = {0: 3.0, 1: 1.0, 2: 2.0, 5: 1.5, 7: math.inf, 8: math.nan, 9: 0.0}
    assert choose(results, None, LIMITS) == [1, 5]
    assert choose(results, 1.5, LIMITS) == [1]
    assert choose(results, 1.0, LIMITS) == []
    assert choose(results, None, LIMITS.model_copy(update={"finalists": 9})) == [1, 5, 2, 0]
    assert choose({4: 1.0, 2: 1.0}, 2.0, LIMITS) == [2, 4]


def test_a_slower_finalist_is_measured_again_only_after_a_failure_or_a_near_tie() -> None:
    sound = concluded(Confirmed(TEN, (), 1e-6))
    wrong = concluded(Confirmed(TEN, (), 0.5))
    assert wrong.failure is FailureKind.WRONG_RESULT
    assert settled(sound, 1.0, 1.001 * CLOSE_RATIO)
    assert not settled(sound, 1.0, 0.999 * CLOSE_RATIO)
    assert not settled(wrong, 1.0, 2.0)


def test_a_winner_keeps_its_trace_and_says_whom_it_beat() -> None:
    slower = tuple(1.05 * sample for sample in TEN)
    found = concluded(Confirmed(TEN, slower, 1e-6, seconds=1.0, device_seconds=0.75))
    assert (found.failure, found.trace, found.samples) == (None, "[[], []]", RACED.samples)
    assert (found.run_seconds, found.device_seconds) == (1.5, 1.15)
    assert found.confirmation is not None
    assert found.confirmation.won
    assert found.confirmation.champion == CHAMPION
    assert found.confirmation.p_value == pytest.approx(2**-10)
    assert (found.confirmation.error, found.confirmation.tolerance) == (1e-6, 1e-4)
    assert found.confirmation.champion_samples == list(slower)


def test_one_that_was_merely_lucky_does_not_win() -> None:
    rng = random.Random(0)
    repeated = [rng.gauss(1.0, 0.02) for _ in range(10)]
    champion = [rng.gauss(1.0, 0.02) for _ in range(10)]
    found = concluded(Confirmed(tuple(repeated), tuple(champion), 0.0))
    assert found.confirmation is not None
    assert not found.confirmation.won
    assert (found.trace, found.failure, found.samples) == (None, None, RACED.samples)


def test_the_test_keeps_its_level() -> None:
    rng = np.random.default_rng(0)
    values = [faster(*rng.normal(1, 0.05, (2, 10)).tolist()) for _ in range(1000)]
    # Of a thousand candidates that are no faster than the champion, fifty are expected to become champion.
    assert sum(value is not None and value < 0.05 for value in values) < 80


def test_a_hiccup_in_one_pair_changes_little() -> None:
    slower = [1.05 * sample for sample in TEN]
    with_hiccup = [100.0, *TEN[1:]]
    assert (faster(TEN, slower) or 1) < (faster(with_hiccup, slower) or 1) < 0.05


def test_without_a_champion_who_is_right_wins() -> None:
    found = concluded(Confirmed(TEN, (), 1e-6))
    assert found.confirmation is not None
    assert found.confirmation.won
    assert (found.confirmation.p_value, found.confirmation.champion) == (None, None)


def test_who_cannot_be_checked_although_it_is_to_be_does_not_win() -> None:
    found = concluded(Confirmed(TEN, (), None, message="the default schedule hangs"))
    assert (found.failure, found.trace, found.samples) == (None, None, RACED.samples)
    assert found.message == "its outputs cannot be checked: the default schedule hangs"
    assert found.confirmation is not None
    assert not found.confirmation.won
    assert concluded(Confirmed(TEN, (), None)).trace is not None  # where nothing is to be compared


def test_equal_samples_are_no_win() -> None:
    assert faster([1.0] * 5, [1.0] * 5) == 1.0


@pytest.mark.parametrize("error", [1.1e-4, 77.0, math.nan])
def test_wrong_numbers_are_a_failure_with_its_figures(error: float) -> None:
    found = concluded(Confirmed(TEN, (), error))
    assert (found.failure, found.samples, found.trace, found.stopped) == (FailureKind.WRONG_RESULT, [], None, None)
    assert f"{error:.3g}" in found.message
    assert "0.0001" in found.message
    assert found.confirmation is not None
    assert (found.confirmation.won, found.confirmation.samples) == (False, list(TEN))


def test_a_finalist_that_fails_when_measured_again_is_a_failure() -> None:
    found = concluded(Confirmed(failure=FailureKind.CRASH, message="signal 11"))
    assert (found.failure, found.samples, found.trace) == (FailureKind.CRASH, [], None)
    assert found.message == "when measured again: signal 11"


def test_a_lost_device_says_nothing_of_the_finalist() -> None:
    found = concluded(Confirmed(failure=FailureKind.DEVICE_LOST, message="gone", seconds=1.0))
    assert (found.failure, found.samples, found.confirmation, found.run_seconds) == (None, RACED.samples, None, 1.5)


def test_equal_code_shares_the_verdict() -> None:
    raced = RunOutcome((1.0, 1.1), device_seconds=0.4)
    assert lasting(raced, concluded(Confirmed(TEN, (), 0.0))) is raced
    outcome = lasting(raced, concluded(Confirmed(TEN, (), 0.5)))
    assert outcome is not None
    assert (outcome.failure, outcome.samples, outcome.device_seconds) == (FailureKind.WRONG_RESULT, (), 0.0)
    assert lasting(None, RACED) is None


@pytest.mark.parametrize("samples", [(), (1.0, 0.0), (1.0, -1.0), (1.0, math.nan), (math.inf,)])
def test_no_time_at_all_is_implausible(samples: tuple[float, ...]) -> None:
    found = concluded(Confirmed(samples, (), 0.0))
    assert found.failure is FailureKind.IMPLAUSIBLE


def test_what_the_default_schedule_jumps_itself_is_right() -> None:
    found = concluded(Confirmed(TEN, (), 0.004, unsteady=0.005))
    assert found.failure is None
    assert found.confirmation is not None
    assert (found.confirmation.error, found.confirmation.tolerance) == (0.004, 0.005)
    assert concluded(Confirmed(TEN, (), 0.006, unsteady=0.005)).failure is FailureKind.WRONG_RESULT


def test_the_tolerance_is_that_of_the_coarsest_floating_point() -> None:
    def of(*dtypes: str) -> float:
        return tolerance([TensorSpec(dtype, (1,)) for dtype in dtypes])

    assert of("int8", "int8", "int32") == of("bool") == of() == 0.0
    assert of("float64") < of("float32") == of("int64", "float32") < of("float32", "float16") < of("bfloat16")
    assert of("float8_e4m3fn") > of("bfloat16")


def test_rounding_in_another_order_is_within_the_tolerance_and_a_lost_term_is_not() -> None:
    rng = np.random.default_rng(0)
    for dtype, terms in (("float32", 1 << 14), ("float16", 1 << 10)):
        values = (rng.random((64, terms), dtype=np.float32) * 2 - 1).astype(dtype)
        forward, lost = np.zeros(64, dtype), np.zeros(64, dtype)
        backward = np.zeros(64, dtype)
        for i in range(terms):
            forward, backward = forward + values[:, i], backward + values[:, terms - 1 - i]
        lost = forward - values[:, 0]
        allowed = tolerance([TensorSpec(dtype, (64,))])
        assert 0 < difference([backward], [forward]) < allowed
        if dtype == "float32":
            assert difference([lost], [forward]) > 10 * allowed


def test_errors_are_seen_against_the_largest_value() -> None:
    expected = np.array([0.0, 1.0, -200.0])
    assert difference([expected + np.array([1.0, 0.0, 0.0])], [expected]) == 1 / 200
    assert difference([expected, expected], [expected, expected * 2]) == 0.5
    assert difference([np.array([0.5])], [np.array([0.0])]) == 0.5
    assert difference([np.zeros(0)], [np.zeros(0)]) == difference([], []) == 0.0
    assert difference([np.array([True, False])], [np.array([True, True])]) == 1.0


def test_what_is_not_finite_must_be_the_same() -> None:
    nan, inf = math.nan, math.inf
    assert difference([np.array([nan, inf, 1.0])], [np.array([nan, inf, 2.0])]) == 0.5
    for found, expected in (([nan], [1.0]), ([1.0], [nan]), ([inf], [-inf]), ([inf], [1.0]), ([nan], [inf])):
        assert difference([np.array(found)], [np.array(expected)]) == inf
    assert difference([np.zeros(2)], [np.zeros(3)]) == inf


def test_a_large_tensor_is_compared_to_its_end() -> None:
    expected = np.ones(2 * BLOCK + 5, np.float32)
    found = expected.copy()
    found[-1] = 3.0
    assert difference([found], [expected]) == 2.0


@given(st.sampled_from(["float16", "float32", "bfloat16", "int8", "uint8", "int32", "float8_e4m3fn"]))
def test_what_is_not_written_stands_out(dtype: str) -> None:
    array = prefilled(TensorSpec(dtype, (3,)), 0).astype(np.float64)
    assert (abs(array - UNWRITTEN) < 8).all()


def test_references_are_bounded_and_the_oldest_go_first() -> None:
    kept = References(limit=100)
    for name in "abc":
        kept.put((name, FLOATS, 0), [np.zeros(5)])
        kept.get(("a", FLOATS, 0))
    assert [kept.get((name, FLOATS, 0)) is None for name in "abc"] == [False, True, False]
    kept.put(("large", FLOATS, 0), [np.zeros(50)])
    assert (kept.get(("large", FLOATS, 0)), kept.size) == (None, 80)  # it alone exceeds the limit: the others stay
