"""Everything measured of a space, for searchers that learn from more than the best points."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tunesmith.space.base import Batch, Floats, Ints
from tunesmith.space.space import Space, concat, first_of_each
from tunesmith.types import Measurement

LIMIT = 1024
"""Measurements that are remembered; of more the fastest half and the newest."""


class History:
    """Measured points, oldest first, each once.

    Attributes:
        points: of the space.
        seconds: float64 [n], infinity after a failure.
    """

    def __init__(self, space: Space) -> None:
        self.space = space
        self.points: Batch = space.batch([])
        self.seconds: Floats = np.zeros(0)

    def __len__(self) -> int:
        return len(self.points)

    def take(self, measurements: Sequence[Measurement]) -> None:
        """Remember measurements; those of other spaces and of the default schedule are passed over.

        Of a point that was measured before the newer figure counts.
        """
        known = self.space.known([m.candidate for m in measurements])
        mine = [m for m, is_point in zip(measurements, known, strict=True) if is_point]
        points = concat([self.points, self.space.batch([m.candidate for m in mine])])
        seconds = np.concatenate([self.seconds, [m.latency for m in mine]])
        newest = np.flatnonzero(first_of_each(self.space.keys(points)[::-1])[::-1])
        self.points, self.seconds = points.take(newest), seconds[newest]
        if len(newest) > LIMIT:
            fast = np.argsort(self.seconds, kind="stable")[:LIMIT // 2]
            rest = np.setdiff1d(np.arange(len(newest)), fast)[-(LIMIT - len(fast)):]
            kept = np.union1d(fast, rest)
            self.points, self.seconds = self.points.take(kept), self.seconds[kept]

    @property
    def goodness(self) -> Floats:
        """Minus the logarithm of the latency, float64 [n], higher is better; a failure counts as the worst that ran."""
        ran = np.isfinite(self.seconds)
        worst = float(self.seconds[ran].max()) if ran.any() else 1.0
        return np.asarray(-np.log(np.where(ran, self.seconds, worst)))

    def fastest(self, most: int) -> Ints:
        """Rows of the fastest points that ran, fastest first."""
        order = np.argsort(self.seconds, kind="stable")[:most]
        return order[np.isfinite(self.seconds[order])]

    def state(self) -> dict[str, Any]:
        """Plain JSON; a few dozen bytes per point."""
        return {**pack_points(self.points), "seconds": _pack(self.seconds, "<f8")}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from :meth:`state`."""
        self.points = unpack_points(state, self.space.width)
        self.seconds = _unpack(state["seconds"], "<f8").astype(np.float64)


def pack_points(points: Batch) -> dict[str, str]:
    """Plain JSON; six bytes per point and knob, about."""
    return {"sketch": _pack(points.sketch, "<i2"), "choice": _pack(points.choice, "<i4")}


def unpack_points(state: Mapping[str, Any], width: int) -> Batch:
    """Inverse of :func:`pack_points`, for a space of this width."""
    sketch = _unpack(state["sketch"], "<i2").astype(np.int64)
    return Batch(sketch, _unpack(state["choice"], "<i4").astype(np.int64).reshape(len(sketch), width))


def _pack(values: Any, dtype: str) -> str:
    return base64.b64encode(values.astype(dtype).tobytes()).decode()


def _unpack(text: str, dtype: str) -> Any:
    return np.frombuffer(base64.b64decode(text), dtype=dtype)
