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

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tunesmith.space.base import Floats, Ints


@dataclass(frozen=True)
class JumpOptions:
    """Settings of the belief.

    Attributes:
        size: typical size of a jump, in the logarithm of latency.
        gain: expected of a task's second round where nothing is known, likewise.
        catch_up: part of what its relatives are ahead of a task, likewise, that is expected in addition.
        ahead: quantile of the relatives' speeds that a task is measured by.
        evidence: jumps that this expectation counts for.
        shared: part of its relatives' jumps and rounds that counts as a task's own.
        fadings: exponents c of ``r(k) = (k / 2)**-c``; 0 never fades.
    """

    size: float = 0.3
    gain: float = 0.02
    catch_up: float = 0.3
    ahead: float = 0.75
    evidence: float = 2.0
    shared: float = 0.1
    fadings: tuple[float, ...] = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0)


@dataclass(frozen=True)
class Posterior:
    """Distributions of g for some tasks, one for each fading.

    Attributes:
        shape, rate: parameters of the gamma distributions, float64 [tasks, fadings].
        weight: weights of the fadings, float64 [tasks, fadings]; their sum is 1.
        options: settings of the model.
    """

    shape: Floats
    rate: Floats
    weight: Floats
    options: JumpOptions

    def left(self, done: Ints, more: Ints, power: float = 1.0) -> Floats:
        """Expectation of the part of the present latency that is left, to a power, float64 [tasks].

        Args:
            done: finished rounds, int64 [tasks].
            more: rounds from then on, int64 [tasks].
        """
        size = self.options.size
        left = (1.0 + self.to_come(done, more) * -np.expm1(-power * size) / size / self.rate) ** -self.shape
        out: Floats = (self.weight * left).sum(axis=1)
        return out

    def saved(self, done: Ints, flying: Ints) -> tuple[Floats, Floats]:
        """The share of the present latency that one more round saves, and the standard deviation of that round alone.

        Args:
            done: finished rounds, int64 [tasks].
            flying: rounds under way, whose savings are expected to have come by then, int64 [tasks].
        """
        one = np.ones_like(done)
        first, second = (self.left(done + flying, one, power) for power in (1.0, 2.0))
        mean, busy = 1.0 - first, np.flatnonzero(flying)
        some, had, under_way = self.of(busy), done[busy], flying[busy]
        mean[busy] = some.left(had, under_way) - some.left(had, under_way + 1)
        return mean, np.sqrt(np.maximum(second - first**2, 0.0))

    def of(self, tasks: Ints) -> Posterior:
        """About some of the tasks, by their numbers."""
        return Posterior(self.shape[tasks], self.rate[tasks], self.weight[tasks], self.options)

    def to_come(self, done: Ints, more: Ints) -> Floats:
        """Rates of ``more`` rounds after ``done`` ones, summed up: float64 [tasks, fadings]."""
        rates = _rates(int((done + more).max(initial=1)), self.options)
        out: Floats = rates[np.maximum(done + more, 1) - 1] - rates[np.maximum(done, 1) - 1]
        return out


def _rates(rounds: int, options: JumpOptions) -> Floats:
    """Rates of the first rounds, summed up, relative to the second round's: float64 [rounds, fadings]. The first round
    makes the curve begin: its own gain is none."""
    k = np.arange(1, rounds + 1)[:, None]
    each: Floats = (k / 2.0) ** -np.array(options.fadings)[None, :]
    each[0] = 0.0
    return np.cumsum(each, axis=0)


@dataclass(frozen=True)
class Curves:
    """What a belief needs of learning curves, by task.

    Attributes:
        rounds: with a valid latency, int64 [tasks].
        last: present latency in seconds, float64 [tasks], infinite without a valid one.
        gained: sum of what rounds took off the logarithm of latency, float64 [tasks].
        late: the same, each times the logarithm of half its round's number: what tells one fading from another.
    """

    rounds: Ints
    last: Floats
    gained: Floats
    late: Floats

    @classmethod
    def of(cls, histories: Sequence[Sequence[float]]) -> Curves:
        """From best latencies after each round in seconds, falling, infinite before the first valid result."""
        n = len(histories)
        lengths = np.fromiter(map(len, histories), np.int64, n)
        flat = np.fromiter(itertools.chain.from_iterable(histories), np.float64, int(lengths.sum()))
        task, valid = np.repeat(np.arange(n), lengths), np.isfinite(flat)
        task, flat = task[valid], flat[valid]
        rounds = np.bincount(task, minlength=n).astype(np.int64)
        ends = np.cumsum(rounds)
        number = np.arange(1, len(flat) + 1) - (ends - rounds)[task]
        known, log = rounds > 0, np.log(flat)
        last = np.full(n, np.inf)
        last[known] = flat[ends[known] - 1]
        gains = np.where(number > 1, np.maximum(-np.diff(log, prepend=0.0), 0.0), 0.0)
        return cls(rounds, last, _sums(task, gains, n), _sums(task, gains * np.log(number / 2.0), n))


