from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tunesmith.space.base import PointBatch, Sketch
from tunesmith.space.knobs import Categorical, ComputeLocation, PerfectTile
from tunesmith.space.space import LINEAR_LIMIT, Space, concat, first_of_each
from tunesmith.testing.synthetic import SyntheticTask, huge_space, matmul_space, tiny_space
from tunesmith.types import Candidate

a_knob = (
    st.builds(PerfectTile, st.integers(1, 64), st.integers(1, 4), st.just(16))
    | st.builds(Categorical, st.integers(1, 5))
    | st.builds(ComputeLocation, st.just(-1), st.integers(-1, 6))
)
spaces = st.lists(st.lists(a_knob, max_size=4), min_size=1, max_size=3).map(
    lambda sketches: Space([Sketch(f"s{i}", tuple(knobs)) for i, knobs in enumerate(sketches)])
)


@given(spaces, st.integers(0, 2**31))
@settings(deadline=None, max_examples=100)
def test_points_survive_every_spelling(space: Space, seed: int) -> None:
    batch = space.sample(np.random.default_rng(seed), 30)
    for repeated in (space.at(space.keys(batch)), space.batch(space.candidates(batch))):
        assert (repeated.sketch == batch.sketch).all()
        assert (repeated.choice == batch.choice).all()


@given(spaces)
@settings(deadline=None, max_examples=50)
def test_numbering_is_a_bijection(space: Space) -> None:
    assert space.size == sum(math.prod(k.size for k in s.knobs) for s in space.sketches)
    keys = np.arange(min(space.size, 3000))
    batch = space.at(keys)
    assert (space.keys(batch) == keys).all()
    assert len(set(space.candidates(batch))) == len(keys)


def test_sizes_beyond_64_bits() -> None:
    space = huge_space()
    assert space.size > 10**30 > LINEAR_LIMIT
    keys = space.keys(space.sample(np.random.default_rng(0), 20_000))
    assert len(np.unique(keys)) == 20_000
    with pytest.raises(ValueError):
        space.at(keys)


def test_keys_are_the_same_in_every_process() -> None:
    batch = huge_space().sample(np.random.default_rng(0), 3)
    fixed = PointBatch(np.zeros(1, dtype=np.int64), np.arange(10, dtype=np.int64).reshape(1, -1))
    assert huge_space().keys(batch).tolist() == huge_space().keys(batch).tolist()
    assert huge_space().keys(fixed).tolist() == [5329902856950382936]


def test_every_sketch_is_sampled() -> None:
    space = Space([Sketch("point", ()), Sketch("large", tuple(PerfectTile(1024, 4) for _ in range(4)))])
    counts = np.bincount(space.sample(np.random.default_rng(0), 2000).sketch)
    assert counts[0] > 10
    assert counts[1] > counts[0]


def test_bad_spaces_are_refused() -> None:
    with pytest.raises(ValueError):
        Space([])
    with pytest.raises(ValueError):
        Space([Sketch("a", ()), Sketch("a", (Categorical(2),))])


def test_fingerprints_tell_spaces_apart() -> None:
    assert tiny_space().fingerprint == tiny_space().fingerprint
    assert len({s.fingerprint for s in (tiny_space(), matmul_space(), matmul_space(512))}) == 3


def test_candidates_are_plain_decisions() -> None:
    space = Space([Sketch("a", (PerfectTile(8, 2), Categorical(3), ComputeLocation(-1, 1)))])
    candidate = Candidate("a", ((4, 2), 1, -1))
    assert space.candidates(space.batch([candidate])) == [candidate]
    assert all(type(v) is int for v in (*space.candidates(space.batch([candidate]))[0].decisions[0],))


def test_concat_and_first_of_each() -> None:
    space = tiny_space()
    batch = space.sample(np.random.default_rng(0), 5)
    double = concat([batch, batch])
    assert len(double) == 10
    first = first_of_each(space.keys(double))
    assert not first[5:].any()
    assert first_of_each(np.array([3, 1, 3, 1, 2])).tolist() == [True, True, False, False, True]


def test_synthetic_optimum_is_known_and_resolution_is_idempotent() -> None:
    for seed in range(5):
        task = SyntheticTask(tiny_space(), seed=seed, invalid=0.4)
        everything = task.space.at(np.arange(task.space.size))
        canonical, valid = task.resolve(everything)
        repeated, still = task.resolve(canonical)
        assert (repeated.choice == canonical.choice).all()
        assert (still == valid).all()
        latency = task.latency(canonical.take(valid))
        assert latency.min() == pytest.approx(task.best_latency)
        assert task.space.candidates(canonical.take(valid))[int(latency.argmin())] == task.best
