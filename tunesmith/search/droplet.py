"""Coordinate descent from the best measured point, after Droplet Search.

Canesche et al., "The Droplet Search Algorithm for Kernel Scheduling", ACM TACO 2024: all points one step away along a
coordinate are measured, and the search moves to what is faster by a statistical test. A direction that paid is followed
by growing steps. A neighbourhood without anything faster is left for that of the next best point, of another sketch or
at random. What a batch has room for beyond the neighbourhood goes to those that would come next.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tunesmith.search.candidate_pool import CandidatePool
from tunesmith.search.diverse import diverse
from tunesmith.search.learning import LearningOptions, LearningSearcher
from tunesmith.search.packed import pack_keys, unpack_keys
from tunesmith.search.surrogate import from_history
from tunesmith.search.welch import Sample, p_value
from tunesmith.space.base import Ints, PointBatch
from tunesmith.space.knobs import Floats32, Knob
from tunesmith.space.space import Space, concat
from tunesmith.types import Candidate, Measurement

ALIGNED = 0.5
"""Least cosine between a step and the next one that goes on in its direction."""
PLACES = 64
"""Neighbourhoods that an ask looks through at most."""


@dataclass(frozen=True)
class DropletOptions(LearningOptions):
    """Settings of the descent.

    Attributes:
        significance: p-value below which a point counts as faster than the centre.
        noise: relative deviation of a measurement that has one sample, until measurements with more show it.
        longest: steps that a direction which pays is followed at once, at most.
        leap: odds that a restart is at random, and not at the best measured point whose neighbourhood is not known.
    """

    measured: int = 0
    drawn: int = 0
    significance: float = 0.05
    noise: float = 0.03
    longest: int = 4
    leap: float = 0.1


class DropletSearcher(LearningSearcher):
    """Descends from a centre. Guessed latencies tell which neighbours come first, exact scores which of them stay."""

    def __init__(self, space: Space, seed: int = 0, options: DropletOptions = DropletOptions()) -> None:
        super().__init__(space, seed, options)
        self.options = options
        self._centre: Candidate | None = None
        self._origin: Candidate | None = None
        self._sample = Sample(0.0, 0.0, 1)
        self._reach = 1
        self._spent: Ints = np.zeros(0, dtype=np.int64)
        self._squares, self._freedom = 0.0, 0

    def state(self) -> dict[str, Any]:
        """As every searcher's, the centre and where it came from, known neighbourhoods, and the noise."""
        return {
            **super().state(),
            "centre": self._centre and self._centre.to_json(),
            "origin": self._origin and self._origin.to_json(),
            "sample": asdict(self._sample),
            "reach": self._reach,
            "spent": pack_keys(self._spent),
            "noise": [self._squares, self._freedom],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from :meth:`state`. Raises ValueError for the state of another space or version."""
        super().restore(state)
        centre, origin = (state[name] and Candidate.from_json(state[name]) for name in ("centre", "origin"))
        self._centre, self._origin, self._sample = centre, origin, Sample(**state["sample"])
        self._reach, self._spent = state["reach"], unpack_keys(state["spent"])
        self._squares, self._freedom = state["noise"]

    def tell(self, measurements: Sequence[Measurement]) -> None:
        """Remember what was measured, and move to the fastest that is faster than the centre for certain."""
        super().tell(measurements)
        known = self.space.known([m.candidate for m in measurements])
        ran = [
            (Sample.of(m.samples), m.candidate) for m, mine in zip(measurements, known, strict=True) if mine and m.ok
        ]
        for sample, _ in ran:
            self._squares += sample.variance * (sample.count - 1)
            self._freedom += sample.count - 1
        noise = math.sqrt(self._squares / self._freedom) if self._freedom else self.options.noise
        for sample, candidate in sorted(ran, key=lambda pair: (pair[0].mean, str(pair[1]))):
            if candidate == self._centre:
                self._sample = sample
            elif self._centre is None or p_value(sample, self._sample, noise) < self.options.significance:
                self._move(candidate, sample)
                return

    def _move(self, candidate: Candidate, sample: Sample) -> None:
        """Make a point the centre; steps in one direction grow."""
        before, origin = self._changed(self._origin, self._centre), self._centre
        same = bool(before) and before == self._changed(self._centre, candidate)
        self._reach = min(2 * self._reach, self.options.longest) if same else 1
        self._centre, self._origin, self._sample = candidate, origin, sample

    def _changed(self, a: Candidate | None, b: Candidate | None) -> list[int]:
        """Knobs in which two points of a sketch differ; none where they cannot be compared."""
        if a is None or b is None or a.sketch != b.sketch:
            return []
        one, other = self.space.batch([a, b]).choice
        return [int(j) for j in np.flatnonzero(one != other)]

    def _study(self, pool: CandidatePool) -> bool:
        self._settle()
        return True

    def _chosen(self, pool: CandidatePool, rows: Ints, n: int) -> Ints:
        if pool.is_informative:
            rows = rows[np.argsort(-pool.mean[rows], kind="stable")]
        return rows[:n]

    def _settle(self) -> None:
        """Leave a centre whose neighbourhood is known."""
        centre = self.space.batch([self._centre] if self._centre else [])
        if not np.isin(self.space.keys(centre), self._spent).any():
            return
        self._centre, self._origin, self._reach = None, None, 1
        next_ = self._open(1)
        if len(next_) and self._rng.random() >= self.options.leap:
            points = self._history.points.take(next_)
            self._centre = self.space.candidates(points)[0]
            self._sample = Sample(float(np.log(self._history.seconds[next_[0]])), 0.0, 1)

    def _open(self, most: int) -> Ints:
        """Rows of measured points whose neighbourhoods are not known: the fastest, and in turn those of each sketch."""
        rows = self._history.fastest(len(self._history))
        rows = rows[~np.isin(self.space.keys(self._history.points.take(rows)), self._spent)]
        start = 1.0 - self._rng.random(len(self.space.sketches))
        return rows[
            diverse(
                self._history.points.take(rows),
                -np.log(self._history.seconds[rows]),
                most,
                self._shares(),
                novelty=0.0,
                shared=self.options.shared,
                start=start,
            )
        ]

    def _look(self, pool: CandidatePool, n: int) -> None:
        """Look at what lies ahead, at the centre's neighbourhood, and at those that would come next."""
        most = pool.count + n
        if self._centre is None:
            pool.fill(self._rng, most)
            return
        draft = from_history(self._codes, self._history)
        self._look_at(pool, self._ahead(), most)
        centre = self.space.batch([self._centre] if self._centre else [])
        others = self._history.points.take(self._open(PLACES))
        others = others.take(~np.isin(self.space.keys(others), self.space.keys(centre)))
        places = concat([centre, others])
        for i in range(len(places)):
            if pool.count >= most or not pool.effort:
                return
            place = places.take(slice(i, i + 1))
            around = self.space.around(place)
            around = around.take(pool.unknown(around))
            value = draft.predict(self._codes.of(around)) if draft else self._rng.random(len(around))
            if not self._look_at(pool, around.take(np.argsort(-value, kind="stable")), most):
                self._spent = np.union1d(self._spent, self.space.keys(place))

    def _look_at(self, pool: CandidatePool, batch: PointBatch, most: int) -> int:
        """Examine points, in order, until ``most`` are pooled; returns how many it did."""
        examined = start = 0
        while start < len(batch) and pool.count < most and pool.effort:
            step = most - pool.count
            examined += pool.examine(batch.take(slice(start, start + step)))
            start += step
        return examined

    def _ahead(self) -> PointBatch:
        """Points beyond the centre, in the direction in which it was reached, as far as steps have grown."""
        changed = self._changed(self._origin, self._centre)
        if not changed:
            return self.space.batch([])
        origin, at = (self.space.batch([c]) for c in (self._origin, self._centre) if c)
        knobs = self.space.sketches[int(at.sketch[0])].knobs
        codes = {j: _code(knobs[j], at.choice[0, j]) - _code(knobs[j], origin.choice[0, j]) for j in changed}
        ahead = [at]
        for _ in range(self._reach):
            choice = ahead[-1].choice.copy()
            for j, direction in codes.items():
                choice[0, j] = _onward(knobs[j], int(choice[0, j]), direction)
            ahead.append(PointBatch(at.sketch, choice))
        return concat(ahead)


def _code(knob: Knob, index: int) -> Floats32:
    code: Floats32 = knob.encode(np.array([index]))[0]
    return code


def _onward(knob: Knob, index: int, direction: Floats32) -> int:
    """The neighbouring choice that lies in a direction of the knob's numbers; itself where there is none."""
    near = knob.around(index)
    if not len(near):
        return index
    steps = knob.encode(near) - _code(knob, index)
    length = np.linalg.norm(steps, axis=1) * np.linalg.norm(direction)
    cosine = steps @ direction / np.maximum(length, 1e-9)
    best = int(np.argmax(cosine))
    return int(near[best]) if cosine[best] > ALIGNED else index
