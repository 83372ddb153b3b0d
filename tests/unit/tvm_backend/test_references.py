"""What excuses an error: the right outputs of inputs that are a little off."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from workers.tvm_backend.run.references import difference, excuse, nudged

TOLERANCE = 1e-4
STEP = np.float32(0.05)
RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (2048, 64)).astype("float32")
W = RNG.uniform(-1, 1, (64, 64)).astype("float32")


def rounded(sums: NDArray[Any]) -> NDArray[Any]:
    return np.clip(np.round(sums / STEP), -128, 127).astype("float32") * STEP


def backwards(x: NDArray[Any], w: NDArray[Any]) -> NDArray[Any]:
    """The same product, one term after the other from the last one on."""
    total = np.zeros((len(x), w.shape[1]), "float32")
    for k in reversed(range(w.shape[0])):
        total += x[:, k : k + 1] * w[k]
    return total


EXPECTED = rounded(X @ W)
SHIFTED = rounded(nudged(X, TOLERANCE, 0) @ nudged(W, TOLERANCE, 1))


def excused(found: NDArray[Any], expected: NDArray[Any] = EXPECTED, shifted: NDArray[Any] = SHIFTED) -> float:
    return excuse([found], [expected], [shifted], TOLERANCE)


def test_a_sum_in_another_order_may_round_to_the_next_step() -> None:
    found = rounded(backwards(X, W))
    error = difference([found], [EXPECTED])
    assert TOLERANCE < error <= excused(found), "some sums lie so near to a half that their order decides"


def test_a_lost_term_is_not_excused_by_rounding() -> None:
    assert excused(rounded(X[:, 1:] @ W[1:])) == 0.0


def test_a_few_elements_far_off_are_not_excused() -> None:
    found = EXPECTED.copy()
    found[0, 0] += 3 * STEP
    assert difference([found], [EXPECTED]) > excused(found)


def test_a_product_that_does_not_round_is_excused_for_next_to_nothing() -> None:
    sums, shifted = X @ W, nudged(X, TOLERANCE, 0) @ nudged(W, TOLERANCE, 1)
    assert excused(sums * np.float32(1.001), sums, shifted) == 0.0
    assert 0.0 < excused(sums, sums, shifted) < 2 * TOLERANCE


def test_whole_numbers_are_not_nudged_and_the_rest_by_the_share_at_most() -> None:
    whole = np.arange(8, dtype="int32")
    assert nudged(whole, 0.5, 0) is whole
    off = nudged(X, 1e-2, 0)
    assert off.dtype == X.dtype
    assert 0 < np.abs(off - X).max() <= 1.001e-2
    np.testing.assert_array_equal(off, nudged(X, 1e-2, 0))
