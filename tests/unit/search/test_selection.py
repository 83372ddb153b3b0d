from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tunesmith.search.genetic import GeneticSearcher
from tunesmith.search.score_reliability import WATCHED, ScoreReliability
from tunesmith.search.selection import Mix, select, uncertain, unlike
from tunesmith.space.base import PointBatch, Scores
from tunesmith.testing.simulated import measure
from tunesmith.testing.synthetic import SyntheticTask, matmul_space


def test_little_trust_takes_more_of_what_teaches() -> None:
    mix = Mix(uncertain=0.25, unlike=0.5)
    assert mix.counts(16, trust=0.0) == (4, 8)
    assert mix.counts(16, trust=0.5) == (2, 4)
    assert mix.counts(16, trust=1.0) == (0, 0)


def test_a_batch_has_the_best_the_least_sure_and_unlike_ones() -> None:
    rows = np.array([9, 3, 5, 7, 1, 0, 2, 4, 6, 8])  # best first
    std, codes = np.zeros(10), np.zeros((10, 2))
    std[[5, 8]] = 0.1, 9.0  # row 8 is among the worst, so nobody needs to know
    codes[[1, 7]] = (0.5, 0.5), (4.0, 4.0)
    assert select(rows, std, codes, 4, (0, 0)).tolist() == [9, 3, 5, 7]
    assert select(rows, std, codes, 4, (1, 1)).tolist() == [9, 3, 5, 7]
    assert select(rows, std, codes, 3, (1, 1)).tolist() == [9, 5, 7]
    backwards = select(rows, std, codes, 3, (1, 0), best=lambda left, n: np.arange(len(left))[::-1][:n])
    assert backwards.tolist() == [8, 6, 5]


def test_without_deviations_the_best_take_the_place_of_unsure_ones() -> None:
    assert not len(uncertain(np.zeros(8), 3))
    rows = np.arange(8)
    assert select(rows, np.zeros(8), np.zeros((8, 1)), 4, (2, 0)).tolist() == [0, 1, 2, 3]
    assert len(select(rows, np.ones(8), np.zeros((8, 1)), 20, (2, 2))) == 8


def test_unlike_points_spread_over_the_space() -> None:
    line = np.array([0.0, 0.1, 0.2, 10.0, 5.0, 9.9, 0.3, 10.1])[:, None]
    codes = np.repeat(line, 2, axis=0)
    picked = unlike(codes[:1], codes[2:], 2)
    assert codes[2:][picked, 0].tolist() == [10.0, 5.0]
    assert not len(unlike(codes[:1], codes[:0], 2))


def _foreseen(agreement: int, start: float = 0.5) -> ScoreReliability:
    trust, rng = ScoreReliability(start, weight=8), np.random.default_rng(0)
    for ask in range(6):
        keys, seconds = np.arange(16) + 100 * ask, rng.random(16)
        trust.expect(keys, -agreement * seconds + 10.0 * ask)
        trust.take(keys, seconds.tolist())
    return trust


def test_trust_is_whether_the_order_of_each_ask_came_true() -> None:
    assert ScoreReliability(0.5, weight=8).value == 0.5
    assert _foreseen(1).value == pytest.approx((8 * 0.5 + WATCHED) / (8 + WATCHED))
    assert _foreseen(-1).value == 0.0
    assert _foreseen(0).value < 0.1


def test_trust_waits_for_measurements_and_continues_from_its_state() -> None:
    trust, twin = ScoreReliability(0.5, 8), ScoreReliability(0.5, 8)
    trust.expect(np.array([2**62, 5, 6]), np.array([3.0, 2.0, 1.0]))
    trust.expect(np.array([7, 8]), np.array([1.0, 2.0]))
    twin.restore(json.loads(json.dumps(trust.state())))
    for each in (trust, twin):
        assert each.value == 0.5
        each.take(np.array([99, 2**62, 8]), [1.0, 0.1, 0.3])
        assert each.value == 0.5, "one measurement of an ask has no order"
        each.take(np.array([5, 7]), [0.2, np.inf])
        assert each.value == pytest.approx((8 * 0.5 + 4) / 12)
    assert twin.state() == trust.state()
    for ask in range(100):
        trust.expect(np.arange(16) + 1000 + 16 * ask, np.ones(16))
    assert len(json.dumps(trust.state())) < 15_000


def test_genetic_search_finds_out_what_its_scores_are_worth() -> None:
    values = []
    for noise in (0.0, 1e3):
        task = SyntheticTask(matmul_space(), seed=1)
        searcher, rng = GeneticSearcher(task.space, seed=0), np.random.default_rng(0)

        def score(batch: PointBatch, task: SyntheticTask = task, noise: float = noise, rng: Any = rng) -> Scores:
            exact = task.score(batch)
            return replace(exact, mean=exact.mean + noise * rng.random(len(batch)))

        for _ in range(4):
            searcher.tell(measure(task, searcher.ask(16, score=score)))
        values.append(searcher.trust)
    assert values[0] > 0.8
    assert values[1] < 0.4
