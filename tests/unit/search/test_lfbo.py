from __future__ import annotations

import numpy as np

from tunesmith.search.lfbo import LfboOptions, LfboSearcher
from tunesmith.search.random import RandomSearcher
from tunesmith.space.base import Floats, PointBatch
from tunesmith.space.space import Space
from tunesmith.testing.simulated import measure, tune
from tunesmith.testing.synthetic import SyntheticTask, matmul_space
from tunesmith.types import Measurement

QUICK = LfboOptions(trees=24)


def one_sketch() -> Space:
    return Space(matmul_space().sketches[:1])


def test_it_beats_chance_by_far() -> None:
    mine, chance = [], []
    for seed in range(5):
        task = SyntheticTask(one_sketch(), seed=seed)
        for out, searcher in (
            (mine, LfboSearcher(task.space, seed, QUICK)),
            (chance, RandomSearcher(task.space, seed)),
        ):
            out.append(tune(searcher, task, rounds=5, noise=0.01)[-1])
    assert np.median(mine) < 0.75 * np.median(chance)


def test_it_moves_the_knobs_that_matter() -> None:
    space = one_sketch()
    points = space.sample(np.random.default_rng(0), 128)
    inner = space.sketches[0].knobs[1].values(points.choice[:, 1])[:, -1]
    measured = [Measurement(c, (1e-3 / n,)) for c, n in zip(space.candidates(points), inner.tolist(), strict=True)]
    asked = list[Floats]()

    class Watched(LfboSearcher):
        def _asked(self, points: PointBatch) -> Floats:
            asked.append(super()._asked(points))
            return asked[-1]

    searcher = Watched(space, 0, QUICK)
    searcher.tell(measured)
    searcher.ask(8)
    assert (asked[0].argmax(axis=1) == 1).mean() > 0.8


def test_odds_say_which_knob_moves() -> None:
    space = matmul_space()
    points = space.sample(np.random.default_rng(0), 100)
    odds = np.zeros((100, space.width))
    odds[:, 2] = 1.0
    moved = space.neighbours(np.random.default_rng(1), points, odds)
    assert np.unique(np.nonzero(moved.choice != points.choice)[1]).tolist() == [2]
    without = space.neighbours(np.random.default_rng(1), points, np.zeros((100, space.width)))
    assert (without.choice == space.neighbours(np.random.default_rng(1), points).choice).all()


def test_a_batch_shares_few_leaves() -> None:
    task = SyntheticTask(one_sketch(), seed=1)
    measured = measure(task, task.space.candidates(task.space.sample(np.random.default_rng(0), 96)))
    similar = []
    for likeness in (0.0, 4.0):
        searcher = LfboSearcher(task.space, 0, LfboOptions(trees=24, likeness=likeness, epsilon=0.0))
        searcher.tell(measured)
        batch = searcher.space.batch(searcher.ask(12))
        leaves = searcher._forest.apply(searcher._codes.of(batch))
        similar.append(float((leaves[:, None] == leaves[None]).mean()))
    assert similar[1] < 0.8 * similar[0]
