"""What a column explains of the latency, and what it seems to explain by chance."""

from __future__ import annotations

import numpy as np
import pytest

from tunesmith.space.importance import explained


def test_a_column_explains_what_it_decides_and_noise_explains_nothing() -> None:
    rng = np.random.default_rng(1)
    values = rng.integers(4, size=(400, 4)).astype(np.float64)
    values[:, 3] = 7.0  # never changes
    latency = np.exp(2.0 * values[:, 0] + 1.0 * values[:, 1] + rng.normal(0, 0.1, 400))
    first, second, noise, constant = explained(values, latency)
    assert (first, second) == (pytest.approx(0.8, abs=0.05), pytest.approx(0.2, abs=0.05))
    assert noise < 0.02
    assert constant == 0.0


def test_nothing_is_told_of_a_value_for_each_candidate_or_of_equal_latencies() -> None:
    each = np.arange(5.0).reshape(5, 1)
    assert explained(each, np.array([1.0, 2.0, 3.0, 4.0, 5.0])).tolist() == [0.0]
    assert explained(np.array([[0.0], [0.0], [1.0]]), np.ones(3)).tolist() == [0.0]
    assert explained(np.zeros((0, 2)), np.zeros(0)).tolist() == [0.0, 0.0]