def _sums(task: Ints, values: Floats, tasks: int) -> Floats:
    """Sums of what belongs to each task, float64 [tasks]."""
    return np.bincount(task, weights=values, minlength=tasks).astype(np.float64)


def behind(latency: Floats, flops: Floats, relatives: Ints, quantile: float) -> Floats:
    """How far tasks are behind their relatives, in the logarithm of FLOP/s; 0 where they are not, float64 [tasks].

    Ansor's objective expects the same of similar tasks (Zheng et al., OSDI 2020, section 6.2).

    Args:
        latency: present, in seconds, float64 [tasks], infinite without a valid one.
        flops: operations of one run, float64 [tasks]; 0 where unknown.
        relatives: number of each task's family, int64 [tasks].
        quantile: quantile of the relatives' speeds that counts.
    """
    known = np.isfinite(latency) & (flops > 0)
    speed = np.full(len(latency), -np.inf)
    speed[known] = np.log(flops[known]) - np.log(latency[known])
    out = np.zeros(len(latency))
    if known.any():
        out[known] = np.maximum(quantiles(speed[known], relatives[known], quantile) - speed[known], 0.0)
    return out


def quantiles(values: Floats, groups: Ints, quantile: float) -> Floats:
    """The quantile of each value's group, as ``np.quantile`` has it, float64 [values].

    Args:
        values: float64 [values], one at least.
        groups: number of each value's group, int64 [values].
    """
    order = np.lexsort((values, groups))
    sorted_, size = values[order], np.bincount(groups)
    at = np.cumsum(size) - size + np.maximum(size - 1, 0) * quantile
    low = np.minimum(at.astype(np.int64), len(values) - 1)
    part, high = at - low, np.minimum(low + 1, len(values) - 1)
    # The value above may be another group's: then it has no part.
    out: Floats = np.where(part > 0, sorted_[low] + part * (sorted_[high] - sorted_[low]), sorted_[low])[groups]
    return out


def posterior_of(
    curves: Curves, relatives: Ints, options: JumpOptions = JumpOptions(), flops: Floats | None = None
) -> Posterior:
    """What curves tell.

    Args:
        relatives: number of each task's family, int64 [tasks].
        flops: operations of one run, float64 [tasks]. Without them, no task is behind another.
    """
    gain = np.full((len(relatives), 1), options.gain)
    if flops is not None:
        gain[:, 0] += options.catch_up * behind(curves.last, flops, relatives, options.ahead)
    rates = _rates(int(curves.rounds.max(initial=1)), options)
    jumps = curves.gained[:, None] / options.size
    rounds = rates[np.maximum(curves.rounds, 1) - 1] / options.size
    shape0 = options.evidence + options.shared * _others(jumps, relatives)
    rate0 = options.evidence / gain + options.shared * _others(rounds, relatives)
    shape, rate = shape0 + jumps, rate0 + rounds
    # Each jump had the rate of its round; what is the same for all fadings is left out.
    seen = -np.array(options.fadings) * curves.late[:, None] / options.size
    likely = seen + shape0 * np.log(rate0) - shape * np.log(rate)
    weight = np.exp(likely - likely.max(axis=1, keepdims=True))
    return Posterior(shape + np.zeros_like(rate), rate, weight / weight.sum(axis=1, keepdims=True), options)


def _others(values: Floats, relatives: Ints) -> Floats:
    """Sums over the others of each task's family, float64 as ``values``."""
    total = np.stack([np.bincount(relatives, weights=column) for column in values.T], axis=1)
    out: Floats = total[relatives] - values
    return out
