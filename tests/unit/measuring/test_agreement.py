from __future__ import annotations

import math

import numpy as np
import pytest

from tunesmith.cli.summary import outputs
from tunesmith.measuring.agreement import (
    LEAST_SIGNAL,
    TOLERANCE,
    dependence,
    distance,
    loses_nan,
    signal_error,
)
from tunesmith.measuring.checked import LEAST_DEPENDENCE, NARROW_TOLERANCE, CheckState, judge

RNG = np.random.default_rng(0)
SHAPE = (2, 50)


def noise(size: float) -> np.ndarray:
    return RNG.uniform(-size, size, SHAPE)


@pytest.mark.parametrize("constant", [0.0, 1e2])
def test_a_large_constant_hides_no_error(constant: float) -> None:
    right, other = constant + noise(1.0), constant + noise(1.0)
    assert signal_error(right + noise(1e-6), right, other) < 1e-5
    wrong = right.copy()
    wrong[1, 7] += 0.3
    assert signal_error(wrong, right, other) > 0.1 > TOLERANCE


def test_rounding_is_no_error_of_a_model_that_does_nothing_with_its_inputs() -> None:
    right = noise(1.0)
    other = right + noise(1e-8)
    assert signal_error(right + noise(1e-6), right, other) < TOLERANCE
    assert signal_error(right + noise(0.1), right, other) > TOLERANCE
    assert signal_error(right + noise(1e-6), right, right) == pytest.approx(
        signal_error(right + noise(1e-6), right, other), rel=0.5
    )
    assert LEAST_SIGNAL < TOLERANCE


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "bool"])
def test_equal_outputs_of_any_type_have_no_error(dtype: str) -> None:
    right, other = (noise(5.0).astype(dtype) for _ in range(2))
    assert signal_error(right, right, other) == 0.0


def test_nothing_to_compare_with_counts_as_it_is() -> None:
    nothing = np.zeros(SHAPE)
    assert signal_error(nothing + 0.25, nothing, nothing) == 0.25
    assert signal_error(np.zeros(0), np.zeros(0), np.zeros(0)) == 0.0
    odd = np.array([np.nan, np.inf, 1.0])
    assert signal_error(odd, odd, np.array([np.nan, np.inf, 2.0])) == 0.0


def test_the_summary_calls_outputs_that_differ_different() -> None:
    for allowed in (TOLERANCE, None):
        assert "agree" in said(1e-6, allowed)
        assert "agree" in said(TOLERANCE, allowed)
        assert "agree" not in said(0.5, allowed)
        assert "DIFFER" in said(0.5, allowed)
    assert "not compared" in said(None, None)


def said(error: float | None, tolerance: float | None) -> str:
    return outputs({"output_error": error, "output_tolerance": tolerance})


@pytest.mark.parametrize(
    ("error", "signal", "state"),
    [
        (1e-6, 0.5, CheckState.AGREE),
        (1e-6, LEAST_DEPENDENCE, CheckState.AGREE),
        (1e-6, 0.9 * LEAST_DEPENDENCE, CheckState.NOTHING_CHECKED),
        (0.0, 0.0, CheckState.NOTHING_CHECKED),
        (1e-6, float("nan"), CheckState.NOTHING_CHECKED),
        (1e-6, None, CheckState.AGREE),  # an earlier version's
        (0.5, 0.5, CheckState.DIFFER),
        (0.5, 0.0, CheckState.DIFFER),
        (float("nan"), 0.0, CheckState.DIFFER),
        (None, None, CheckState.NOT_COMPARED),
    ],
)
def test_outputs_that_are_the_same_for_every_input_check_nothing(
    error: float | None, signal: float | None, state: CheckState
) -> None:
    assert judge(error, TOLERANCE, signal) is state


def test_outputs_of_another_precision_are_held_against_their_size() -> None:
    right = 100.0 + noise(1.0)
    rounded = (right * (1 + 2.0**-9)).astype("float32")
    largest, rms = distance(rounded, right)
    assert largest == pytest.approx(2.0**-9, rel=1e-3)
    assert rms == pytest.approx(2.0**-9, rel=1e-3)
    assert max(largest, rms) < NARROW_TOLERANCE < signal_error(rounded, right, right + noise(1.0))
    wrong = right.copy()
    wrong[0, 0] = 0.0
    assert distance(wrong, right)[0] > 0.9 > distance(wrong, right)[1]
    assert distance(right, right) == distance(np.zeros(0), np.zeros(0)) == (0.0, 0.0)
    assert distance(np.array([np.inf, 1.0]), np.array([np.inf, 1.0])) == (0.0, 0.0)
    assert distance(right, right[:1]) == distance(np.array([np.nan]), np.array([1.0])) == (math.inf, math.inf)


def test_how_much_outputs_depend_on_the_inputs() -> None:
    right = noise(1.0)
    assert dependence(right, right) == 0.0
    assert dependence(right, right + noise(1e-8)) < LEAST_DEPENDENCE
    assert dependence(right, noise(1.0)) > 0.5
    assert dependence(right, 0 * right) == dependence(0 * right, right) == 1.0
    assert dependence(0 * right, 0 * right) == dependence(np.zeros(0), np.zeros(0)) == 0.0
    assert dependence(np.array([np.inf, 1.0]), np.array([np.inf, 2.0])) == 0.5


def test_outputs_of_the_same_program_are_no_agreement() -> None:
    same = {"output_error": 0.0, "output_tolerance": 0.01, "schedules": 0}
    assert "agree" not in outputs(same)


def test_the_summary_never_calls_it_agreement() -> None:
    text = outputs({"output_error": None, "output_tolerance": None, "check": {"state": "nothing_checked"}})
    assert text.startswith("nothing was checked")
    assert "agree" not in text


def test_the_inputs_may_decide_how_many_outputs_there_are() -> None:
    right, other = np.arange(6.0), np.arange(4.0)
    assert dependence(right, other) == 1.0
    assert signal_error(right, right, other) == 0.0
    assert signal_error(right + 0.5, right, other) == pytest.approx(0.1)
    assert signal_error(other, right, other) == math.inf


def test_a_nan_is_lost_where_none_comes_out() -> None:
    nan, number = np.array([1.0, np.nan]), np.array([1.0, 2.0])
    assert loses_nan(number, nan)
    assert not loses_nan(nan, nan)
    assert not loses_nan(nan, number)
