from __future__ import annotations

import json

import numpy as np
import pytest

from tunesmith.search.droplet import DropletOptions, DropletSearcher
from tunesmith.search.random import RandomSearcher
from tunesmith.search.welch import Sample, p_value
from tunesmith.space.base import Sketch
from tunesmith.space.knobs import ComputeLocation, PerfectTile
from tunesmith.space.space import Space
from tunesmith.testing.simulated import tune
from tunesmith.testing.synthetic import SyntheticTask, matmul_space
from tunesmith.types import Candidate, Measurement


def one_sketch() -> Space:
    return Space(matmul_space().sketches[:1])


def line() -> Space:
    return Space([Sketch("line", (ComputeLocation(0, 40), ComputeLocation(0, 40), PerfectTile(64, 2)))])


def point(*decisions: int | tuple[int, ...]) -> Candidate:
    return Candidate("line", decisions)


def test_it_beats_chance() -> None:
    reached: dict[type, list[float]] = {DropletSearcher: [], RandomSearcher: []}
    for seed in range(5):
        task = SyntheticTask(one_sketch(), seed=seed)
        for cls, found in reached.items():
            found.append(tune(cls(task.space, seed=seed), task, rounds=8, noise=0.01)[-1] / task.best_latency)
    assert np.median(reached[DropletSearcher]) < 0.6 * np.median(reached[RandomSearcher])


def test_the_neighbourhood_of_the_best_comes_first() -> None:
    space = line()
    searcher = DropletSearcher(space, 0, DropletOptions(epsilon=0.0, leap=0.0))
    searcher.tell([Measurement(point(20, 20, (8, 8)), (1.0,)), Measurement(point(3, 30, (64, 1)), (2.0,))])
    near = {
        point(19, 20, (8, 8)),
        point(21, 20, (8, 8)),
        point(20, 19, (8, 8)),
        point(20, 21, (8, 8)),
        point(20, 20, (16, 4)),
        point(20, 20, (4, 16)),
    }
    assert set(searcher.ask(6)) == near
    other = {
        point(2, 30, (64, 1)),
        point(4, 30, (64, 1)),
        point(3, 29, (64, 1)),
        point(3, 31, (64, 1)),
        point(3, 30, (32, 2)),
    }
    assert set(searcher.ask(5)) == other, "then that of the next best"


def test_a_direction_that_pays_is_followed_by_growing_steps() -> None:
    searcher = DropletSearcher(line(), 0, DropletOptions(epsilon=0.0, leap=0.0))
    ahead = []
    for place, seconds in ((10, 1.0), (11, 0.8), (12, 0.6), (14, 0.4)):
        searcher.tell([Measurement(point(place, 5, (8, 8)), (seconds,))])
        ahead.append(searcher.space.candidates(searcher._ahead())[1:])
    assert ahead == [
        [],
        [point(12, 5, (8, 8))],
        [point(p, 5, (8, 8)) for p in (13, 14)],
        [point(p, 5, (8, 8)) for p in (15, 16, 17, 18)],
    ]
    assert set(ahead[-1]) < set(searcher.ask(8))
    searcher.tell([Measurement(point(14, 6, (8, 8)), (0.2,))])
    assert searcher.space.candidates(searcher._ahead())[1:] == [point(14, 7, (8, 8))]


def test_noise_does_not_move_the_centre() -> None:
    searcher = DropletSearcher(line(), 0)
    centre, near = point(10, 5, (8, 8)), point(11, 5, (8, 8))
    searcher.tell([Measurement(centre, (1.0, 1.1, 0.9))])
    searcher.tell([Measurement(near, (0.95, 1.06, 0.9))])
    assert searcher._centre == centre
    twin = DropletSearcher(line(), 1)
    twin.restore(json.loads(json.dumps(searcher.state())))
    for each in (searcher, twin):
        each.tell([Measurement(near, (0.8, 0.81, 0.79))])
        assert each._centre == near


def test_welchs_test() -> None:
    """Against tables of Student's distribution: 4.303 and 2.776 leave a fortieth with 2 and 4 degrees of freedom."""
    even = Sample(0.0, 3.0, 3)
    assert p_value(Sample(-2.776 * 2**0.5, 3.0, 3), even, 0.0) == pytest.approx(0.025, abs=0.003)
    assert p_value(Sample(-4.303, 3.0, 3), Sample(0.0, 0.0, 9), 0.0) == pytest.approx(0.025, abs=0.003)
    assert p_value(Sample(2.776 * 2**0.5, 3.0, 3), even, 0.0) == pytest.approx(0.975, abs=0.003)
    assert p_value(Sample.of([1.0]), Sample.of([1.03]), 0.03) == pytest.approx(0.243, abs=0.003)
    assert [p_value(Sample.of([a]), Sample.of([1.0]), 0.0) for a in (0.9, 1.0)] == [0.0, 1.0]
