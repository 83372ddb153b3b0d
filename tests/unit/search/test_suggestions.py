from __future__ import annotations

import numpy as np

from tunesmith.search.genetic import GeneticSearcher
from tunesmith.search.random import RandomSearcher
from tunesmith.space.knobs import Categorical, ComputeLocation, Knob, PerfectTile
from tunesmith.space.rescale import rescaled
from tunesmith.testing.synthetic import SyntheticTask, matmul_space
from tunesmith.types import Decision


def test_suggestions_have_a_quarter_of_each_batch_until_they_are_used_up() -> None:
    task = SyntheticTask(matmul_space(), invalid=0.3)
    batch, valid = task.resolve(task.space.sample(np.random.default_rng(0), 15))
    points = task.space.candidates(batch)
    good = [point for point, ok in zip(points, valid, strict=True) if ok]
    assert 8 < len(good) <= 12
    searcher = GeneticSearcher(task.space, seed=0)
    searcher.suggest(points)
    first, second, third = (searcher.ask(16, score=task.validity) for _ in range(3))
    assert first[:4] == good[:4]
    assert second[:4] == good[4:8]
    assert set(third) & set(points) == set(good[8:])
    assert not set(good) & set(first[4:] + second[4:])


def test_what_was_suggested_is_a_parent_of_the_same_ask() -> None:
    task = SyntheticTask(matmul_space(), seed=3)
    searcher, blind = (GeneticSearcher(task.space, seed=0) for _ in range(2))
    searcher.suggest([task.best])
    measured, untold = (
        task.latency(task.space.batch(each.ask(16, score=task.score)[1:])) for each in (searcher, blind)
    )
    assert np.median(measured) < np.median(untold)


def test_a_baseline_takes_no_suggestions() -> None:
    task = SyntheticTask(matmul_space())
    measured, untold = (RandomSearcher(task.space, seed=0) for _ in range(2))
    measured.suggest([task.best])
    assert measured.ask(16) == untold.ask(16)


def test_decisions_are_rescaled_to_the_nearest_ones() -> None:
    old: tuple[Knob, ...] = (PerfectTile(1024, 4), PerfectTile(64, 2), Categorical(4), ComputeLocation(-1, 5))
    new: tuple[Knob, ...] = (PerfectTile(512, 4), PerfectTile(100, 2), Categorical(4), ComputeLocation(-2, 3))
    decisions: tuple[Decision, ...] = ((4, 4, 4, 16), (8, 8), 3, 5)
    assert rescaled(decisions, old, old) == decisions
    assert rescaled(decisions, old, new) == ((2, 4, 4, 16), (10, 10), 3, 3)
    assert rescaled(decisions, old, (*new[:2], Categorical(3), new[3])) is None
    assert rescaled(decisions, old, new[:3]) is None
    assert rescaled(((4, 4, 4, 16),), old[:1], (PerfectTile(1024, 3),)) is None
    narrow = PerfectTile(512, 2, max_innermost=16)
    assert rescaled(((8, 64),), (PerfectTile(512, 2),), (narrow,)) == ((32, 16),)
