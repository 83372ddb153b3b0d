"""The first batch of a task: aligned construction from a prior alone, before anything is measured.

After Roller (Zhu et al., OSDI 2022): where a model of the device tells good programs from bad ones, a handful of
measurements is enough. Many points are drawn, the best are improved step by step, and those that are proposed differ,
so that one error of the prior does not spoil all of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tunesmith.search.base import Prior
from tunesmith.search.shares import HALF, divide, shares, turn
from tunesmith.search.turns import Turns
from tunesmith.space.base import Bools, Floats, Ints, PointBatch
from tunesmith.space.space import Space, concat, first_of_each

DRAWN = 16384
"""Random points to start from; a space with fewer points is taken whole."""
IMPROVED_POINTS = 256
"""Points of each sketch that are improved."""
STEPS = 4
"""How often each of them is moved to neighbours."""
DOUBT = float(np.log(5.0))
"""How far a prior may err between sketches, in logarithms."""
STRANGE = 2.0
"""How much slower than the best sketch one counts of which nothing is known."""
APART = 2
"""Knobs in which two proposed points of a sketch differ at least, where it has so many."""


def construct(space: Space, prior: Prior, rng: np.random.Generator, n: int, drawn: int = DRAWN) -> PointBatch:
    """Up to ``n`` distinct points that the prior thinks best, unlike each other; none where it knows none.

    ``drawn`` random points are where it starts from.

    First each sketch that is worth it has a turn, by the best that the prior expects of it, then every other one is the
    best of all. Of two priors that take turns the second chooses among what the first found.
    """
    if isinstance(prior, Turns):
        pool, cost = _pool(space, prior.first, rng, drawn)
        again = prior.second(pool)
        order = np.argsort(ranks(again), kind="stable")
        order = order[~np.isinf(again[order])]
        both = _picked(space, pool, cost, n), _picked(space, pool.take(order), again[order], n)
        return _in_turn(space, both, n)
    return _picked(space, *_pool(space, prior, rng, drawn), n)


def _pool(space: Space, prior: Prior, rng: np.random.Generator, drawn: int) -> tuple[PointBatch, Floats]:
    """The best points that were found of each sketch, best first, and their estimates; none where nothing is known."""
    pool = space.at(rng.permutation(space.size)) if space.size <= drawn else space.sample(rng, drawn)
    seen = space.keys(pool)
    pool, seen = pool.take(first_of_each(seen)), np.unique(seen)
    cost = prior(pool)
    if np.isnan(cost).all():
        return pool.take(slice(0, 0)), cost[:0]
    familiar = np.bincount(pool.sketch, np.isfinite(cost), minlength=len(space.sketches)) > 0
    pool, cost = _best(space, pool, _certain(pool, cost, familiar))
    for _ in range(STEPS if space.size > drawn else 0):
        moved = space.neighbours(rng, pool)
        keys = space.keys(moved)
        new = first_of_each(keys) & ~np.isin(keys, seen)  # the others are in the pool, or were not good enough for it
        moved, seen = moved.take(new), np.union1d(seen, keys)
        found = _certain(moved, prior(moved), familiar)
        pool, cost = _best(space, concat([pool, moved]), np.concatenate([cost, found]))
    return pool, cost


def _picked(space: Space, pool: PointBatch, cost: Floats, n: int) -> PointBatch:
    """Up to ``n`` points of a pool that is sorted by these estimates."""
    return pool.take(_unlike(space, pool, _expected(space, pool, cost), n))


def _in_turn(space: Space, lists: Sequence[PointBatch], n: int) -> PointBatch:
    """Up to ``n`` distinct points: the first of each list, then the second of each, and so on."""
    both = concat(lists)
    both = both.take(np.argsort(np.concatenate([np.arange(len(each)) for each in lists]), kind="stable"))
    return both.take(np.flatnonzero(first_of_each(space.keys(both)))[:n])


def ranks(found: Floats) -> Floats:
    """Estimates to sort by: unknown points are in the middle, hopeless ones last."""
    known = found[np.isfinite(found)]
    return np.where(np.isnan(found), float(np.median(known)) if len(known) else 0.0, found)


def sift(
    prior: Prior, batch: PointBatch, n: int, share: Floats | None = None, start: Floats | float = HALF
) -> PointBatch:
    """The ``n`` points of a batch that a prior thinks best, best first.

    Args:
        share: what each sketch has of them; None: whatever the prior gives it.
        start: see ``tunesmith.search.shares.turn``.
    """
    batch = batch.take(np.argsort(ranks(prior(batch)), kind="stable"))
    return batch.take(slice(0, n) if share is None else divide(share, batch.sketch, n, start))


def _certain(batch: PointBatch, cost: Floats, familiar: Bools) -> Floats:
    """Estimates, of which the unknown ones of a sketch with known ones count as hopeless: where those are few, the
    unknown would stand before them."""
    return np.where(np.isnan(cost) & familiar[batch.sketch], np.inf, cost)


def _best(space: Space, batch: PointBatch, cost: Floats) -> tuple[PointBatch, Floats]:
    """The best ``IMPROVED_POINTS`` distinct points of each sketch, best first, and their estimates; all are finite."""
    order = np.argsort(ranks(cost), kind="stable")
    order = order[~np.isinf(cost[order])]
    order = order[first_of_each(space.keys(batch.take(order)))]
    place = np.zeros(len(order), dtype=np.int64)
    for s in np.unique(batch.sketch[order]):
        mine = batch.sketch[order] == s
        place[mine] = np.arange(mine.sum())
    order = order[place < IMPROVED_POINTS]
    return batch.take(order), cost[order]


def _expected(space: Space, pool: PointBatch, cost: Floats) -> Floats:
    """The share of each sketch; one that the prior does not know has that of one ``STRANGE`` times slower than the
    best."""
    best, known = np.full(len(space.sketches), np.inf), np.flatnonzero(~np.isnan(cost))
    np.minimum.at(best, pool.sketch[known], cost[known])
    leader = float(best.min()) if len(known) else 1.0
    return shares(np.where(np.isfinite(best), best, STRANGE * leader), DOUBT)


def _unlike(space: Space, pool: PointBatch, share: Floats, n: int) -> Ints:
    """Rows of a sorted pool, each not too near to one that was taken before; then whatever is left.

    They are the best of the sketch whose turn it is, and once each sketch that is worth a turn had one, every other row
    is the best of all: a prior may be unfair to a sketch.
    """
    left, taken = np.ones(len(pool), dtype=np.bool_), list[int]()
    count = np.zeros(len(share), dtype=np.int64)
    while left.any() and len(taken) < n:
        next_ = turn(share, count, np.bincount(pool.sketch[left], minlength=len(share)) > 0)
        wanted = left & (pool.sketch == next_) if len(taken) % 2 or not count[next_] else left
        row = int(np.argmax(wanted))
        mine = pool.sketch[row]
        taken.append(row)
        count[mine] += 1
        movable = sum(knob.size > 1 for knob in space.sketches[mine].knobs)
        near = (pool.choice != pool.choice[row]).sum(axis=1) < min(APART, movable)
        left &= ~((pool.sketch == mine) & near)
        left[row] = False
    rest = np.setdiff1d(np.arange(len(pool)), taken)
    return np.array([*taken, *rest[: n - len(taken)].tolist()], dtype=np.int64)
