"""How far a model's outputs lie from the right ones. Pure."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

TOLERANCE = 1e-2
"""Largest error of right outputs: float32 is right to 1e-5 or so, Winograd's algorithm and short types to less."""
LEAST_SIGNAL = 1e-3
"""Part of the outputs' size that counts as their signal at least: what is far below it, rounding changes as much."""


def signal_error(found: Array, expected: Array, elsewhere: Array) -> float:
    """``max|found - expected|`` as a part of the signal ``max|expected - elsewhere|``; finite numbers count.

    Against the outputs' size a large constant would hide an error. But a model may do almost nothing with its inputs,
    as networks with random weights do; then the signal is taken to be a part of that size. Where the inputs decide how
    many outputs there are, the signal is the outputs' size, and another number of them is an infinite error.

    Args:
        found, expected: outputs of one input.
        elsewhere: the right outputs of another input.
    """
    if found.shape != expected.shape:
        return math.inf
    here, right, other = (np.asarray(array).astype("float64") for array in (found, expected, elsewhere))
    with np.errstate(invalid="ignore"):  # infinity less infinity
        difference = _largest(here - right)
        apart = _largest(right - other) if right.shape == other.shape else _largest(right)
        signal = max(apart, LEAST_SIGNAL * _largest(right))
    return difference / signal if signal else difference


def distance(found: Array, expected: Array) -> tuple[float, float]:
    """How far outputs of another precision lie apart, as parts of the expected ones; finite numbers count.

    The first is ``max|found - expected| / max|expected|``, the second the same of root mean squares. Both are infinite
    where the shapes differ, or one has a finite number and the other has none.

    The signal would be no measure: rounding operands changes outputs by a part of their size, however little the inputs
    change them.
    """
    here, right = (np.asarray(array).astype("float64") for array in (found, expected))
    if not as_finite(here, right):
        return math.inf, math.inf
    with np.errstate(invalid="ignore"):  # infinity less infinity
        off = here - right
    off, right = off[np.isfinite(right)], right[np.isfinite(right)]
    largest, square = _largest(right), _mean_square(right)
    return _largest(off) / (largest or 1.0), math.sqrt(_mean_square(off) / (square or 1.0))


def as_finite(found: Array, expected: Array) -> bool:
    """Whether both have finite numbers at the same places."""
    return found.shape == expected.shape and bool((np.isfinite(found) == np.isfinite(expected)).all())


def dependence(right: Array, elsewhere: Array) -> float:
    """Part of themselves by which the right outputs of two inputs differ, between 0 and 2; finite numbers count.

    1 where the inputs decide how many there are.
    """
    if right.shape != elsewhere.shape:
        return 1.0
    one, other = (np.asarray(array).astype("float64") for array in (right, elsewhere))
    with np.errstate(invalid="ignore"):  # infinity less infinity
        size = max(_largest(one), _largest(other))
        return _largest(one - other) / size if size else 0.0


def loses_nan(found: Array, expected: Array) -> bool:
    """True where an output of an input with a NaN has none, although the right one has."""
    here, right = (np.asarray(array).astype("float64") for array in (found, expected))
    return bool(np.isnan(right).any() and not np.isnan(here).any())


def _mean_square(array: Array) -> float:
    return float(np.mean(np.square(array))) if array.size else 0.0


def _largest(array: Array) -> float:
    finite = np.abs(array[np.isfinite(array)])
    return float(finite.max()) if finite.size else 0.0
