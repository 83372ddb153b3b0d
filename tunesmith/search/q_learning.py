"""Directed walks from measured points, where Q-learning says which direction pays, after FlexTensor.

Zheng et al., "FlexTensor", ASPLOS 2020. Walks start at measured points with the odds exp(-gamma (v* - v) / v*), v being
the speed. At each step an agent picks the best direction by its Q-values, with odds that fall while more is measured a
random one. A direction is a knob and which of its neighbouring choices it moves to; its reward is what the step gains
in the logarithm of latency, measured where both ends were, else guessed. The Q-function is a perceptron of the point's
numbers and their change. What is learned of a direction holds at every value of a knob, and for similar sketches. It
learns from remembered steps (Mnih et al., "Human-level control through deep reinforcement learning", 2015).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tunesmith.search.candidate_pool import CandidatePool
from tunesmith.search.learning import GuessingOptions, GuessingSearcher
from tunesmith.search.packed import pack_points, unpack_points
from tunesmith.search.perceptron import Floats32, Perceptron
from tunesmith.search.surrogate import Prediction, from_history
from tunesmith.space.base import Floats, Ints, PointBatch
from tunesmith.space.space import Space, concat

TYPICAL = 256
"""Random points whose deviation scales the perceptron's inputs."""
FEWEST = 16
"""Remembered steps before anything is learnt from them."""


@dataclass(frozen=True)
class QLearningOptions(GuessingOptions):
    """Settings of the agent.

    Attributes:
        walks: walks of an ask's look.
        steps: steps of each walk.
        directions: drawn at random at each step, of which the agent picks one.
        gamma: how much slower points are avoided as starts.
        explored: odds of a random direction while nothing is measured.
        explored_least: what they fall to.
        decay: by which they fall with each measurement, exponentially.
        discount: worth of the next step's gain.
        hidden: units of the perceptron.
        rate: length of a step of its gradient descent.
        updates: such steps in an ask.
        minibatch: remembered steps that one of them learns from.
        memory: steps that are remembered.
        guessed: new points among them that an ask judges without proposing one.
    """

    walks: int = 48
    steps: int = 6
    directions: int = 8
    gamma: float = 4.0
    explored: float = 0.8
    explored_least: float = 0.1
    decay: float = 0.01
    discount: float = 0.6
    hidden: int = 32
    rate: float = 0.1
    updates: int = 64
    minibatch: int = 64
    memory: int = 384
    guessed: int = 32


