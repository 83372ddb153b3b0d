from __future__ import annotations

import numpy as np

from tunesmith.search.annealing import AnnealingOptions, AnnealingSearcher
from tunesmith.search.diverse import diverse
from tunesmith.search.random import RandomSearcher
from tunesmith.space.base import Floats, PointBatch
from tunesmith.space.space import Space
from tunesmith.testing.simulated import tune
from tunesmith.testing.synthetic import SyntheticTask, matmul_space


def one_sketch() -> Space:
    return Space(matmul_space().sketches[:1])


class Known:
    """A guess that is right: minus the logarithm of the latency."""

    def __init__(self, task: SyntheticTask) -> None:
        self._task = task

    def guess(self, prediction: object, batch: PointBatch) -> Floats:
        return -np.log(self._task.latency(batch))


def annealed(hot: float, cold: float, seed: int) -> tuple[Floats, Floats]:
    """Latencies over the optimum of walkers that a right guess leads: at the start, and at the end of an ask."""
    task = SyntheticTask(one_sketch(), seed=seed)
    searcher = AnnealingSearcher(task.space, seed, AnnealingOptions(hot=hot, cold=cold))
    searcher._guess = Known(task).guess  # type: ignore[method-assign, assignment]
    searcher._walkers = task.space.sample(np.random.default_rng(seed), 96)
    before = task.latency(searcher._walkers)
    searcher._anneal(None, 0.0, 1.0, 60)  # type: ignore[arg-type]
    return before / task.best_latency, task.latency(searcher._walkers) / task.best_latency


def test_walkers_go_where_it_is_better_unless_it_is_hot() -> None:
    for seed in range(3):
        before, after = annealed(0.5, 0.01, seed)
        assert np.median(after) < 0.5 * np.median(before)
        before, after = annealed(1e6, 1e6, seed)
        assert np.median(after) > 0.8 * np.median(before)


def test_without_scores_it_beats_chance() -> None:
    found: dict[type, list[float]] = {AnnealingSearcher: [], RandomSearcher: []}
    for seed in range(5):
        task = SyntheticTask(one_sketch(), seed=seed)
        for cls, reached in found.items():
            reached.append(tune(cls(task.space, seed=seed), task, rounds=8, noise=0.01)[-1] / task.best_latency)
    assert np.median(found[AnnealingSearcher]) < 0.6 * np.median(found[RandomSearcher])


def test_walkers_go_on_where_they_ended() -> None:
    task = SyntheticTask(one_sketch())
    searcher = AnnealingSearcher(task.space, 0, AnnealingOptions(renewed=0.25))
    searcher.ask(16, score=task.score)
    before = {tuple(row) for row in searcher._walkers.choice.tolist()}
    searcher.options = AnnealingOptions(renewed=0.25, steps=0)
    searcher.ask(16, score=task.score)
    kept = before & {tuple(row) for row in searcher._walkers.choice.tolist()}
    assert 0.5 * len(before) <= len(kept) < len(before)


def test_points_that_differ_are_worth_more() -> None:
    points = PointBatch(np.zeros(4, dtype=np.int64), np.array([[0, 0], [0, 0], [0, 1], [2, 2]]))
    value, share, start = np.array([1.0, 0.99, 0.98, 0.5]), np.ones(1), np.ones(1)

    def chosen(novelty: float) -> list[int]:
        return diverse(points, value, 3, share, novelty=novelty, shared=0.5, start=start).tolist()

    assert chosen(0.0) == [0, 1, 2]
    assert chosen(3.0) == [0, 3, 2]
    sketches = PointBatch(np.array([0, 0, 0, 1]), points.choice)
    assert diverse(sketches, value, 2, np.array([0.5, 0.5]), novelty=0.0, shared=0.5, start=start).tolist() == [0, 3]
