"""A perceptron with one hidden layer, in NumPy alone: learns a number from numbers by stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tunesmith.search.packed import pack, unpack
from tunesmith.space.base import Floats

Floats32 = NDArray[np.float32]


class Perceptron:
    """tanh units and a linear output, float32.

    Args:
        inputs: columns of what it learns from, of deviation 1 or less.
        hidden: units.
        seed: seed of the first weights.
    """

    def __init__(self, inputs: int, hidden: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self._weights = {
            "inner": rng.normal(0.0, inputs**-0.5, (inputs, hidden)).astype(np.float32),
            "bias": np.zeros(hidden, dtype=np.float32),
            "outer": rng.normal(0.0, 0.1 * hidden**-0.5, hidden).astype(np.float32),
            "level": np.zeros(1, dtype=np.float32),
        }

    def predict(self, x: Floats32) -> Floats:
        """float64 [n] of float32 [n, inputs]."""
        w = self._weights
        out: Floats = (np.tanh(x @ w["inner"] + w["bias"]) @ w["outer"] + w["level"]).astype(np.float64)
        return out

    def learn(self, x: Floats32, wanted: Floats, rate: float) -> None:
        """One step down the gradient of the Huber loss, whose slope is never above 1 (Huber, 1964).

        Args:
            x: float32 [n, inputs].
            wanted: float64 [n].
            rate: length of the step.
        """
        w = self._weights
        unit = np.tanh(x @ w["inner"] + w["bias"])
        error = np.clip(unit @ w["outer"] + w["level"] - wanted, -1.0, 1.0).astype(np.float32) / np.float32(len(x))
        back = error[:, None] * w["outer"] * (1 - unit**2)
        step = np.float32(rate)
        w["outer"] -= step * (unit.T @ error)
        w["level"] -= step * error.sum()
        w["inner"] -= step * (x.T @ back)
        w["bias"] -= step * back.sum(axis=0)

    def state(self) -> dict[str, str]:
        """Plain JSON, exact."""
        return {name: pack(w, "<f4") for name, w in self._weights.items()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Inverse of :meth:`state`, of a perceptron of the same size."""
        for name, old in self._weights.items():
            self._weights[name] = unpack(state[name], "<f4").reshape(old.shape)
