"""Random arguments by element type."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tunesmith.types import TensorSpec

SMALL_INTEGERS = 8
"""Integers lie in 0…7: indices of a gather or an embedding, and token ids, must exist."""
BLOCK = 1 << 20


def random_array(spec: TensorSpec, seed: int) -> NDArray[Any]:
    """Values that a kernel takes at full speed: no zeros in bulk, no denormals, no index out of range.

    Floating point is uniform in [-1, 1), integers are small and not negative, booleans are both.
    """
    rng = np.random.default_rng(seed)
    if spec.dtype == "bool":
        return rng.integers(0, 2, spec.shape).astype("bool")
    if spec.dtype.startswith(("int", "uint")):
        return rng.integers(0, SMALL_INTEGERS, spec.shape).astype(spec.dtype)
    dtype = dtype_of(spec.dtype)
    count = int(np.prod(spec.shape, dtype=np.int64))
    block = (rng.random(min(count, BLOCK), dtype=np.float32) * 2 - 1).astype(dtype)
    found = np.empty(count, dtype)
    for start in range(0, count, BLOCK):
        # A large tensor repeats a block: generating 10^8 numbers costs more than measuring with them.
        found[start : start + BLOCK] = block[: count - start]
    return found.reshape(spec.shape)


def dtype_of(name: str) -> np.dtype[Any]:
    """NumPy's element type of that name, or that of ``ml_dtypes``."""
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes

        found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return found
