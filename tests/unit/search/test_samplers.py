"""Searchers that choose what to label."""

from __future__ import annotations

import numpy as np
import pytest

from tunesmith.search.facilities import representatives
from tunesmith.search.guided import GuidedOptions, GuidedSearcher
from tunesmith.search.random import RandomSearcher
from tunesmith.search.representative import RepresentativeOptions, RepresentativeSearcher
from tunesmith.search.uniform import UniformSearcher
from tunesmith.space.base import PointBatch, Scores, Sketch
from tunesmith.space.knobs import Categorical
from tunesmith.space.space import Space
from tunesmith.testing.simulated import measure
from tunesmith.testing.synthetic import SyntheticTask, matmul_space

pytestmark = pytest.mark.parallel


def test_representatives_lie_in_the_middle_of_groups_that_have_none() -> None:
    groups = np.array([0.0, 1.0, 2.0, 50.0, 51.0, 52.0, 53.0, 54.0, 99.0])[:, None]
    assert groups[representatives(groups, groups[:0], 3), 0].tolist() == [51.0, 1.0, 99.0]
    assert groups[representatives(groups, groups[4:5], 2), 0].tolist() == [1.0, 99.0]
    unsure = np.where(groups[:, 0] == 99.0, 50.0, 1.0)
    assert groups[representatives(groups, groups[4:5], 1, unsure), 0].tolist() == [99.0]
    assert not len(representatives(groups[:0], groups, 3))
    assert sorted(representatives(groups, groups[:0], 99).tolist()) == list(range(9))


def test_greedy_choices_are_the_best_ones_step_by_step() -> None:
    codes = np.random.default_rng(0).normal(size=(60, 3))
    chosen = representatives(codes, codes[:0], 6)
    points = codes / codes.std(axis=0)
    apart = np.linalg.norm(points[:, None] - points[None], axis=2)
    near = np.full(60, apart.max())
    for point in chosen:
        left = np.minimum(near[None], apart).sum(axis=1)
        assert left[point] == pytest.approx(left.min(), rel=1e-5)
        near = np.minimum(near, apart[point])


def test_representative_samples_cover_the_space_better_than_random_ones() -> None:
    task = SyntheticTask(matmul_space(64, 64, 64), invalid=0.3)
    searcher = RepresentativeSearcher(task.space, 1, RepresentativeOptions(pool=512))
    chosen = [c for _ in range(2) for c in searcher.ask(12, score=task.validity)]
    codes = searcher._codes  # what near means
    rng = np.random.default_rng(2)
    field = codes.of(task.space.sample(rng, 400))

    def apart(points: PointBatch) -> float:
        return float(np.linalg.norm(field[:, None] - codes.of(points)[None], axis=2).min(axis=1).mean())

    drawn = [apart(task.space.sample(rng, len(chosen))) for _ in range(8)]
    assert apart(task.space.batch(chosen)) < min(drawn)


def test_a_model_that_is_unsure_of_a_sketch_has_it_labelled() -> None:
    task = SyntheticTask(matmul_space(64, 64, 64))
    doubted = len(task.space.sketches) - 1

    def score(batch: PointBatch) -> Scores:
        found = task.validity(batch)
        return Scores(found.batch, found.mean, np.where(batch.sketch == doubted, 1.0, 1e-6), found.valid)

    counts = []
    for scores in (task.validity, score):
        searcher = RepresentativeSearcher(task.space, 3, RepresentativeOptions(pool=256))
        counts.append(sum(task.space.batch([c]).sketch[0] == doubted for c in searcher.ask(16, score=scores)))
    assert counts[1] > counts[0]


def test_guided_samples_are_mostly_neighbours_of_the_fastest() -> None:
    task = SyntheticTask(matmul_space(64, 64, 64))
    searcher = GuidedSearcher(task.space, 0, GuidedOptions(champions=2, jumps=0.25, onward=0.0))
    first = measure(task, searcher.ask(32, score=task.validity))
    searcher.tell(first)
    best = sorted(first, key=lambda m: m.latency)[:2]
    parents = task.space.batch([m.candidate for m in best])
    found = task.space.batch(searcher.ask(32, score=task.validity))
    knobs_apart = (found.choice[:, None] != parents.choice[None]).sum(axis=2)
    near = ((knobs_apart <= 1) & (found.sketch[:, None] == parents.sketch[None])).any(axis=1)
    assert 14 <= near.sum() <= 31


def test_uniform_samples_do_not_favour_what_has_many_spellings() -> None:
    space = Space([Sketch("a", (Categorical(256), Categorical(16)))])

    def clamped(batch: PointBatch) -> Scores:
        """Programs with an even first choice have sixteen spellings, the others one each."""
        choice = batch.choice.copy()
        choice[choice[:, 0] % 2 == 0, 1] = 0
        zero = np.zeros(len(batch))
        return Scores(PointBatch(batch.sketch, choice), zero, zero, np.ones(len(batch), dtype=np.bool_))

    programs = 128 + 128 * 16
    even = [
        space.batch(kind(space, seed=0).ask(400, score=clamped)).choice[:, 0] % 2 == 0
        for kind in (UniformSearcher, RandomSearcher)
    ]
    assert even[0].mean() == pytest.approx(128 / programs, abs=0.03)
    assert even[1].mean() > 0.2
