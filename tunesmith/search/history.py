"""Everything measured of a space, for searchers that learn from more than the best points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tunesmith.search.packed import pack, pack_points, unpack, unpack_points
from tunesmith.space.base import Floats, Ints, PointBatch
from tunesmith.space.space import Space, concat, first_of_each
from tunesmith.types import Measurement

MAX_MEASUREMENTS = 1024
"""Measurements that are remembered; of more the fastest half and the newest."""


class History:
    """Measured points, oldest first, each once.

    Attributes:
        points: points of the space.
        seconds: float64 [n], infinity after a failure.
    """

    def __init__(self, space: Space) -> None:
        self.space = space
        self.points: PointBatch = space.batch([])
        self.seconds: Floats = np.zeros(0)

    def __len__(self) -> int:
        return len(self.points)

    def take(self, measurements: Sequence[Measurement]) -> None:
        """Remember measurements; those of other spaces and of the default schedule are passed over.

        A point measured again keeps the newer figure.
        """
        known = self.space.known([m.candidate for m in measurements])
        mine = [m for m, is_point in zip(measurements, known, strict=True) if is_point]
        points = concat([self.points, self.space.batch([m.candidate for m in mine])])
        seconds = np.concatenate([self.seconds, [m.latency for m in mine]])
        newest = np.flatnonzero(first_of_each(self.space.keys(points)[::-1])[::-1])
        self.points, self.seconds = points.take(newest), seconds[newest]
        kept = self.telling(MAX_MEASUREMENTS)
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

    def telling(self, most: int) -> Ints:
        """Rows of so many points, oldest first: the fastest half and the newest."""
        if len(self) <= most:
            return np.arange(len(self), dtype=np.int64)
        fast = self.fastest(most // 2)
        rest = np.setdiff1d(np.arange(len(self)), fast)[-(most - len(fast)) :]
        return np.union1d(fast, rest)

    def state(self) -> dict[str, Any]:
        """Plain JSON; a few dozen bytes per point."""
        return {**pack_points(self.points), "seconds": pack(self.seconds, "<f8")}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from :meth:`state`."""
        self.points = unpack_points(state, self.space.width)
        self.seconds = unpack(state["seconds"], "<f8")
