"""What a model's latency will be when its rounds are spent, and between which bounds. Pure.

The future is drawn from the belief about the tasks' learning curves (``tunesmith.allocate.jumps``): how a task's gains
fade and how large they are by their probabilities, jumps from the process. Who gets how many of the rounds is taken for
certain: half of them is shared equally, the others go to those that are expected to save most with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tunesmith.allocate.base import TaskView
from tunesmith.allocate.jumps import Curves, JumpOptions, Posterior, posterior_of
from tunesmith.allocate.table import Table
from tunesmith.space.base import Floats, Ints

LEVEL = 0.9
"""Probability with which the interval is meant to hold what comes."""
DRAWS = 1000
DRAWN = 128
"""Tasks whose futures are drawn: those that are least certain. What all others come to, together, is nearly normal."""
MAX_ROUNDS_PER_TASK = 200
"""Rounds that one task is thought to get at most."""
CONSIDERED = 200_000
"""Pairs of a task and a number of rounds that are weighed against each other; with many tasks, each may get fewer."""
OPTIONS = JumpOptions(size=0.3, gain=0.15, evidence=1.0, shared=0.25)
"""Chosen on recorded curves: with smaller jumps, intervals held too rarely what came."""


@dataclass(frozen=True)
class Forecast:
    """Latency of the model in seconds: now, and at the end its mean and the interval of probability ``LEVEL``."""

    current: float
    expected: float
    low: float
    high: float


def forecast(tasks: Sequence[TaskView], rounds: int, options: JumpOptions = OPTIONS) -> Forecast | None:
    """Forecast the sum of the tasks' latencies, times weights.

    Args:
        tasks: the tasks that make up the model. A pair of alternatives counts as the one in use.
        rounds: still to come, those under way included.

    Returns:
        None while a task that may still be tuned has no valid latency.
    """
    return forecast_table(Table.of(tasks), rounds, options)


def forecast_table(table: Table, rounds: int, options: JumpOptions = OPTIONS) -> Forecast | None:
    """The same of tasks that are columns already."""
    curves = Curves.of(table.histories)
    latency = np.minimum(curves.last, table.untuned)
    if not len(latency) or not np.isfinite(latency).all():
        return None
    posterior = posterior_of(curves, table.family, options)
    worth = latency * table.weight
    more = _shares(posterior, curves.rounds, worth * ~table.exhausted, rounds)
    left = _left(posterior, curves.rounds, more, worth)
    low, high = np.quantile(left, ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
    expected = float((posterior.left(curves.rounds, more) * worth).sum())
    return Forecast(float(worth.sum()), expected, float(low), float(high))


def _shares(posterior: Posterior, done: Ints, worth: Floats, rounds: int) -> Ints:
    """Rounds of each task, int64 [tasks]: half of them equally, the others as they are expected to save most."""
    count = int((worth > 0).sum())
    if not count:
        return np.zeros_like(done)
    each = rounds // 2 // count
    even = np.where(worth > 0, each, 0)
    return even + _greedy(posterior, done + even, worth, rounds - count * each)


def _greedy(posterior: Posterior, done: Ints, worth: Floats, rounds: int) -> Ints:
    """Rounds of each task where every round goes to whom it is expected to save most, int64 [tasks]."""
    some = _promising(posterior, done, worth, rounds)
    most = min(rounds, MAX_ROUNDS_PER_TASK, max(1, CONSIDERED // max(1, len(some))))
    found, task = _gains(posterior.of(some), done[some], worth[some], most, rounds)
    best = _first(-found, rounds)
    best = best[found[best] >= 0]
    return np.bincount(some[task[best]], minlength=len(done)).astype(np.int64)


def _gains(posterior: Posterior, done: Ints, worth: Floats, most: int, rounds: int) -> tuple[Floats, Ints]:
    """What the first, second, ... round of each task is expected to save, in seconds, and the tasks' numbers.

    A task's rounds promise less and less: once ``rounds`` others promise more than its last one, no further is asked.
    """
    asked, before = np.arange(len(done)), posterior.weight.sum(axis=1)
    gains, tasks, number = [np.empty(0)], [np.empty(0, np.int64)], 0
    for k in range(1, most + 1):
        if not len(asked):
            break
        left = posterior.of(asked).left(done[asked], np.full_like(asked, k))
        gain = (before - left) * worth[asked]
        gains.append(gain)
        tasks.append(asked)
        number += len(asked)
        if number > rounds:
            known = np.concatenate(gains)
            ahead = gain >= np.partition(known, number - rounds)[number - rounds]
            asked, left = asked[ahead], left[ahead]
        before = left
    return np.concatenate(gains), np.concatenate(tasks)


def _promising(posterior: Posterior, done: Ints, worth: Floats, rounds: int) -> Ints:
    """Tasks that can be among the first ``rounds`` to be served: a task's rounds promise less and less."""
    first = (1.0 - posterior.left(done, np.ones_like(done))) * worth
    able = np.flatnonzero(worth > 0)
    return able[_first(-first[able], rounds)]


def _first(values: Floats, count: int) -> Ints:
    """Where the smallest ``count`` values are, of equal ones those in front: int64 [count], rising.

    As a stable sort would have it, in a fraction of the time where there are hundreds of thousands.
    """
    if count >= len(values):
        return np.arange(len(values))
    if count <= 0:
        return np.arange(0)
    bound = np.partition(values, count - 1)[count - 1]
    below, equal = np.flatnonzero(values < bound), np.flatnonzero(values == bound)
    return np.sort(np.concatenate([below, equal[: count - len(below)]]))


def _left(posterior: Posterior, done: Ints, more: Ints, worth: Floats) -> Floats:
    """What is left of the model's latency in seconds, float64 [DRAWS].

    Tasks that get no round stay as they are. Of the others the least certain are drawn one by one; the sum of the rest
    has the mean and the variance that follow from the belief.
    """
    moving = np.flatnonzero(more)
    some, had, get = posterior.of(moving), done[moving], more[moving]
    mean = some.left(had, get)
    deviation = np.sqrt(np.maximum(some.left(had, get, 2.0) - mean**2, 0.0)) * worth[moving]
    order = np.argsort(-deviation, kind="stable")
    drawn, rest = np.sort(order[:DRAWN]), order[DRAWN:]
    rng = np.random.default_rng(0)
    stays = worth.sum() - worth[moving].sum() + (mean[rest] * worth[moving[rest]]).sum()
    sums = _draws(rng, some.of(drawn), had[drawn], get[drawn]) @ worth[moving[drawn]]
    out: Floats = sums + stays + rng.normal(size=DRAWS) * np.linalg.norm(deviation[rest])
    return out


def _draws(rng: np.random.Generator, posterior: Posterior, done: Ints, more: Ints) -> Floats:
    """What is left of each task's latency, float64 [DRAWS, tasks]."""
    drawn = rng.random((DRAWS, len(done)))
    which = np.zeros(drawn.shape, np.int64)
    for bound in np.cumsum(posterior.weight, axis=1).T[:-1]:
        which += drawn > bound
    task = np.arange(len(done))
    gain = rng.gamma(posterior.shape[task, which], 1.0 / posterior.rate[task, which])
    jumps = rng.poisson(gain * posterior.to_come(done, more)[task, which] / posterior.options.size)
    out: Floats = np.exp(-posterior.options.size * jumps)
    return out
