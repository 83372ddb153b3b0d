"""What searchers share that look for points with a good guess, before these get an exact score.

An ask goes: the best measured points and a few random ones get exact scores; a draft of the scores (else of what was
measured) guides the method to points that promise most; some of them get an exact look, and then the draft is made
anew. The best of what was looked at is proposed, and a few points at random. A part of looks and proposals is shared
among the sketches by what was measured of each, so that no sketch starves.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tunesmith.search.codes import Codes
from tunesmith.search.draft import Draft
from tunesmith.search.guess import guess
from tunesmith.search.history import History
from tunesmith.search.hunt import CHUNK, Hunt
from tunesmith.search.points import PointSearcher
from tunesmith.search.shares import divide
from tunesmith.space.base import Batch, Floats, Ints
from tunesmith.space.space import Space, concat
from tunesmith.types import Measurement

CLOSE = 8
"""Of how many points, for each that is wanted, those are taken that are unlike each other."""
MORE_LOOKS = 4
"""How many times as many points an ask may look at where many are invalid."""


@dataclass(frozen=True)
class GuidedOptions:
    """Settings that all guided searchers have.

    Attributes:
        looks: how often the most promising points are scored exactly in an ask.
        examined: points per proposal that these looks take in all.
        measured: best measured points that get an exact score to start from.
        survivors: best points of an ask that were not proposed and that the next one scores again.
        shared: part of looks and proposals that sketches share by what was measured of each.
        doubt: chance's part in the ranking of what a draft guesses, in deviations of its guesses.
        apart: what a point's value loses next to one that was taken before, in deviations of the values.
        reach: how far from it that falls to exp(-1) of it, in root mean squared distances of the points.
        epsilon: share of proposals picked at random, once much was measured.
        caution: measurements after which half of what was random at first no longer is: guesses from few are bad.
        elites: measured points to remember apart from the history.
        effort: points per ask that go through the score function at most.
    """

    looks: int = 2
    examined: float = 1.25
    measured: int = 16
    survivors: int = 32
    shared: float = 0.5
    doubt: float = 1.0
    apart: float = 1.0
    reach: float = 0.5
    epsilon: float = 0.05
    caution: float = 4.0
    elites: int = 16
    effort: int = 1024


class GuidedSearcher(PointSearcher):
    """A searcher whose subclass suggests points that a draft of the scores, or of the measurements, thinks good."""

    def __init__(self, space: Space, seed: int, options: GuidedOptions) -> None:
        super().__init__(space, seed, effort=options.effort, elites=options.elites)
        self._guided = options
        self._codes = Codes(space)
        self._history = History(space)

    @abstractmethod
    def _suggest(self, hunt: Hunt, draft: Draft, n: int) -> Batch:
        """Points that deserve a look, the most promising first, many times ``n`` if possible; the caller leaves out
        what is known already."""

    def tell(self, measurements: Sequence[Measurement]) -> None:
        """Remember what was measured."""
        super().tell(measurements)
        self._history.take(measurements)

    def state(self) -> dict[str, Any]:
        """As every searcher's, and all measurements."""
        return {**super().state(), "history": self._history.state()}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from :meth:`state`. Raises ValueError for the state of another space or version."""
        super().restore(state)
        if "history" not in state:
            raise ValueError("the state is another searcher's")
        self._history.restore(state["history"])

    def _shares(self) -> Floats:
        """By what was measured."""
        return self._memory.tally.shares()

    def _pick(self, hunt: Hunt, n: int, informed: bool) -> Ints:
        if informed:
            best = self._history.points.take(self._history.fastest(self._guided.measured))
            hunt.examine(concat([best, self.space.batch(self._reserve)]), parents=True)
            hunt.fill(self._rng, CHUNK)
        draft = self._look(hunt, n)
        if draft is None:
            hunt.fill(self._rng, n)
            return np.flatnonzero(hunt.fresh)[:n]
        rows = self._proposed(hunt, draft, n)
        self._survive(hunt, rows)
        return rows

    def _look(self, hunt: Hunt, n: int) -> Draft | None:
        """Examine what promises most; the last draft, None where there is none.

        Without scores a second look would be guided by the same draft as the first.
        """
        wanted = math.ceil(self._guided.examined * n)
        draft = guess(self._codes, hunt, self._history)
        looks = self._guided.looks if hunt.opinion else 1
        for look in range(looks):
            step = wanted * (look + 1) // looks - wanted * look // looks
            if draft is not None and step:
                self._examine(hunt, draft, step)
            if hunt.opinion:
                draft = guess(self._codes, hunt, self._history)
        return draft

    def _examine(self, hunt: Hunt, draft: Draft, n: int) -> None:
        """Exact scores for the most promising points, until ``n`` of them are valid or too many are not."""
        points = self._suggest(hunt, draft, n)
        points = points.take(hunt.unknown(points))
        points = points.take(self._spread(points, self._guesses(draft, points), n))
        points = points.take(self._divide(points.sketch, MORE_LOOKS * n))
        begun, start = len(hunt.pool), 0
        while start < len(points) and len(hunt.pool) - begun < n:
            step = n - len(hunt.pool) + begun
            hunt.examine(points.take(slice(start, start + step)))
            start += step

    def _known(self, hunt: Hunt) -> tuple[Batch, Floats]:
        """The points that a draft learns from and what is known of them, higher is better."""
        if hunt.opinion:
            finite = np.isfinite(hunt.mean)
            return hunt.pool.take(finite), hunt.mean[finite]
        return self._history.points, self._history.goodness

    def _guesses(self, draft: Draft, points: Batch) -> Floats:
        """What a draft thinks of points, blurred by chance: float64 [n]."""
        if not len(points):
            return np.zeros(0)
        found = draft.predict(self._codes.of(points))
        return np.asarray(found + self._guided.doubt * found.std() * self._rng.gumbel(size=len(found)))

    def _proposed(self, hunt: Hunt, draft: Draft, n: int) -> Ints:
        """The best fresh points, a binomial few of them replaced by random ones."""
        doubt = self._guided.caution / max(self._guided.caution + len(self._history), 1e-9)
        chance = int(self._rng.binomial(n, self._guided.epsilon + (1.0 - self._guided.epsilon) * doubt))
        mean = hunt.mean if hunt.opinion else draft.predict(self._codes.of(hunt.pool))
        rows = np.flatnonzero(hunt.fresh & np.isfinite(mean))
        order = rows[self._spread(hunt.pool.take(rows), mean[rows], n)]
        best = self._best(hunt, order, n - chance)
        if int((hunt.fresh & hunt.drawn).sum()) < chance:
            hunt.examine(hunt.draw(self._rng, chance), drawn=True)
        if hunt.count < n:
            hunt.fill(self._rng, n)
        rest = self._rng.permutation(np.setdiff1d(np.flatnonzero(hunt.fresh), best))
        rest = rest[np.argsort(~hunt.drawn[rest], kind="stable")]
        return np.concatenate([best, rest[:n - len(best)]])

    def _best(self, hunt: Hunt, order: Ints, n: int) -> Ints:
        """``n`` of some rows of the pool, which are sorted best first."""
        return order[self._divide(hunt.pool.sketch[order], n)]

    def _spread(self, points: Batch, value: Floats, n: int) -> Ints:
        """All rows, the best first, but that each of the first ``n`` is unlike those before it: a batch of which all
        are alike tells little, and all of them may be bad."""
        if not len(points):
            return np.zeros(0, dtype=np.int64)
        order = np.argsort(-value, kind="stable")
        near = order[:CLOSE * n]
        code = self._codes.of(points.take(near))
        spread = code.std(axis=0)
        code /= np.where(spread > 0, spread, 1.0)
        reach = 2.0 * max(int((spread > 0).sum()), 1) * self._guided.reach**2
        left, taken = value[near].copy(), list[int]()
        fine = self._guided.apart * float(value.std())
        for _ in range(min(n, len(near))):
            row = int(np.argmax(left))
            taken.append(row)
            left -= fine * np.exp(-np.square(code - code[row]).sum(axis=1) / reach)
            left[row] = -np.inf
        return np.concatenate([near[taken], np.delete(order, taken)])

    def _divide(self, sketch: Ints, n: int) -> Ints:
        """Positions of ``n`` of some points, best first: a part that the sketches share, and the best of the others."""
        start = 1.0 - self._rng.random(len(self.space.sketches))
        mine = divide(self._memory.tally.shares(), sketch, round(self._guided.shared * n), start)
        rest = np.setdiff1d(np.arange(len(sketch)), mine)[:max(0, n - len(mine))]
        return np.sort(np.concatenate([mine, rest]))

    def _survive(self, hunt: Hunt, proposed: Ints) -> None:
        """The best that were not proposed, where scores tell."""
        order = hunt.ranked()
        left = order[hunt.fresh[order] & ~np.isin(order, proposed)]
        most = self._guided.survivors if hunt.opinion else 0
        self._reserve = self.space.candidates(hunt.pool.take(left[:most]))
