"""Discrete Fourier transforms as products: their matrices, for pairs of a real and an imaginary part side by side."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from workers.tvm_backend.frontends.refusals import unsupported

MAX_AXIS_ELEMENTS = 2048
"""Elements of an axis along which a transform may be a product: the matrix has four times their square."""


def to_complex(name: str, length: int, forward: bool, parts: int) -> NDArray[np.float64]:
    """From ``length`` numbers of as many ``parts``, 1 where they are real, to as many complex ones.

    Args:
        name: the operator's, for a refusal.

    Returns:
        ``[length * parts, length * 2]``, not scaled.

    Raises:
        UnsupportedOperator: the axis is longer than ``MAX_AXIS_ELEMENTS``.
    """
    angle = _angles(name, length, length, forward)
    cosine, sine = np.cos(angle), np.sin(angle)
    both = np.stack([np.stack([cosine, sine], -1), np.stack([-sine, cosine], -1)], 1)
    return both[:, :parts].reshape(length * parts, length * 2)


def to_real(name: str, length: int) -> NDArray[np.float64]:
    """Back from the first half of the complex numbers that ``length`` real ones have.

    Returns:
        ``[(length // 2 + 1) * 2, length]``, not scaled.

    Raises:
        UnsupportedOperator: the axis is longer than ``MAX_AXIS_ELEMENTS``.
    """
    half = length // 2 + 1
    angle = _angles(name, half, length, False)
    share = np.full((half, 1), 2.0)
    share[0] = 1.0
    if length % 2 == 0:
        share[-1] = 1.0
    return np.stack([np.cos(angle) * share, -np.sin(angle) * share], 1).reshape(half * 2, length)


def _angles(name: str, rows: int, length: int, forward: bool) -> NDArray[np.float64]:
    if length > MAX_AXIS_ELEMENTS:
        raise unsupported(name, f"{length} elements along an axis")
    turns = (np.outer(np.arange(rows), np.arange(length)) % length).astype(np.float64)
    return turns * ((-2 if forward else 2) * math.pi / length)
