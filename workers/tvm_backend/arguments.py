"""Random arguments by element type."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tunesmith.types import TensorSpec

SMALL_INTEGERS = 8
"""Integers lie in 0…7 where no other range is known: small indices and token ids exist."""
LOWEST_REAL = -1.0
"""Floating point lies between it and its opposite where no other range is known."""
SPECIAL = (float("nan"), float("inf"))
"""What :func:`with_special` puts among the values of an argument that may have it."""
BLOCK = 1 << 20


def random_array(spec: TensorSpec, seed: int) -> NDArray[Any]:
    """Values that a kernel takes at full speed: no zeros in bulk, no denormals, no index out of range.

    Uniform in the range of the argument's ``values``. Without one floating point is uniform in [-1, 1), integers are
    small and not negative, booleans are both. What holds the bits of another type gets those of such values.
    """
    if spec.meaning != spec.dtype:
        return random_array(replace(spec, dtype=spec.meaning), seed).view(spec.dtype)
    rng = np.random.default_rng(seed)
    if spec.dtype == "bool":
        return rng.integers(0, 2, spec.shape).astype("bool")
    if spec.dtype.startswith(("int", "uint")):
        first, last = (0, SMALL_INTEGERS - 1) if spec.values is None else (int(spec.values.low), int(spec.values.high))
        return rng.integers(first, last + 1, spec.shape).astype(spec.dtype)
    dtype = dtype_of(spec.dtype)
    count = int(np.prod(spec.shape, dtype=np.int64))
    low, high = (LOWEST_REAL, -LOWEST_REAL) if spec.values is None else (spec.values.low, spec.values.high)
    block = (rng.random(min(count, BLOCK), dtype=np.float32) * (high - low) + low).astype(dtype)
    found = np.empty(count, dtype)
    for start in range(0, count, BLOCK):
        # A large tensor repeats a block: generating 10^8 numbers costs more than measuring with them.
        found[start : start + BLOCK] = block[: count - start]
    return found.reshape(spec.shape)


def as_meant(array: NDArray[Any], spec: TensorSpec) -> NDArray[Any]:
    """An array of bits as the values whose bits these are; others as they are."""
    return array if spec.meaning == spec.dtype else array.view(dtype_of(spec.meaning))


def takes_special(spec: TensorSpec) -> bool:
    """True for an argument that may have NaN and infinity."""
    return spec.values is not None and spec.values.special


def with_special(array: NDArray[Any], spec: TensorSpec, seed: int) -> NDArray[Any]:
    """The values with a NaN and an infinity among them, where the argument may have these; else as they are."""
    if not takes_special(spec) or array.size < len(SPECIAL):
        return array
    changed: NDArray[Any] = array.copy()
    places = np.random.default_rng(seed).choice(array.size, len(SPECIAL), replace=False)
    changed.reshape(-1)[places] = SPECIAL
    return changed


def dtype_of(name: str) -> np.dtype[Any]:
    """NumPy's element type of that name, or that of ``ml_dtypes``."""
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes

        found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return found
