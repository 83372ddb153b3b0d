"""Agents that walk through a space, and adaptive sampling of where they went, after Chameleon (Ahn et al., ICLR 2020).

An agent stands at a point and moves each of its knobs down, up or not at all. It is rewarded by how much better a draft
of the scores thinks of the new point, and the agents' policy is trained on it by PPO. Half of the agents start at the
best known points, the others at random ones. One policy serves all sketches: it sees codes that these share.

Many of the best visited points are similar. So the points are clustered, and the centroids are looked at first. The
number of clusters is where more of them no longer help much. A known centroid gives way to a new point of its cluster's
choices (sample synthesis).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tunesmith.search.candidate_pool import CandidatePool
from tunesmith.search.extras import extra
from tunesmith.search.learning import GuessingOptions, GuessingSearcher
from tunesmith.search.policy import Episodes, Policy, PolicyOptions
from tunesmith.search.surrogate import Prediction
from tunesmith.search.walk import Walk
from tunesmith.space.base import Floats, Ints, PointBatch
from tunesmith.space.space import Space, concat, first_of_each

TYPICAL = 256
"""Random points whose mean and deviation scale what agents see."""
CLUSTERS = 8
"""Clusters to begin with, and how many more are tried next."""
CENTROID_BONUS = 2.0
"""What the centroids of clusters are ahead of all other points, in ranges of the guesses."""


@dataclass(frozen=True)
class AgentOptions(GuessingOptions, PolicyOptions):
    """Settings of the agents and of the sampling; those of the networks are ``PolicyOptions``.

    Attributes:
        agents: how many walk in a look.
        steps: that each of them takes.
        settled: share of them that start at the best known points.
        planned: points per look that are clustered.
        fall: more clusters are taken while they divide the sum of squared distances at least by this.
    """

    looks: int = 2
    agents: int = 64
    steps: int = 12
    settled: float = 0.5
    planned: float = 4.0
    fall: float = 2.5


class AgentSearcher(GuessingSearcher):
    """Suggests the centroids of the best points where its agents went, then the others, best first.

    Raises:
        MissingDependency: without torch or scikit-learn.
    """

    def __init__(self, space: Space, seed: int = 0, options: AgentOptions = AgentOptions()) -> None:
        super().__init__(space, seed, options)
        self.options = options
        self._cluster = extra("sklearn.cluster", "ppo")
        self._limits = extra("threadpoolctl", "ppo").threadpool_limits
        self._walk = Walk(space)
        self._policy = Policy(self._codes.dims, self._walk.slots, self._rng, options)
        typical = self._codes.of(space.sample(np.random.default_rng(0), TYPICAL))
        self._middle, spread = typical.mean(axis=0), typical.std(axis=0)
        self._scale = 1.0 / np.where(spread > 0, spread, 1.0)

    def state(self) -> dict[str, Any]:
        """As every guided searcher's, and the networks."""
        return {**super().state(), "policy": self._policy.state()}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from :meth:`state`. Raises ValueError for the state of another space or version."""
        super().restore(state)
        if "policy" not in state:
            raise ValueError("the state is another searcher's")
        self._policy.restore(state["policy"])

    def _visit(self, pool: CandidatePool, prediction: Prediction, n: int, done: float) -> tuple[PointBatch, Floats]:
        visited = self._explore(pool, prediction)
        visited = visited.take(first_of_each(self.space.keys(visited)))
        value = self._guess(prediction, visited)
        order = np.argsort(-value, kind="stable")[: round(self.options.planned * n)]
        centres = self._centres(pool, visited.take(order), n)
        ahead = self._guess(prediction, centres) + CENTROID_BONUS * np.ptp(value)
        return concat([centres, visited]), np.concatenate([ahead, value])

    def _explore(self, pool: CandidatePool, prediction: Prediction) -> PointBatch:
        """Let the agents walk and learn from it; every point that they came to."""
        here = self._starts(pool, prediction)
        code = self._codes.of(here)
        guess = prediction.predict(code)
        seen, steps, rewards, visited = [self._scaled(code)], list[Ints](), list[Floats](), list[PointBatch]()
        for _ in range(self.options.steps):
            steps.append(self._policy.act(self._rng, seen[-1]))
            here = self._walk.move(here, steps[-1])
            code = self._codes.of(here)
            before, guess = guess, prediction.predict(code)
            rewards.append(guess - before)
            seen.append(self._scaled(code))
            visited.append(here)
        reward = np.stack(rewards)
        reward /= reward.std() or 1.0
        self._policy.learn(self._rng, Episodes(np.stack(seen), self._walk.own[here.sketch], np.stack(steps), reward))
        return concat(visited)

    def _starts(self, pool: CandidatePool, prediction: Prediction) -> PointBatch:
        """Where the agents begin: the best known points, those of the sketches that do well, and random ones."""
        points, _ = self._valued(pool, prediction)
        mine = self._divide(points.sketch, round(self.options.settled * self.options.agents), self.options.shared)
        settled = points.take(mine)
        return concat([settled, self.space.sample(self._rng, self.options.agents - len(settled), pool.share)])

    def _scaled(self, code: Floats) -> Any:
        return ((code - self._middle) * self._scale).astype(np.float32)

    def _centres(self, pool: CandidatePool, points: PointBatch, n: int) -> PointBatch:
        """The points next to the centroids of clusters, or new ones of their choices where these are known already."""
        code = self._scaled(self._codes.of(points))
        group, centre = self._clusters(code, min(n, len(np.unique(code, axis=0))))
        nearest = np.array(
            [
                np.flatnonzero(group == g)[np.square(code[group == g] - centre[g]).sum(axis=1).argmin()]
                for g in np.unique(group)
            ],
            dtype=np.int64,
        )
        fresh = np.isin(nearest, pool.unknown(points))
        made = [self._synthesis(points, group == group[row], int(row)) for row in nearest[~fresh]]
        return concat([points.take(nearest[fresh]), *made])

    def _clusters(self, code: Any, most: int) -> tuple[Ints, Floats]:
        """The cluster of each row and their centroids, of ever more clusters while that brings the rows much closer."""
        group, centre, left = np.zeros(len(code), dtype=np.int64), code.mean(axis=0, keepdims=True), np.inf
        with self._limits(limits=1):
            for k in range(min(CLUSTERS, most), most + 1, CLUSTERS):
                seed = int(self._rng.integers(2**31))
                found = self._cluster.KMeans(k, n_init=1, random_state=seed).fit(code)
                group, centre = found.labels_.astype(np.int64), found.cluster_centers_
                if found.inertia_ * self.options.fall >= left:
                    break
                left = found.inertia_
        return group, centre

    def _synthesis(self, points: PointBatch, members: Any, row: int) -> PointBatch:
        """A point with choices of a cluster's members, those of the sketch of one of them."""
        mine = points.take(members & (points.sketch == points.sketch[row]))
        picked = self._rng.integers(len(mine), size=self.space.width)
        choice = mine.choice[picked, np.arange(self.space.width)]
        return PointBatch(points.sketch[row : row + 1], choice[None])
