"""Agents that walk through a space, and adaptive sampling of where they went, after Chameleon (Ahn et al., ICLR 2020).

An agent stands at a point and moves each of its knobs down, up or not at all. It is rewarded by how much better a draft
of the scores thinks of the new point, and the agents' policy is trained on it by PPO. Half of the agents start at the
best known points, the others at random ones. One policy serves all sketches: it sees codes that these share.

Of the best points where agents went many are alike. So these are clustered, the points at the centroids get a look
first, and the number of clusters is where more of them would no longer help much. A centroid that is known already
gives way to a new point of its cluster's choices (sample synthesis).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tunesmith.search.draft import Draft
from tunesmith.search.guided import GuidedOptions, GuidedSearcher
from tunesmith.search.hunt import Hunt
from tunesmith.search.policy import Episodes, Policy, PolicyOptions, library
from tunesmith.search.walk import Walk
from tunesmith.space.base import Batch, Floats, Ints
from tunesmith.space.space import Space, concat, first_of_each

TYPICAL = 256
"""Random points whose mean and deviation scale what agents see."""
CLUSTERS = 8
"""Clusters to begin with, and how many more are tried next."""


@dataclass(frozen=True)
class AgentOptions(GuidedOptions, PolicyOptions):
    """Settings of the agents and of the sampling; those of the networks are ``PolicyOptions``.

    Attributes:
        doubt: as for all guided searchers, but less of it: clusters differ by themselves.
        agents: how many walk in a look.
        steps: that each of them takes.
        settled: share of them that start at the best known points.
        planned: points per look that are clustered.
        fall: more clusters are taken while they divide the sum of squared distances at least by this.
    """

    doubt: float = 0.3
    agents: int = 64
    steps: int = 12
    settled: float = 0.5
    planned: float = 4.0
    fall: float = 2.5


class AgentSearcher(GuidedSearcher):
    """Suggests the centroids of the best points where its agents went, then the others, best first.

    Raises:
        MissingDependency: without torch or scikit-learn.
    """

    def __init__(self, space: Space, seed: int = 0, options: AgentOptions = AgentOptions()) -> None:
        super().__init__(space, seed, options)
        self.options = options
        self._cluster, self._limits = library("sklearn.cluster"), library("threadpoolctl").threadpool_limits
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

    def _suggest(self, hunt: Hunt, draft: Draft, n: int) -> Batch:
        visited = self._explore(hunt, draft)
        visited = visited.take(first_of_each(self.space.keys(visited)))
        order = np.argsort(-self._guesses(draft, visited), kind="stable")
        visited = visited.take(order)
        centres = self._centres(hunt, visited.take(slice(0, round(self.options.planned * n))), n)
        return concat([centres, visited])

    def _explore(self, hunt: Hunt, draft: Draft) -> Batch:
        """Let the agents walk and learn from it; every point that they came to."""
        here = self._starts(hunt)
        code = self._codes.of(here)
        guess = draft.predict(code)
        seen, steps, rewards, visited = [self._scaled(code)], list[Ints](), list[Floats](), list[Batch]()
        for _ in range(self.options.steps):
            steps.append(self._policy.act(self._rng, seen[-1]))
            here = self._walk.move(here, steps[-1])
            code = self._codes.of(here)
            before, guess = guess, draft.predict(code)
            rewards.append(guess - before)
            seen.append(self._scaled(code))
            visited.append(here)
        reward = np.stack(rewards)
        reward /= reward.std() or 1.0
        self._policy.learn(self._rng, Episodes(np.stack(seen), self._walk.own[here.sketch], np.stack(steps), reward))
        return concat(visited)

    def _starts(self, hunt: Hunt) -> Batch:
        """Where the agents begin: the best known points, those of the sketches that do well, and random ones."""
        points, goodness = self._known(hunt)
        points = points.take(np.argsort(-goodness, kind="stable"))
        settled = points.take(self._divide(points.sketch, round(self.options.settled * self.options.agents)))
        return concat([settled, self.space.sample(self._rng, self.options.agents - len(settled), hunt.share)])

    def _scaled(self, code: Floats) -> Any:
        return ((code - self._middle) * self._scale).astype(np.float32)

    def _centres(self, hunt: Hunt, points: Batch, n: int) -> Batch:
        """The points next to the centroids of clusters, or new ones of their choices where these are known already."""
        code = self._scaled(self._codes.of(points))
        group, centre = self._clusters(code, min(n, len(np.unique(code, axis=0))))
        nearest = np.array([np.flatnonzero(group == g)[np.square(code[group == g] - centre[g]).sum(axis=1).argmin()]
                            for g in np.unique(group)], dtype=np.int64)
        fresh = np.isin(nearest, hunt.unknown(points))
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

    def _synthesis(self, points: Batch, members: Any, row: int) -> Batch:
        """A point with choices of a cluster's members, those of the sketch of one of them."""
        mine = points.take(members & (points.sketch == points.sketch[row]))
        picked = self._rng.integers(len(mine), size=self.space.width)
        choice = mine.choice[picked, np.arange(self.space.width)]
        return Batch(points.sketch[row:row + 1], choice[None])
