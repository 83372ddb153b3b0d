"""Beam search over partial schedules by a learned value, after Steiner et al. (MLSys 2021).

A schedule is a sequence of decisions: the sketch, then knob after knob in trace order. The value of a partial sequence
is the best score that any completion of it reaches. It is learned from what is known, from the last decision to the
first: the values of whole schedules are guessed by a draft of the scores, and the value of a prefix is the best of
those of the prefixes one decision longer, some of which are tried (fitted value iteration; Gordon, 1995). A beam then
walks from the first decision to the last, and keeps the prefixes of the greatest value.

After every batch the values are learned anew, from the prefixes of everything measured.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tunesmith.search.candidate_pool import CandidatePool
from tunesmith.search.kernel_ridge import KernelRidgeSurrogate
from tunesmith.search.learning import GuessingOptions, GuessingSearcher
from tunesmith.search.shares import turns
from tunesmith.search.surrogate import Prediction
from tunesmith.space.base import Floats, Ints, PointBatch
from tunesmith.space.knobs import Knob
from tunesmith.space.space import Space, concat


@dataclass(frozen=True)
class BeamOptions(GuessingOptions):
    """Settings of the beams and of the values that lead them.

    Attributes:
        learned: known points whose prefixes the values are learned from, the best ones, over all sketches.
        random: random points that join them: a value must know bad prefixes, too.
        tried: choices of the next knob that the value of a prefix is the best of.
        width: prefixes that a beam keeps, over all sketches.
        expanded: choices of a knob that each prefix is continued with.
        seen: part of these choices that good points have; the others are their neighbours and random ones.
        ridge: noise of the values of prefixes, as a share of their variance.
        length: length scale of these values, in root mean squared distances.
        doubt: chance's part in which prefixes a beam keeps, in deviations of their values.
    """

    looks: int = 2
    learned: int = 96
    random: int = 48
    tried: int = 8
    width: int = 128
    expanded: int = 12
    seen: float = 0.4
    ridge: float = 0.03
    length: float = 1.0
    doubt: float = 1.0


class BeamSearcher(GuessingSearcher):
    """Suggests what a beam ends with; each sketch has a beam of its own, the wider the better it did."""

    def __init__(self, space: Space, seed: int = 0, options: BeamOptions = BeamOptions()) -> None:
        super().__init__(space, seed, options)
        self.options = options

    def _visit(self, pool: CandidatePool, prediction: Prediction, n: int, done: float) -> tuple[PointBatch, Floats]:
        points = self._valued(pool, prediction)[0].take(slice(0, self.options.learned))
        share = self._memory.tally.shares()
        room = np.full(len(share), self.options.width)
        wide = turns(share, room, self.options.width)
        many = turns(share, room, self.options.random)
        found = []
        for s in np.flatnonzero(wide):
            mine = concat([points.take(points.sketch == s), self._random(int(s), int(many[s]) + 1)])
            values = self._values(prediction, mine)
            found.append(self._beam(values, mine, int(wide[s])))
        ends = concat(found)
        return ends, self._guess(prediction, ends)

    def _random(self, sketch: int, n: int) -> PointBatch:
        only = np.zeros(len(self.space.sketches))
        only[sketch] = 1.0
        return self.space.sample(self._rng, n, only)

    def _values(
        self, guess: KernelRidgeSurrogate | Prediction, points: PointBatch
    ) -> list[KernelRidgeSurrogate | Prediction]:
        """The value of prefixes of each length from 1, learned from the prefixes of points of one sketch."""
        knobs = self.space.sketches[points.sketch[0]].knobs
        values = [guess]
        for depth in reversed(range(1, len(knobs))):
            prefixes = _distinct(points, depth)
            tried = self._continued(prefixes, depth, self.options.tried, points.choice[:, depth])
            own = concat([prefixes, tried])
            best = np.full(len(prefixes), -np.inf)
            row = np.concatenate([np.arange(len(prefixes)), np.arange(len(tried)) % len(prefixes)])
            np.maximum.at(best, row, values[0].predict(self._codes.of(own, depth + 1)))
            code = self._codes.of(prefixes, depth)
            values.insert(0, KernelRidgeSurrogate(code, best, (self.options.length,), (self.options.ridge,)))
        return values

    def _beam(self, values: list[KernelRidgeSurrogate | Prediction], points: PointBatch, width: int) -> PointBatch:
        """Points of one sketch that a beam of a width ends with: all continuations of its last prefixes."""
        knobs = self.space.sketches[points.sketch[0]].knobs
        beam = points.take(slice(0, 1))
        for depth in range(len(knobs)):
            if depth:
                value = values[depth - 1].predict(self._codes.of(beam, depth))
                jitter = self.options.doubt * value.std() * self._rng.gumbel(size=len(value))
                beam = beam.take(np.argsort(-value - jitter, kind="stable")[:width])
            beam = self._continued(beam, depth, self.options.expanded, points.choice[:, depth])
            beam = _distinct(beam, depth + 1)
        return beam

    def _continued(self, prefixes: PointBatch, depth: int, times: int, good: Ints) -> PointBatch:
        """Every prefix as often as there are choices of its next knob, ``times`` at most, each with one of them.

        Row i continues prefix i modulo their number. What stands right of that knob has no meaning.
        """
        knob = self.space.sketches[prefixes.sketch[0]].knobs[depth]
        times = min(times, knob.size)
        choice = np.tile(prefixes.choice, (times, 1))
        choice[:, depth] = self._choices(knob, len(prefixes), times, good).T.ravel()
        return PointBatch(np.tile(prefixes.sketch, times), choice)

    def _choices(self, knob: Knob, rows: int, times: int, good: Ints) -> Ints:
        """Choices of a knob to try, int64 [rows, times]. All of them, else those of ``good`` points, the best of which
        come first, neighbours of such and random ones."""
        if knob.size == times:
            return np.tile(np.arange(times, dtype=np.int64), (rows, 1))
        seen = round(self.options.seen * times)
        near = (times - seen) // 2
        rank = len(good) * self._rng.random(rows * (seen + near)) ** 2  # the best are taken most
        taken = good[rank.astype(np.int64)]
        taken[rows * seen :] = knob.neighbours(self._rng, taken[rows * seen :])
        drawn = knob.sample(self._rng, rows * (times - seen - near))
        return np.asarray(np.concatenate([taken, drawn]).reshape(times, rows).T)


def _distinct(points: PointBatch, depth: int) -> PointBatch:
    """The first of the points that share a prefix, in order."""
    return points.take(np.sort(np.unique(points.choice[:, :depth], axis=0, return_index=True)[1]))
