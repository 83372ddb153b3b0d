"""Two priors that share what is constructed."""

from __future__ import annotations

import numpy as np

from tunesmith.search.candidate_pool import CandidatePool
from tunesmith.search.construction import construct, sift
from tunesmith.search.memory import Memory
from tunesmith.search.turns import Turns
from tunesmith.space.base import Floats, PointBatch
from tunesmith.testing.synthetic import SyntheticTask, matmul_space, tiny_space


def test_each_has_every_other_place() -> None:
    task = SyntheticTask(matmul_space(), seed=2)

    def exact(batch: PointBatch) -> Floats:
        return task.latency(task.resolve(batch)[0])

    def coarse(batch: PointBatch) -> Floats:
        return np.exp2(3 * np.ceil(np.log2(exact(batch)) / 3))

    def backwards(batch: PointBatch) -> Floats:
        return 1.0 / exact(batch)

    alone = construct(task.space, coarse, np.random.default_rng(0), 4)
    for second, better in ((exact, True), (backwards, False)):
        made = construct(task.space, Turns(coarse, second), np.random.default_rng(0), 8)
        assert len(np.unique(task.space.keys(made))) == 8
        assert (task.space.keys(made)[::2] == task.space.keys(alone)).all(), "one that is wrong spoils half of them"
        seconds = task.latency(made)
        assert (seconds[1] < seconds[0]) == better


def test_two_that_agree_are_one() -> None:
    space = tiny_space()
    batch = space.at(np.arange(space.size))

    def prior(points: PointBatch) -> Floats:
        return 1.0 + space.keys(points)

    both = construct(space, Turns(prior, prior), np.random.default_rng(0), 5)
    assert len(np.unique(space.keys(both))) == 5
    assert (np.argsort(Turns(prior, prior)(batch)) == np.arange(space.size)).all()


def test_what_the_first_one_refuses_stays_refused() -> None:
    space = tiny_space()
    batch = space.at(np.arange(space.size))
    first = np.arange(1.0, space.size + 1)
    first[0], first[1] = np.inf, np.nan
    second = np.arange(space.size, 0.0, -1.0)
    second[-1] = np.nan
    turns = Turns(lambda points: first[: len(points)], lambda points: second[: len(points)])
    found = turns(batch)
    assert np.isinf(found[0])
    assert np.isnan(found[1])
    assert np.isfinite(found[2:]).all()
    assert (np.sort(found[2:]) > 0).all()
    kept = space.keys(sift(turns, batch, 2))
    assert set(kept.tolist()) == {2, space.size - 2}, "the best of each that is known"


def test_what_is_hopeless_the_first_says_alone() -> None:
    space = matmul_space()
    batch = space.sample(np.random.default_rng(0), 8)

    def first(points: PointBatch) -> Floats:
        return np.where(np.arange(len(points)) < 2, np.inf, 1.0)

    def second(points: PointBatch) -> Floats:
        raise AssertionError("it refuses nothing")

    pool = CandidatePool(Memory(space, 4), np.zeros(0, dtype=np.int64), None, 64, Turns(first, second))
    assert pool.examine(batch) == 6
