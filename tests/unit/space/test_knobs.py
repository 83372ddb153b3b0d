from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tunesmith.space.factors import MAX_EXTENT, compositions, divisors, prime_factors
from tunesmith.space.knobs import Categorical, ComputeLocation, Knob, PerfectTile, knob_from_json

tiles = st.builds(PerfectTile, st.integers(1, 5000), st.integers(1, 5), st.integers(1, 128))
large_tiles = st.builds(
    PerfectTile, st.integers(2**20, 2**24) | st.sampled_from([2**20, 3**12, 2**16 * 15]), st.integers(1, 5), st.just(64)
)
locations = st.integers(-2, 30).flatmap(lambda low: st.builds(ComputeLocation, st.just(low), st.integers(low, 40)))
knobs = tiles | large_tiles | locations | st.builds(Categorical, st.integers(1, 40))


def brute_force(extent: int, parts: int, max_innermost: int) -> set[tuple[int, ...]]:
    outer = [d for d in range(1, extent + 1) if extent % d == 0]
    splits = {c for c in itertools.product(outer, repeat=parts) if math.prod(c) == extent}
    return {s for s in splits if parts == 1 or s[-1] <= max_innermost}


@pytest.mark.parametrize(
    ("extent", "parts", "limit"),
    [
        (1, 1, 1),
        (1, 4, 64),
        (7, 2, 3),
        (12, 3, 4),
        (36, 3, 6),
        (64, 4, 16),
        (30, 4, 5),
        (97, 3, 64),
        (60, 1, 16),
    ],
)
def test_a_tiles_choices_are_all_ordered_factorisations(extent: int, parts: int, limit: int) -> None:
    knob = PerfectTile(extent, parts, limit)
    choices = knob.decisions(np.arange(knob.size))
    assert len(choices) == knob.size
    assert set(choices) == brute_force(extent, parts, limit)


@given(knobs, st.integers(0, 2**31))
@settings(deadline=None, max_examples=150)
def test_choices_values_and_decisions_are_one(knob: Knob, seed: int) -> None:
    index = knob.sample(np.random.default_rng(seed), 20)
    assert ((index >= 0) & (index < knob.size)).all()
    assert (knob.index(knob.values(index)) == index).all()
    decisions = json.loads(json.dumps(knob.decisions(index)))
    assert (knob.find([tuple(d) if isinstance(d, list) else d for d in decisions]) == index).all()
    code = knob.encode(index)
    assert code.shape == (20, knob.width)
    assert code.dtype == np.float32
    assert knob_from_json(json.loads(json.dumps(knob.to_json()))) == knob


@given(knobs, st.integers(0, 2**31))
@settings(deadline=None, max_examples=150)
def test_a_neighbour_is_another_choice(knob: Knob, seed: int) -> None:
    rng = np.random.default_rng(seed)
    index = knob.sample(rng, 20)
    moved = knob.neighbours(rng, index)
    assert ((moved >= 0) & (moved < knob.size)).all()
    assert ((moved != index) == (knob.size > 1)).all()


@given(tiles | large_tiles, st.integers(0, 2**31))
@settings(deadline=None, max_examples=150)
def test_a_tiles_neighbour_moves_one_prime(knob: PerfectTile, seed: int) -> None:
    rng = np.random.default_rng(seed)
    index = knob.sample(rng, 20)
    before, after = knob.values(index), knob.values(knob.neighbours(rng, index))
    assert (after.prod(axis=1) == knob.extent).all()
    assert knob.parts == 1 or (after[:, -1] <= knob.max_innermost).all()
    if knob.size > 1:
        for a, b in zip(before.tolist(), after.tolist(), strict=True):
            changed = [(x, y) for x, y in zip(a, b, strict=True) if x != y]
            assert len(changed) == 2
            ratio = sorted(max(x, y) // min(x, y) for x, y in changed)
            assert ratio[0] == ratio[1]
            assert prime_factors(ratio[0]) == {ratio[0]: 1}


def test_neighbours_reach_every_tile() -> None:
    knob = PerfectTile(48, 3, 6)
    reached, frontier = {0}, np.array([0])
    rng = np.random.default_rng(0)
    for _ in range(200):
        frontier = knob.neighbours(rng, np.array(sorted(reached)))
        reached |= set(frontier.tolist())
    assert reached == set(range(knob.size))


def test_large_tiles_are_numbered_without_a_table() -> None:
    knob = PerfectTile(2**20 * 3**10, 5, 64)
    assert knob.size > 10**6
    ends = np.array([0, knob.size - 1])
    assert (knob.index(knob.values(ends)) == ends).all()


@pytest.mark.parametrize(
    "bad",
    [
        lambda: PerfectTile(0, 2),
        lambda: PerfectTile(8, 0),
        lambda: PerfectTile(8, 2, 0),
        lambda: PerfectTile(MAX_EXTENT + 1, 2),
        lambda: Categorical(0),
        lambda: ComputeLocation(3, 2),
        lambda: knob_from_json({"kind": "no such knob"}),
        lambda: PerfectTile(8, 2).find([(3, 3)]),
        lambda: PerfectTile(8, 2).find([(1, 2, 4)]),
        lambda: PerfectTile(8, 2).find([(-2, -4)]),
        lambda: PerfectTile(8, 2).find([5]),
        lambda: PerfectTile(128, 2, 16).find([(1, 128)]),
        lambda: Categorical(3).find([3]),
        lambda: Categorical(3).find([(1,)]),
        lambda: ComputeLocation(-1, 4).find([-2]),
    ],
)
def test_nonsense_is_refused(bad: object) -> None:
    with pytest.raises(ValueError):
        bad()  # type: ignore[operator]


@given(st.integers(1, 10**6))
def test_prime_factors_multiply_back(n: int) -> None:
    factors = prime_factors(n)
    assert math.prod(p**e for p, e in factors.items()) == n
    assert all(prime_factors(p) == {p: 1} for p in factors)
    assert divisors(factors, 50) == [d for d in range(1, 51) if n % d == 0]


@given(st.integers(0, 8), st.integers(1, 5))
def test_compositions_are_complete(total: int, parts: int) -> None:
    rows = compositions(total, parts)
    assert rows.shape == (math.comb(total + parts - 1, parts - 1), parts)
    assert (rows >= 0).all()
    assert (rows.sum(axis=1) == total).all()
    assert len(np.unique(rows, axis=0)) == len(rows)