class QLearningSearcher(GuessingSearcher):
    """Walks where its agent expects gains; random while nothing is known that tells points apart."""

    def __init__(self, space: Space, seed: int = 0, options: QLearningOptions = QLearningOptions()) -> None:
        super().__init__(space, seed, options)
        self.options = options
        spread = self._codes.of(space.sample(np.random.default_rng(0), TYPICAL)).std(axis=0)
        self._scale = np.where(spread > 0, 1.0 / np.maximum(spread, 1e-9), 0.0)
        self._network = Perceptron(2 * self._codes.dims, options.hidden, seed)
        self._begin, self._end = space.batch([]), space.batch([])
        self._walked: list[tuple[PointBatch, PointBatch]] = []  # steps of this ask

    def state(self) -> dict[str, Any]:
        """As every searcher's, the perceptron and the remembered steps."""
        return {
            **super().state(),
            "network": self._network.state(),
            "begin": pack_points(self._begin),
            "end": pack_points(self._end),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from :meth:`state`. Raises ValueError for the state of another space or version."""
        super().restore(state)
        self._network.restore(state["network"])
        self._begin, self._end = (unpack_points(state[name], self.space.width) for name in ("begin", "end"))

    def _pick(self, pool: CandidatePool, n: int, informed: bool) -> Ints:
        self._walked.clear()
        rows = super()._pick(pool, n, informed)
        if self._walked:
            begin, end = (concat(points) for points in zip(*self._walked, strict=True))
            self._remember(begin, end, pool.keys[rows])
        return rows

    def _visit(self, pool: CandidatePool, prediction: Prediction, n: int, done: float) -> tuple[PointBatch, Floats]:
        if not done:
            self._learn(prediction)
        self._walked += self._walk(pool)
        ends = concat([end for _, end in self._walked])
        return ends, self._guess(prediction, ends)

    def _walk(self, pool: CandidatePool) -> list[tuple[PointBatch, PointBatch]]:
        """Steps of some walks, as points before and after them."""
        at, walked = self._starts(pool), list[tuple[PointBatch, PointBatch]]()
        chance = max(
            self.options.explored_least, self.options.explored * math.exp(-self.options.decay * len(self._history))
        )
        for _ in range(self.options.steps):
            moved = self._directed(at, chance)
            walked.append((at, moved))
            at = moved
        return walked

    def _directed(self, at: PointBatch, chance: float) -> PointBatch:
        """Each point after a step in the best of some directions, or with odds ``chance`` in any."""
        count, width = len(at), self.options.directions
        before = at.take(np.repeat(np.arange(count), width))
        after = self.space.neighbours(self._rng, before)
        worth = self._network.predict(self._inputs(before, after)).reshape(count, width)
        best = np.where(self._rng.random(count) < chance, 0, worth.argmax(axis=1))
        return after.take(np.arange(count) * width + best)

    def _starts(self, pool: CandidatePool) -> PointBatch:
        """Measured points by their speed, sketches by their shares; where nothing ran yet, what was scored."""
        ran = np.flatnonzero(np.isfinite(self._history.seconds))
        points, speed = self._history.points.take(ran), 1.0 / self._history.seconds[ran]
        if not len(ran):
            points = pool.points.take(pool.ranked())
            speed = 1.0 / np.arange(1.0, len(points) + 1.0)
        odds = np.exp(-self.options.gamma * (1.0 - speed / speed.max()))
        share = self._shares() / np.bincount(points.sketch, odds, len(self.space.sketches)).clip(1e-12)
        odds *= share[points.sketch]
        return points.take(self._rng.choice(len(points), size=self.options.walks, p=odds / odds.sum()))

    def _inputs(self, before: PointBatch, after: PointBatch) -> Floats32:
        """Numbers of a point and how a step changes them: float32 [n, 2 dims]."""
        a, b = self._codes.of(before) * self._scale, self._codes.of(after) * self._scale
        return np.concatenate([a, b - a], axis=1).astype(np.float32)

    def _learn(self, prediction: Prediction) -> None:
        """Q-learning from remembered steps, whose rewards are made anew of what is known now."""
        if len(self._begin) < FEWEST:
            return
        steps, x = np.arange(len(self._begin)), self._inputs(self._begin, self._end)
        further = self._end.take(np.repeat(steps, self.options.directions))
        further_x = self._inputs(further, self.space.neighbours(self._rng, further))
        further_x = further_x.reshape(len(steps), self.options.directions, -1)
        gain = self._gain(prediction)
        for _ in range(self.options.updates):
            mine = self._rng.choice(steps, size=self.options.minibatch)
            later = self._network.predict(further_x[mine].reshape(-1, x.shape[1])).reshape(len(mine), -1).max(axis=1)
            wanted = gain[mine] + self.options.discount * np.maximum(later, 0.0)
            self._network.learn(x[mine], wanted, self.options.rate)

    def _gain(self, prediction: Prediction) -> Floats:
        """Rewards of the remembered steps, in deviations of what is known."""
        own = from_history(self._codes, self._history)
        ends = concat([self._begin, self._end])
        value = (own or prediction).predict(self._codes.of(ends))
        if own is not None:
            goodness = self._history.goodness
            keys, measured = self.space.keys(ends), self.space.keys(self._history.points)
            order = np.argsort(measured)
            place = order[np.minimum(np.searchsorted(measured, keys, sorter=order), len(measured) - 1)]
            value = np.where(measured[place] == keys, goodness[place], value)
        begin, end = np.split(value, 2)
        return (end - begin) / (float(value.std()) or 1.0)

    def _remember(self, begin: PointBatch, end: PointBatch, proposed: Ints) -> None:
        """Keep the steps that led to proposals, a few others, and of the older ones the newest."""
        led = np.isin(self.space.keys(end), proposed)
        others = self._rng.permutation(np.flatnonzero(~led))[: self.options.guessed]
        kept = np.union1d(np.flatnonzero(led), others)
        newest = slice(-self.options.memory, None)
        self._begin = concat([self._begin, begin.take(kept)]).take(newest)
        self._end = concat([self._end, end.take(kept)]).take(newest)
