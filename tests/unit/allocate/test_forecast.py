from __future__ import annotations

import math

import numpy as np
import pytest

from tunesmith.allocate.base import TaskView
from tunesmith.allocate.forecast import LEVEL, MAX_ROUNDS_PER_TASK, _first, _greedy, forecast
from tunesmith.allocate.jumps import Curves, JumpOptions, posterior_of
from tunesmith.allocate.table import Table

OPTIONS = JumpOptions(size=0.2, gain=0.3, evidence=2.0, fadings=(1.0,), shared=0.0)


def task(number: int, history: tuple[float, ...], **changes: object) -> TaskView:
    view = TaskView(number, weight=2.0, flops=1e9, family=f"f{number}", history=history)
    return view._replace(**changes)  # type: ignore[arg-type]


def test_without_rounds_everything_stays() -> None:
    tasks = [task(1, (3.0, 2.0)), task(2, (1.0,), weight=5.0), task(3, (), untuned=4.0), task(4, (9.0,), untuned=1.0)]
    found = forecast(tasks, 0)
    assert found is not None
    assert (found.low, found.expected, found.high) == pytest.approx((2 * 2 + 5 + 2 * 4 + 2,) * 3)


def test_what_cannot_be_told_is_not_told() -> None:
    assert forecast([], 3) is None
    assert forecast([task(1, (1.0,)), task(2, (math.inf,))], 3) is None


def test_more_rounds_promise_more_and_what_is_exhausted_promises_nothing() -> None:
    tasks = [task(1, (3.0, 2.0)), task(2, (4.0, 3.0))]
    ends = [forecast(tasks, rounds) for rounds in (1, 4, 16, 10 * MAX_ROUNDS_PER_TASK)]
    expected = [end.expected for end in ends if end is not None]
    assert expected == sorted(expected, reverse=True)
    assert all(end is not None and end.low < end.expected < end.high for end in ends)
    done = [t._replace(exhausted=True) for t in tasks]
    found = forecast(done, 16)
    assert found is not None
    assert found.low == found.high == pytest.approx(10.0)
    same = forecast(tasks, 4)
    assert same == ends[1]


def test_the_interval_holds_what_comes_of_the_process_that_is_believed() -> None:
    """Curves drawn from the prior, three known rounds, five more of each: all get equal shares, so none is chosen."""
    rng, known, more, models, size = np.random.default_rng(0), 3, 5, 200, 4
    gain = rng.gamma(OPTIONS.evidence, OPTIONS.gain / OPTIONS.evidence, size=(models, size))
    rates = (np.arange(2, known + more + 1) / 2.0) ** -1.0
    jumps = rng.poisson(gain[:, :, None] * rates / OPTIONS.size).cumsum(axis=2)
    curves = np.exp(-OPTIONS.size * np.concatenate([np.zeros((models, size, 1)), jumps], axis=2))
    inside = []
    for curve in curves:
        lone = [forecast([task(i, tuple(c[:known].tolist()))], more, OPTIONS) for i, c in enumerate(curve)]
        inside += [end is not None and end.low <= 2 * c[-1] <= end.high for end, c in zip(lone, curve, strict=True)]
    # Latencies are steps of a fifth, so that the interval holds somewhat more than it has to.
    assert LEVEL - 0.03 <= np.mean(inside) <= 0.99


def test_the_first_values_are_those_of_a_stable_sort() -> None:
    rng = np.random.default_rng(0)
    for size in (0, 1, 7, 200):
        values = rng.integers(0, 5, size).astype(np.float64)
        for count in (0, 1, size // 2, size - 1, size, size + 3):
            wanted = np.sort(np.argsort(values, kind="stable")[: max(0, count)])
            assert _first(values, count).tolist() == wanted.tolist()


def test_rounds_go_where_the_best_of_all_that_are_weighed_are() -> None:
    rng = np.random.default_rng(0)
    tasks = [task(i, tuple(np.sort(rng.uniform(1.0, 3.0, 1 + i % 5))[::-1].tolist()), family="f") for i in range(60)]
    table = Table.of(tasks)
    curves = Curves.of(table.histories)
    believed, worth = posterior_of(curves, table.family, OPTIONS), curves.last * table.weight
    for rounds in (1, 30, 200):
        left = np.stack([believed.left(curves.rounds, np.full(60, k)) for k in range(rounds + 1)])
        gains = (-np.diff(left, axis=0) * worth).ravel()
        best = np.argsort(-gains, kind="stable")[:rounds]
        wanted = np.bincount(best % 60, minlength=60)
        assert _greedy(believed, curves.rounds, worth, rounds).tolist() == wanted.tolist()
