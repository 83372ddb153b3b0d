"""Facility location: which of many points bring all of them near to a chosen one. Greedy, lazily evaluated.

The sum of the distances to the nearest chosen point falls less and less with each choice: it is submodular. So the
greedy choice gains at least 1 - 1/e of what the best one would (Nemhauser, Wolsey and Fisher, 1978). Gains only fall,
so most of them need not be computed again (Minoux, "Accelerated Greedy Algorithms", 1978).
"""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np

from tunesmith.space.base import Floats, Ints


def representatives(codes: Floats, taken: Floats, n: int, weight: Floats | None = None) -> Ints:
    """Positions of ``n`` of some points, in the order of choice.

    Args:
        codes: numbers of each point, float64 [points, dims]; columns count by their spread.
        taken: numbers of the points that are chosen already, float64 [taken, dims].
        weight: how much it matters that a point has one near, float64 [points]; None: equally much.
    """
    if not len(codes) or n < 1:
        return np.zeros(0, dtype=np.int64)
    spread = codes.std(axis=0)
    scale = np.where(spread > 0, 1.0 / np.where(spread > 0, spread, 1.0), 0.0)
    points, known = (np.asarray(each * scale, dtype=np.float32) for each in (codes, taken))
    apart = _distances(points, points)
    near = np.full(len(points), apart.max(), dtype=np.float32)
    if len(known):
        near = np.minimum(near, _distances(points, known).min(axis=1))
    worth = np.ones(len(points), dtype=np.float32) if weight is None else np.asarray(weight, dtype=np.float32)

    def gain(point: int) -> float:
        return float(worth @ np.maximum(near - apart[point], 0.0))

    queue = [(-gain(point), point) for point in range(len(points))]
    heapq.heapify(queue)
    chosen: list[int] = []
    while queue and len(chosen) < n:
        _, point = heapq.heappop(queue)
        now = (-gain(point), point)
        if queue and now > queue[0]:
            heapq.heappush(queue, now)
            continue
        chosen.append(point)
        near = np.minimum(near, apart[point])
    return np.array(chosen, dtype=np.int64)


def _distances(a: Any, b: Any) -> Any:
    """Euclidean distances, float32 [len(a), len(b)]."""
    squares = (a * a).sum(axis=1)[:, None] + (b * b).sum(axis=1)[None, :] - 2.0 * (a @ b.T)
    return np.sqrt(np.maximum(squares, 0.0))
