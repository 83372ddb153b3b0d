from __future__ import annotations

import json

import numpy as np
import pytest

from tunesmith.search.construction import APART, construct, ranks, sift
from tunesmith.search.genetic import GeneticSearcher
from tunesmith.search.random import RandomSearcher
from tunesmith.space.base import Floats, PointBatch
from tunesmith.testing.simulated import measure
from tunesmith.testing.synthetic import SyntheticTask, matmul_space, tiny_space


def exact(task: SyntheticTask):
    def prior(batch: PointBatch) -> Floats:
        return task.latency(task.resolve(batch)[0])

    return prior


def test_a_good_prior_constructs_good_points_that_differ() -> None:
    task = SyntheticTask(matmul_space(), seed=2)
    made = construct(task.space, exact(task), np.random.default_rng(0), 10)
    assert len(made) == 10
    assert len(np.unique(task.space.keys(made))) == 10
    assert task.latency(made)[0] < 1.3 * task.best_latency
    assert len(np.unique(made.sketch)) == len(task.space.sketches)
    for a in range(10):
        for b in range(a):
            if made.sketch[a] == made.sketch[b]:
                assert (made.choice[a] != made.choice[b]).sum() >= APART


def test_every_sketch_has_a_turn_before_any_has_two() -> None:
    task = SyntheticTask(matmul_space(), seed=2)
    count = len(task.space.sketches)

    def unfair(batch: PointBatch) -> Floats:
        return exact(task)(batch) * np.where(batch.sketch == 0, 1.0, 2.5)

    made = construct(task.space, unfair, np.random.default_rng(0), 10)
    assert sorted(made.sketch[:count]) == list(range(count))
    assert (made.sketch[count:] == 0).any(), "then the best come first again"

    def hopeless(batch: PointBatch) -> Floats:
        return exact(task)(batch) * np.where(batch.sketch == 0, 1.0, 1000.0)

    made = construct(task.space, hopeless, np.random.default_rng(0), 6)
    assert (made.sketch[:4] == 0).all(), "one that is expected to be far behind waits"


def test_where_little_is_known_of_a_sketch_the_unknown_does_not_stand_before_it() -> None:
    task = SyntheticTask(matmul_space(), seed=2)

    def little(batch: PointBatch) -> Floats:
        rare = task.space.keys(batch) % 20 == 0
        return np.where((batch.sketch == 0) | rare, exact(task)(batch) * np.where(batch.sketch == 0, 1.0, 3.0), np.nan)

    made = construct(task.space, little, np.random.default_rng(0), 12)
    assert np.isfinite(little(made)).all()
    assert made.sketch[0] == 0
    assert len(np.unique(made.sketch)) == len(task.space.sketches)


def test_a_sketch_of_which_nothing_is_known_has_its_turn_after_the_best_one() -> None:
    task = SyntheticTask(matmul_space(), seed=2)
    strange = len(task.space.sketches) - 1

    def prior(batch: PointBatch) -> Floats:
        return np.where(batch.sketch == 0, np.nan, exact(task)(batch) * np.where(batch.sketch == strange, 1.0, 10.0))

    made = construct(task.space, prior, np.random.default_rng(0), 8)
    assert made.sketch[:2].tolist() == [strange, 0]


def test_a_small_space_is_taken_whole() -> None:
    task = SyntheticTask(tiny_space())
    made = construct(task.space, exact(task), np.random.default_rng(0), task.space.size + 5)
    assert len(np.unique(task.space.keys(made))) == task.space.size
    assert task.latency(task.resolve(made)[0])[0] == pytest.approx(task.best_latency)


def test_unknown_points_rank_in_the_middle_and_hopeless_ones_are_left_out() -> None:
    space = matmul_space()
    batch = space.sample(np.random.default_rng(0), 8)
    found = np.array([3.0, np.nan, 1.0, np.inf, 2.0, 5.0, np.nan, 4.0])
    assert ranks(found).tolist() == [3, 3, 1, np.inf, 2, 5, 3, 4]
    assert (sift(lambda _: found, batch, 2).choice == batch.take(np.array([2, 4])).choice).all()
    assert len(construct(space, lambda b: np.full(len(b), np.inf), np.random.default_rng(0), 4)) == 0


def best(searcher_asks: list, task: SyntheticTask) -> float:
    return float(task.latency(task.space.batch(searcher_asks)).min())


def test_the_first_batch_follows_the_prior_and_later_ones_the_measurements() -> None:
    task = SyntheticTask(matmul_space(), seed=4, invalid=0.3)
    with_it, without = GeneticSearcher(task.space, seed=0), GeneticSearcher(task.space, seed=0)
    first = with_it.ask(16, score=task.validity, prior=exact(task))
    blind = without.ask(16, score=task.validity)
    assert len(set(first)) == 16
    assert best(first, task) < min(1.5 * task.best_latency, best(blind, task))
    second = with_it.ask(16, first, score=task.validity, prior=exact(task))
    assert not set(first) & set(second)
    with_it.tell(measure(task, first))
    third = with_it.ask(16, second, score=task.score, prior=exact(task))
    assert len(third) == 16
    assert not set(third) & {*first, *second}


def test_hopeless_points_are_never_examined() -> None:
    task = SyntheticTask(matmul_space(), seed=4)
    looked: list[PointBatch] = []

    def odd(batch: PointBatch) -> Floats:
        return np.where(batch.choice[:, 0] % 2 == 1, np.inf, task.latency(task.resolve(batch)[0]))

    def score(batch: PointBatch):
        looked.append(batch)
        return task.score(batch)

    searcher = GeneticSearcher(task.space, seed=1)
    for _ in range(3):
        asked = searcher.ask(16, score=score, prior=odd)
        assert len(asked) == 16
        searcher.tell(measure(task, asked))
    assert all((batch.choice[:, 0] % 2 == 0).all() for batch in looked)


def test_a_searcher_with_a_prior_repeats_and_continues_from_its_state() -> None:
    task = SyntheticTask(matmul_space(), seed=4, invalid=0.2)
    one, other = GeneticSearcher(task.space, seed=1), GeneticSearcher(task.space, seed=1)
    first = one.ask(8, score=task.score, prior=exact(task))
    assert other.ask(8, score=task.score, prior=exact(task)) == first
    twin = GeneticSearcher(task.space, seed=9)
    twin.restore(json.loads(json.dumps(one.state())))
    assert twin.ask(8, score=task.score, prior=exact(task)) == one.ask(8, score=task.score, prior=exact(task))


def test_with_a_prior_a_space_is_still_exhausted() -> None:
    task = SyntheticTask(tiny_space())
    searcher, found = GeneticSearcher(task.space, seed=0), set()
    while batch := searcher.ask(4, score=task.validity, prior=exact(task)):
        found |= set(batch)
        searcher.tell(measure(task, batch))
    assert found == task.valid_points()


def test_random_search_takes_no_notice() -> None:
    task = SyntheticTask(matmul_space())
    one, other = RandomSearcher(task.space, seed=3), RandomSearcher(task.space, seed=3)
    assert one.ask(16, score=task.validity) == other.ask(16, score=task.validity, prior=exact(task))
