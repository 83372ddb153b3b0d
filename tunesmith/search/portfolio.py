"""Several searchers that share a task's trials, after OpenTuner (Ansel et al., PACT 2014).

No searcher is the best on every space, and which one it will be shows only while it runs. A task has a hundred trials,
and trying everybody costs a good part of them; so one member, the best on average, leads as long as it finds something
better. When it stalls, a bandit gives each part of a batch to the member whose latest proposals were worth most, by the
area under the curve of their credit, plus a bonus for those that were tried little. OpenTuner credits a new best alone,
which is rare in so few trials; here a proposal counts by how near it came to the best, so that failing to improve by
little is not worth nothing.

Every member learns from every measurement and keeps off the proposals of the others. What another one found is where
the leader goes on.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tunesmith.search.base import Prior, Score, Searcher
from tunesmith.search.members import MEMBERS
from tunesmith.space.base import Floats
from tunesmith.space.space import Space
from tunesmith.types import Candidate, Measurement


@dataclass(frozen=True)
class PortfolioOptions:
    """Settings of the bandit.

    Attributes:
        members: names in ``tunesmith.search.members``, the leader first.
        patience: measurements without progress after which the leader has stalled.
        progress: a new best counts as such if it is faster by this share.
        parts: parts of an ask then; each is one member's.
        window: latest measurements that credit is taken from.
        sharpness: a proposal's credit is the best latency over its own, to this power.
        exploration: weight of the bonus of members that were tried little.
    """

    members: tuple[str, ...] = ("droplet", "genetic", "annealing")
    patience: int = 24
    progress: float = 0.01
    parts: int = 2
    window: int = 500
    sharpness: float = 8.0
    exploration: float = 0.05


class PortfolioSearcher(Searcher):
    """Gives parts of each ask to searchers by what came of their earlier proposals."""

    def __init__(self, space: Space, seed: int = 0, options: PortfolioOptions = PortfolioOptions()) -> None:
        self.space, self.options = space, options
        seeds = [seed, *np.random.SeedSequence(seed).generate_state(len(options.members) - 1)]
        self._members = [MEMBERS[name](space, seed=int(s)) for name, s in zip(options.members, seeds, strict=True)]
        self._open: dict[Candidate, int | None] = {}  # proposed and not told; whose it is
        self._credits: list[tuple[int, float]] = []  # member and credit, oldest first
        self._best = math.inf
        self._idle = 0  # measurements since there was progress

    def ask(
        self, n: int, pending: Collection[Candidate] = (), score: Score | None = None, prior: Prior | None = None
    ) -> list[Candidate]:
        """Up to ``n`` new candidates, see :class:`tunesmith.search.base.Searcher`."""
        # What the prior constructs, and keeps for the next ask, is the first one's business and no member's merit.
        constructed = prior is not None and not math.isfinite(self._best)
        leads = constructed or self._idle < self.options.patience
        part = n if leads else math.ceil(n / self.options.parts)
        found: list[Candidate] = []
        left = list(range(len(self._members)))
        while len(found) < n and left:
            member = left[0] if leads else max(left, key=self._worth)
            wanted = min(part, n - len(found))
            asked = self._members[member].ask(wanted, [*pending, *self._open], score, prior)
            self._open.update(dict.fromkeys(asked, None if constructed else member))
            found += asked
            if len(asked) < wanted:
                left.remove(member)
        return found

    def suggest(self, candidates: Sequence[Candidate]) -> None:
        """The leader has them, see :class:`tunesmith.search.base.Searcher`."""
        self._members[0].suggest(candidates)

    def _worth(self, member: int) -> float:
        """Credit's area under the curve, and the bonus; infinity for a member that was never asked."""
        credit = np.array([c for m, c in self._credits if m == member])
        tried = len(credit) + sum(m == member for m in self._open.values())
        if not tried:
            return math.inf
        total = len(self._credits) + len(self._open)
        return area(credit) + self.options.exploration * math.sqrt(2.0 * math.log2(1 + total) / tried)

    def tell(self, measurements: Sequence[Measurement]) -> None:
        """Credit whoever proposed them, and let every member learn."""
        known = self.space.known([m.candidate for m in measurements])
        mine = [m for m, is_point in zip(measurements, known, strict=True) if is_point]
        for m in mine:
            self._idle = 0 if m.latency < (1.0 - self.options.progress) * self._best else self._idle + 1
            self._best = min(self._best, m.latency)
        for m in mine:
            member = self._open.pop(m.candidate, None)
            if member is not None:
                credit = (self._best / m.latency) ** self.options.sharpness if m.ok else 0.0
                self._credits.append((member, credit))
        self._credits = self._credits[-self.options.window :]
        for searcher in self._members:
            searcher.tell(measurements)

    def state(self) -> dict[str, Any]:
        """State of every member, what several share once, and the bandit's."""
        states = [searcher.state() for searcher in self._members]
        common: dict[str, Any] = {}
        for key in sorted({key for state in states for key in state}):
            values = [state[key] for state in states if key in state]
            twice = [value for i, value in enumerate(values) if value in values[:i]]
            if twice:
                common[key] = twice[0]
        return {
            "names": list(self.options.members),
            "common": common,
            "own": [
                {key: value for key, value in state.items() if key not in common or value != common[key]}
                for state in states
            ],
            "shared": [
                [key for key in sorted(common) if key in state and state[key] == common[key]] for state in states
            ],
            "open": [[c.to_json(), member] for c, member in self._open.items()],
            "credits": [[member, credit] for member, credit in self._credits],
            "best": self._best if math.isfinite(self._best) else None,
            "idle": self._idle,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from :meth:`state`.

        Raises:
            ValueError: for the state of other members, another space or version.
        """
        if state.get("names") != list(self.options.members):
            raise ValueError("the state is not that of a portfolio of these members")
        for searcher, own, shared in zip(self._members, state["own"], state["shared"], strict=True):
            searcher.restore({**own, **{key: state["common"][key] for key in shared}})
        self._open = {Candidate.from_json(c): member for c, member in state["open"]}
        self._credits = [(int(member), float(credit)) for member, credit in state["credits"]]
        self._best = math.inf if state["best"] is None else float(state["best"])
        self._idle = int(state["idle"])


def area(credit: Floats) -> float:
    """Area under the curve of credits, oldest first, as a share of the whole; later ones count more. 0 without any."""
    n = len(credit)
    return float(2.0 * np.arange(1, n + 1) @ credit / (n * (n + 1))) if n else 0.0
