"""Candidates for a model that cannot roam a space by itself: random points, and those around the best ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tunesmith.search.candidate_pool import CandidatePool
from tunesmith.search.history import History
from tunesmith.search.memory import ENUMERATE_LIMIT
from tunesmith.space.base import Floats, PointBatch
from tunesmith.space.space import concat


@dataclass(frozen=True)
class CandidateOptions:
    """Settings of the candidates of an ask.

    Attributes:
        learnt: measurements that the model learns from at most, the fastest half and the newest.
        sampled: random points; a small space is looked through whole.
        incumbents: best measured points whose neighbours join them.
        neighbours: how many of these neighbours.
        onward: share of the neighbours that are moved once more, and of these again.
    """

    learnt: int = 256
    sampled: int = 512
    incumbents: int = 16
    neighbours: int = 768
    onward: float = 0.5


def observed(history: History, pool: CandidatePool, options: CandidateOptions) -> tuple[PointBatch, Floats]:
    """Points to learn from and how good they are: what was measured; before anything ran, what has a score."""
    if len(history.fastest(1)):
        rows = history.telling(options.learnt)
        return history.points.take(rows), history.goodness[rows]
    finite = np.isfinite(pool.mean)
    return pool.points.take(finite), pool.mean[finite]


def candidates(
    history: History, pool: CandidatePool, rng: np.random.Generator, options: CandidateOptions
) -> PointBatch:
    """Unknown points to choose from: all of a small space, else random ones and neighbours of the best."""
    space = pool.space
    if space.size <= ENUMERATE_LIMIT:
        points = space.at(np.arange(space.size, dtype=np.int64))
    else:
        near = around(incumbents(history, pool, options), options.neighbours, pool, rng, options.onward)
        points = concat([pool.draw(rng, options.sampled), near])
    return points.take(pool.unknown(points))


def incumbents(history: History, pool: CandidatePool, options: CandidateOptions) -> PointBatch:
    """The best measured points; before anything ran, those with the best scores."""
    fast = history.fastest(options.incumbents)
    return history.points.take(fast) if len(fast) else pool.points.take(pool.ranked()[: options.incumbents])


def around(
    parents: PointBatch,
    n: int,
    pool: CandidatePool,
    rng: np.random.Generator,
    onward: float,
    odds: Floats | None = None,
) -> PointBatch:
    """``n`` points one or a few moves away from ``parents``.

    Args:
        onward: share of them that are moved once more, and of these again.
        odds: how likely each knob of each parent moves, see ``Space.neighbours``.
    """
    rows = rng.integers(len(parents), size=n)
    wanted = None if odds is None else odds[rows]
    points = pool.space.neighbours(rng, parents.take(rows), wanted)
    moved = np.arange(n)
    while len(moved := moved[rng.random(len(moved)) < onward]):
        repeated = pool.space.neighbours(rng, points.take(moved), None if wanted is None else wanted[moved])
        points.choice[moved] = repeated.choice
    return points
