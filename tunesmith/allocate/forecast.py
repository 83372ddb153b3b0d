"""What a model's latency will be when its rounds are spent, and between which bounds. Pure.

The future is drawn from the belief about the tasks' learning curves (``tunesmith.allocate.jumps``): how a task's gains
fade and how large they are by their probabilities, jumps from the process. Who gets how many of the rounds is taken for
certain: half of them goes to all alike, the others to those who are expected to save most with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tunesmith.allocate.base import TaskView
from tunesmith.allocate.jumps import Belief, Curves, JumpOptions, belief
from tunesmith.allocate.table import Table
from tunesmith.space.base import Floats, Ints

LEVEL = 0.9
"""Probability with which the interval is meant to hold what comes."""
DRAWS = 1000
MOST = 200
"""Rounds that one task is thought to get at most."""
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
    """Of the sum of the tasks' latencies, times weights.

    Args:
        tasks: those that make up the model; of a pair of alternatives only the one that is in use.
        rounds: still to come, those under way included.

    Returns:
        None while a task that may still be tuned has no valid latency.
    """
    table = Table.of(tasks)
    curves = Curves.of(table.histories)
    latency = np.minimum(curves.last, table.untuned)
    if not len(tasks) or not np.isfinite(latency).all():
        return None
    believed = belief(curves, table.family, options)
    worth = latency * table.weight
    more = _shares(believed, curves.rounds, worth * ~table.exhausted, rounds)
    left = _draws(believed, curves.rounds, more) @ worth
    low, high = np.quantile(left, ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
    return Forecast(float(worth.sum()), float(left.mean()), float(low), float(high))


def _shares(believed: Belief, done: Ints, worth: Floats, rounds: int) -> Ints:
    """Rounds of each task, int64 [tasks]: half of them to all alike, the others as they are expected to save most."""
    count = int((worth > 0).sum())
    if not count:
        return np.zeros_like(done)
    each = rounds // 2 // count
    even = np.where(worth > 0, each, 0)
    return even + _greedy(believed, done + even, worth, rounds - count * each)


def _greedy(believed: Belief, done: Ints, worth: Floats, rounds: int) -> Ints:
    """Rounds of each task where every round goes to whom it is expected to save most, int64 [tasks]."""
    most = min(rounds, MOST)
    left = np.stack([believed.left(done, np.full_like(done, k)) for k in range(most + 1)])  # [most + 1, tasks]
    gains = -np.diff(left, axis=0) * worth
    gains = np.where(worth > 0, gains, -1.0)
    best = np.argsort(-gains, axis=None, kind="stable")[:rounds]
    best = best[gains.ravel()[best] >= 0]
    return np.bincount(best % len(done), minlength=len(done)).astype(np.int64)


def _draws(believed: Belief, done: Ints, more: Ints) -> Floats:
    """What is left of each task's latency, float64 [DRAWS, tasks]."""
    rng = np.random.default_rng(0)
    which = (rng.random((DRAWS, len(done), 1)) > np.cumsum(believed.weight, axis=1)).sum(axis=2)
    which = np.minimum(which, believed.weight.shape[1] - 1)
    task = np.arange(len(done))
    gain = rng.gamma(believed.shape[task, which], 1.0 / believed.rate[task, which])
    jumps = rng.poisson(gain * believed.to_come(done, more)[task, which] / believed.options.size)
    out: Floats = np.exp(-believed.options.size * jumps)
    return out
