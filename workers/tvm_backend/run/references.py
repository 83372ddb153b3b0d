"""What a right result is: outputs of the default schedule, and how far others lie from them. NumPy only."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from cachetools import LRUCache
from numpy.typing import NDArray

from tunesmith.types import TensorSpec
from workers.tvm_backend.arguments import dtype_of, random_array, with_special

KEPT_BYTES = 256 << 20
BLOCK = 1 << 20
UNWRITTEN = 77
"""No output of the inputs in [-1, 1) is likely to be it, and each of the element types can hold it."""

FREEDOM = 2.0
"""Times as many outputs, and as far, as those of inputs that are a little off: both are drawn by lot."""

SECOND_SEED = 1
"""Seed of the inputs that are checked besides the timed ones, with NaN and infinity where arguments may have these."""

Changed = list[NDArray[Any] | None]
"""Arguments after a run; None: it holds what it held before."""
Key = tuple[str, tuple[TensorSpec, ...], int]
"""Code hash of the default schedule, arguments, seed of the inputs."""


class References:
    """The latest default schedules' outputs, so that one that takes seconds need not run with each batch.

    They live as long as the process that holds the device's session; the oldest go when ``limit`` bytes are exceeded.
    """

    def __init__(self, limit: int = KEPT_BYTES) -> None:
        self._kept: LRUCache[Key, Changed] = LRUCache(limit, getsizeof=_size)

    def get(self, key: Key) -> Changed | None:
        """The arguments after a run, if they are kept."""
        return self._kept.get(key)

    def put(self, key: Key, arrays: Changed) -> None:
        """Keep them, unless they alone exceed the limit."""
        if _size(arrays) <= self._kept.maxsize:
            self._kept[key] = arrays

    @property
    def size(self) -> int:
        """Bytes in use."""
        return int(self._kept.currsize)


def _size(arrays: Changed) -> int:
    return sum(array.nbytes for array in arrays if array is not None)


def initial(args: tuple[TensorSpec, ...], index: int, seed: int) -> NDArray[Any]:
    """An argument before a run: a random input, or an output that shows what was not written."""
    own = 1000 * seed + index
    if index == len(args) - 1:
        return prefilled(args[index], own)
    array = random_array(args[index], own)
    return with_special(array, args[index], own) if seed == SECOND_SEED else array


def prefilled(spec: TensorSpec, seed: int) -> NDArray[Any]:
    """An output before the run: a value that stands out where the kernel leaves it."""
    return random_array(spec, seed) if spec.dtype == "bool" else np.full(spec.shape, UNWRITTEN, dtype_of(spec.dtype))


def difference(found: Sequence[NDArray[Any]], expected: Sequence[NDArray[Any]]) -> float:
    """``max|a-b| / max|b|`` with b expected, the largest over the arguments; infinity where only one is finite.

    NaN equals NaN, and an infinity one of its sign. Where all of b is zero the difference itself counts.
    """
    return max((_difference(a, b) for a, b in zip(found, expected, strict=True)), default=0.0)


def excuse(
    found: Sequence[NDArray[Any]], expected: Sequence[NDArray[Any]], shifted: Sequence[NDArray[Any]], tolerance: float
) -> float:
    """Largest error that ``found`` may have because right results have it as well; 0 where that is no excuse for it.

    A kernel that rounds to whole numbers jumps where a sum falls on the other side of a half. Rounding errors of its
    sums are not larger than those of inputs that are off by the ``tolerance``; such inputs ought to move about as many
    of the outputs beyond it, and about as far. Backward error: Higham, Accuracy and Stability of Numerical Algorithms,
    2002, §1.5.

    Args:
        expected: the right outputs.
        shifted: the right ones of inputs that are off by the ``tolerance``; see :func:`nudged`.
    """
    if any(
        _beyond(a, b, tolerance) > FREEDOM * _beyond(c, b, tolerance)
        for a, b, c in zip(found, expected, shifted, strict=True)
    ):
        return 0.0
    worst = FREEDOM * difference(shifted, expected)
    return worst if math.isfinite(worst) else 0.0


def nudged(array: NDArray[Any], share: float, seed: int) -> NDArray[Any]:
    """Floating point whose elements are off by the ``share`` at most, at random; others as they are."""
    if array.dtype.kind in "iub":
        return array
    rng = np.random.default_rng(seed)
    made = np.empty(array.size, array.dtype)
    given_ = array.reshape(-1)
    for start in range(0, array.size, BLOCK):
        part = given_[start : start + BLOCK]
        made[start : start + BLOCK] = (part * (1 + share * rng.uniform(-1, 1, part.size))).astype(array.dtype)
    return made.reshape(array.shape)


def _beyond(found: NDArray[Any], expected: NDArray[Any], tolerance: float) -> int:
    """Elements that are further off than the ``tolerance`` of the largest one."""
    ours, theirs = found.reshape(-1), expected.reshape(-1)
    blocks = [slice(start, start + BLOCK) for start in range(0, theirs.size, BLOCK)]
    scale, count = 0.0, 0
    for block in blocks:
        b = theirs[block].astype(np.float64)
        scale = max(scale, float(np.abs(b[np.isfinite(b)]).max(initial=0.0)))
    for block in blocks:
        with np.errstate(invalid="ignore"):  # infinity less infinity
            off = np.abs(ours[block].astype(np.float64) - theirs[block].astype(np.float64))
        count += int((off > tolerance * scale).sum())
    return count


def _difference(found: NDArray[Any], expected: NDArray[Any]) -> float:
    if found.shape != expected.shape:
        return math.inf
    worst = scale = 0.0
    ours, theirs = found.reshape(-1), expected.reshape(-1)
    for start in range(0, ours.size, BLOCK):  # in blocks: large tensors are not copied as a whole
        a, b = (array[start : start + BLOCK].astype(np.float64) for array in (ours, theirs))
        finite = np.isfinite(b)
        if not np.array_equal(a[~finite], b[~finite], equal_nan=True) or not np.isfinite(a[finite]).all():
            return math.inf
        if finite.any():
            worst = max(worst, float(np.abs(a[finite] - b[finite]).max()))
            scale = max(scale, float(np.abs(b[finite]).max()))
    return worst / scale if scale else worst
