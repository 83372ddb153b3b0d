from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tunesmith.search.genetic import GeneticSearcher
from tunesmith.search.random import RandomSearcher
from tunesmith.space.base import Sketch
from tunesmith.space.knobs import Categorical, ComputeLocation, PerfectTile
from tunesmith.space.space import Space
from tunesmith.testing import score
from tunesmith.testing.replay import Recording, Subset, replay
from tunesmith.testing.spaces import SpaceConformance
from tunesmith.types import FailureKind

LATENCIES = (
    st.lists(st.one_of(st.floats(1e-6, 1.0), st.just(math.inf)), min_size=2, max_size=40)
    .map(np.array)
    .filter(lambda values: np.isfinite(values).any())
)


def subset_space() -> Space:
    tile, other = PerfectTile(64, 3), PerfectTile(60, 2)
    every = tuple(range(0, tile.size, 3))
    return Space(
        [
            Sketch("a", (Subset(tile, every), Subset(other, (0, 1, 3, 5)), Subset(Categorical(4), (0, 3)))),
            Sketch("b", (Subset(tile, every[:2]), Subset(ComputeLocation(-2, 5), (0, 1, 2)))),
        ]
    )


class TestSubsets(SpaceConformance):
    def space(self) -> Space:
        return subset_space()


def recording(seed: int = 0, spread: float = 0.0) -> Recording:
    space = subset_space()
    rng = np.random.default_rng(seed)
    code = space.encode(space.at(np.arange(space.size)))
    seconds = 1e-3 * np.exp(code @ rng.normal(size=code.shape[1]) * 0.4)
    failure = np.full(space.size, "", dtype="<U12")
    failure[rng.random(space.size) < 0.1] = FailureKind.INVALID.value
    failure[3], failure[5], failure[8] = "crash", "", ""
    alias = np.arange(space.size)
    alias[8], seconds[8] = 5, seconds[5]
    seconds = np.where(failure == "", seconds, np.inf)
    return Recording(
        "toy",
        space,
        alias,
        seconds,
        np.full(space.size, spread),
        failure,
        np.full(space.size, 0.1),
        0.5,
        2.0,
        {"device": "none"},
    )


def test_a_subset_keeps_meaning_and_refuses_the_rest() -> None:
    base = PerfectTile(12, 2)
    knob = Subset(base, (1, 2, 4))
    assert knob.decisions(np.arange(3)) == base.decisions(np.array([1, 2, 4]))
    assert Subset.from_json(knob.to_json()) == knob
    with pytest.raises(ValueError, match="leaves out"):
        knob.find(base.decisions(np.array([0])))
    for bad in ((), (2, 1), (1, 1), (0, 99), (-1, 0)):
        with pytest.raises(ValueError):
            Subset(base, bad)


def test_neighbours_of_a_subset_are_the_nearest() -> None:
    knob = Subset(ComputeLocation(0, 40), (0, 1, 2, 3, 4, 40))
    moved = knob.neighbours(np.random.default_rng(0), np.zeros(200, dtype=np.int64))
    assert set(moved.tolist()) == {1, 2, 3, 4}


@settings(max_examples=60, deadline=None)
@given(LATENCIES)
def test_random_curve_falls_from_the_mean_to_the_optimum(latency: np.ndarray) -> None:
    curve = score.random_curve(latency, len(latency))
    values = score.penalised(latency)
    assert curve[0] == pytest.approx(values.mean())
    assert curve[-1] == pytest.approx(values.min())
    assert (np.diff(curve) <= 1e-12).all()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(1e-6, 1.0), min_size=2, max_size=40).map(np.array), st.data())
def test_random_curve_is_the_sum_over_ranks(latency: np.ndarray, data: st.DataObject) -> None:
    n = len(latency)
    k = data.draw(st.integers(1, n))
    ranked = np.sort(latency)
    odds = [math.comb(n - i, k - 1) / math.comb(n, k) for i in range(1, n + 1)]
    assert score.random_curve(latency, k)[-1] == pytest.approx(float(np.dot(ranked, odds)), rel=1e-9)


def test_random_curve_is_the_mean_of_random_searches() -> None:
    rng = np.random.default_rng(0)
    latency = rng.lognormal(-7, 1, size=60)
    latency[::7] = np.inf
    values = score.penalised(latency)
    runs = np.stack([np.minimum.accumulate(rng.permutation(values))[:30] for _ in range(4000)])
    assert score.random_curve(latency, 30) == pytest.approx(runs.mean(axis=0), rel=0.08)


def test_budget_is_the_first_that_reaches_the_goal() -> None:
    latency = np.random.default_rng(1).lognormal(-7, 1, size=200)
    draws = score.budget(latency)
    curve = score.random_curve(latency, len(latency))
    goal = np.exp(0.1 * np.log(np.median(latency)) + 0.9 * np.log(latency.min()))
    assert curve[draws - 1] <= goal < curve[draws - 2]
    assert score.budget(np.full(10, 2.0)) == 1


