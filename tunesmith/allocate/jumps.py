"""A belief about learning curves: how much the next rounds of a task will still save, and how sure that is. Pure.

A task's best latency falls in jumps that become rarer. In the logarithm of latency they are taken for a Poisson process
of jumps of one size s, whose rate in the k-th round is ``g r(k) / s``: ``g`` is what the task gains, ``r`` how that
fades. The belief about g is a gamma distribution, conjugate to the process, so that everything has a closed form; the
fadings that may be are weighted by their marginal likelihoods. It stands in the place of DynaTune's Monte Carlo fit of
curve families (Zhang et al., ICLR 2021), which is too slow for thousands of tasks, and shares FamilySeer's observation
(Zhang et al., arXiv 2201.00194, 2022) that tasks of a family behave alike: what the others gained is prior knowledge,
in part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tunesmith.space.base import Floats, Ints


@dataclass(frozen=True)
class JumpOptions:
    """Settings of the belief.

    Attributes:
        size: of a jump, in the logarithm of latency.
        gain: expected of a task's second round where nothing is known, likewise.
        evidence: jumps that this expectation counts for.
        shared: part of its relatives' jumps and rounds that counts as a task's own.
        fadings: exponents c of ``r(k) = (k / 2)**-c``; 0 never fades.
    """

    size: float = 0.1
    gain: float = 0.15
    evidence: float = 1.0
    shared: float = 0.25
    fadings: tuple[float, ...] = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0)


@dataclass(frozen=True)
class Belief:
    """Of some tasks: distributions of g, one for each fading.

    Attributes:
        shape, rate: of the gamma distributions, float64 [tasks, fadings].
        weight: of the fadings, float64 [tasks, fadings], sums to 1.
        options: of the model.
    """

    shape: Floats
    rate: Floats
    weight: Floats
    options: JumpOptions

    def saved(self, done: Ints, flying: Ints) -> tuple[Floats, Floats]:
        """The share of the present latency that one more round saves, and its standard deviation.

        Args:
            done: finished rounds, int64 [tasks].
            flying: rounds under way, whose savings are expected to have come by then, int64 [tasks].
        """
        most = int((done + flying).max(initial=0)) + 1
        fading = np.cumsum(_fading(most, self.options), axis=0)
        start, before, after = (fading[at - 1] for at in (np.maximum(done, 1), done + flying, done + flying + 1))
        left = self._left(before - start, 1.0) - self._left(after - start, 1.0)
        # The deviation is that of the round alone.
        once, twice = (self._left(after - before, power) for power in (1.0, 2.0))
        mean = (self.weight * left).sum(axis=1)
        first, second = ((self.weight * each).sum(axis=1) for each in (once, twice))
        return mean, np.sqrt(np.maximum(second - first**2, 0.0))

    def _left(self, rounds: Floats, power: float) -> Floats:
        """Expectation of what is left of a latency, to a power, after rounds whose rates sum to ``rounds``."""
        size = self.options.size
        out: Floats = (1.0 + rounds * -np.expm1(-power * size) / size / self.rate) ** -self.shape
        return out


def _fading(rounds: int, options: JumpOptions) -> Floats:
    """Rates relative to the second round's, float64 [rounds, fadings]. The first round makes the curve begin: its own
    gain is none."""
    k = np.arange(1, rounds + 1)[:, None]
    out: Floats = (k / 2.0) ** -np.array(options.fadings)[None, :]
    out[0] = 0.0
    return out


def belief(histories: Sequence[Sequence[float]], relatives: Ints, options: JumpOptions = JumpOptions()) -> Belief:
    """What histories tell.

    Args:
        histories: best latency of each task after each round with a valid result, in seconds, falling.
        relatives: number of each task's family, int64 [tasks].
    """
    length = max((len(history) for history in histories), default=1) or 1
    gains, real = np.zeros((len(histories), length)), np.zeros((len(histories), length))
    for at, history in enumerate(histories):
        if len(history) > 1:
            gains[at, 1:len(history)] = np.maximum(-np.diff(np.log(history)), 0.0)
            real[at, 1:len(history)] = 1.0
    fading = _fading(length, options)
    jumps, rounds = gains.sum(axis=1)[:, None] / options.size, real @ fading / options.size
    shape0 = options.evidence + options.shared * _others(jumps, relatives)
    rate0 = options.evidence / options.gain + options.shared * _others(rounds, relatives)
    # Each jump had the rate of its round; what is the same for all fadings is left out.
    seen = gains @ np.log(np.where(fading > 0, fading, 1.0)) / options.size
    likely = seen + shape0 * np.log(rate0) - (shape0 + jumps) * np.log(rate0 + rounds)
    weight = np.exp(likely - likely.max(axis=1, keepdims=True))
    return Belief(shape0 + jumps + np.zeros_like(rounds), rate0 + rounds, weight / weight.sum(axis=1, keepdims=True),
                  options)


def _others(values: Floats, relatives: Ints) -> Floats:
    """Sums over the others of each task's family, float64 as ``values``."""
    if not len(values):
        return values
    total = np.zeros((int(relatives.max()) + 1, values.shape[1]))
    np.add.at(total, relatives, values)
    out: Floats = total[relatives] - values
    return out
