from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks.replay.reduce import best_rows, choose, reduce, share
from tunesmith.space.knobs import Categorical, PerfectTile
from tunesmith.testing.replay import Subset
from tunesmith.testing.synthetic import SyntheticTask, matmul_space, tiny_space


@pytest.mark.parametrize("sizes", [[1, 500, 161, 4], [2, 2, 2], [], [7]])
@pytest.mark.parametrize("points", [1, 10, 160])
def test_shares_fit_and_cannot_grow(sizes: list[int], points: int) -> None:
    kept = share(sizes, points)
    assert all(1 <= k <= size for k, size in zip(kept, sizes, strict=True))
    assert math.prod(kept) <= points
    for i, size in enumerate(sizes):
        grown = [k + (j == i) for j, k in enumerate(kept)]
        assert kept[i] == size or math.prod(grown) > points


def test_larger_knobs_keep_more() -> None:
    kept = share([161, 7, 161, 2], 160)
    assert kept[0] >= kept[1] >= kept[3]


def test_choices_hold_the_best_and_its_neighbours() -> None:
    knob = PerfectTile(256, 4)
    for seed in range(20):
        chosen = choose(knob, 17, 5, np.random.default_rng(seed))
        assert len(chosen) == 5
        assert 17 in chosen
        others = knob.values(np.array([c for c in chosen if c != 17])) / knob.values(np.array([17]))
        moves = np.abs(np.log2(others)).sum(axis=1)
        assert (moves == 2).sum() >= 2, "two primes of neighbours differ by one move"
    assert choose(Categorical(3), 1, 3, np.random.default_rng(0)) == (0, 1, 2)


def test_a_reduced_space_holds_the_best_pilot_point_of_the_fastest_sketches() -> None:
    space = matmul_space(64, 64, 64)
    task = SyntheticTask(space)
    pilot, _ = task.resolve(space.sample(np.random.default_rng(1), 40))
    seconds = task.latency(pilot)
    seconds[3] = np.inf
    small = reduce(space, pilot, seconds, 120, np.random.default_rng(2))
    assert small.size <= 120
    assert small.size > 40
    fastest = space.candidates(pilot)[int(np.argmin(seconds))]
    assert small.known([fastest]) == [True]
    points = small.candidates(small.at(np.arange(small.size)))
    assert all(space.known(points))
    assert all(isinstance(knob, Subset) for sketch in small.sketches for knob in sketch.knobs)


def test_best_rows_are_of_distinct_sketches_and_valid() -> None:
    space = tiny_space()
    batch = space.at(np.arange(space.size))
    seconds = np.linspace(2, 1, space.size)
    seconds[batch.sketch == 1] = np.inf
    assert best_rows(batch, seconds).tolist() == [int(np.flatnonzero(batch.sketch == 0)[-1])]
    with pytest.raises(ValueError, match="valid"):
        reduce(space, batch, np.full(space.size, np.inf), 10, np.random.default_rng(0))


def test_no_pilot_no_space() -> None:
    space = tiny_space()
    with pytest.raises(ValueError, match="valid"):
        reduce(space, space.sample(np.random.default_rng(0), 0), np.zeros(0), 9, np.random.default_rng(0))