@settings(max_examples=60, deadline=None)
@given(LATENCIES, st.data())
def test_score_lies_between_its_anchors(latency: np.ndarray, data: st.DataObject) -> None:
    budget = data.draw(st.integers(1, len(latency)))
    random = score.random_curve(latency, budget)
    best = np.full((1, budget), latency.min())
    assert score.score(best, latency) == pytest.approx(1.0)
    room = random - latency.min() > 1e-9 * latency.min()
    assert score.score(random[None], latency)[0][room] == pytest.approx(0.0, abs=1e-9)
    nothing = score.score(np.full((1, budget), np.inf), latency)[0]
    assert (nothing[room] <= 1e-9).all()


@settings(max_examples=30, deadline=None)
@given(st.floats(1e-3, 1e3), st.integers(0, 100))
def test_score_knows_no_unit(factor: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    latency = rng.lognormal(-7, 1, size=50)
    found = np.minimum.accumulate(rng.permutation(latency))[None, :20]
    assert score.score(found * factor, latency * factor) == pytest.approx(score.score(found, latency))


def test_nothing_valid_has_no_score() -> None:
    with pytest.raises(ValueError, match="optimum"):
        score.random_curve(np.full(4, np.inf), 2)
    with pytest.raises(ValueError, match="budget"):
        score.random_curve(np.ones(4), 5)


def test_bootstrap_covers_the_mean_and_narrows() -> None:
    rng = np.random.default_rng(0)
    few, many = rng.normal(size=(5, 8)), rng.normal(size=(5, 200))
    wide, narrow = score.bootstrap(few), score.bootstrap(many)
    assert wide.low < wide.mean < wide.high
    assert narrow.high - narrow.low < wide.high - wide.low
    assert score.bootstrap(few) == wide
    assert score.bootstrap(np.ones((3, 4))) == score.Interval(1.0, 1.0, 1.0)


def test_reach_counts_evaluations() -> None:
    found = np.array([[4.0, 2.0, 1.0], [4.0, 3.0, 3.0]])
    assert score.reach(found, 1.0, 0.5).tolist() == [2.0, math.inf]


def test_a_recording_survives_its_file(tmp_path: Path) -> None:
    made = recording(spread=0.25)
    made.save(tmp_path / "toy.npz")
    repeated = Recording.load(tmp_path / "toy.npz")
    assert repeated.space.fingerprint == made.space.fingerprint
    assert repeated.seconds == pytest.approx(made.seconds, rel=1e-6)
    assert (repeated.failure == made.failure).all()
    assert (repeated.alias == made.alias).all()
    assert (repeated.points == made.points).all()
    assert (repeated.name, repeated.untuned, repeated.weight, repeated.facts) == ("toy", 0.5, 2.0, {"device": "none"})
    assert [p.name for p in tmp_path.iterdir()] == ["toy.npz"]


def test_a_recording_must_be_consistent() -> None:
    made = recording()
    with pytest.raises(ValueError, match="a failure, or neither"):
        dataclasses.replace(made, seconds=np.ones(made.space.size))
    with pytest.raises(ValueError, match="do not cover"):
        dataclasses.replace(made, alias=made.alias[:-1])


def test_measurements_repeat_and_tell_failures() -> None:
    made = recording(spread=0.05)
    everything = made.space.candidates(made.space.at(np.arange(made.space.size)))
    results = made.measure(everything, seed=3)
    assert results == made.measure(everything, seed=3)
    assert results != made.measure(everything, seed=4)
    assert [r.failure.value if r.failure else "" for r in results] == made.failure[made.alias].tolist()
    assert results[8].samples == results[5].samples
    ok = [i for i, r in enumerate(results) if r.ok]
    assert [results[i].latency for i in ok] == pytest.approx(made.seconds[ok], rel=0.3)


def test_an_alias_resolves_to_its_canonical_point() -> None:
    made = recording()
    batch, valid = made.resolve(made.space.at(np.array([5, 8, 3])))
    assert made.space.keys(batch).tolist() == [5, 5, 3]
    assert valid.tolist() == [True, True, True]
    assert 8 not in made.points


@pytest.mark.parametrize("make", [RandomSearcher, GeneticSearcher])
def test_a_searcher_finds_the_recorded_optimum_when_it_may_see_everything(make: type[RandomSearcher]) -> None:
    made = recording()
    budget = len(made.points) + 5
    curve = replay(make(made.space, seed=1), made, budget=budget, batch=7)
    assert curve[-1] == made.optimum
    assert (np.diff(curve) <= 0).all()
    assert (curve == replay(make(made.space, seed=1), made, budget=budget, batch=7)).all()
