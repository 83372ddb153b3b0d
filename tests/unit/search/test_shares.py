from __future__ import annotations

import json

import numpy as np
import pytest

from tunesmith.search.candidate_pool import CandidatePool
from tunesmith.search.construction import construct, sift
from tunesmith.search.genetic import GeneticSearcher
from tunesmith.search.memory import Memory
from tunesmith.search.shares import EXPLORED, Tally, divide, turns
from tunesmith.space.base import Floats, PointBatch, Sketch
from tunesmith.space.knobs import PerfectTile
from tunesmith.space.space import Space
from tunesmith.testing.simulated import measure
from tunesmith.testing.synthetic import SyntheticTask, matmul_space
from tunesmith.types import Candidate, FailureKind, Measurement


def tally(*found: tuple[int, float]) -> Tally:
    made = Tally(len(found))
    for sketch, (tried, best) in enumerate(found):
        made.take(np.full(tried, sketch), [best * (1 + 0.05 * i) for i in range(tried)])
    return made


def test_nothing_measured_is_shared_alike() -> None:
    assert tally((0, 1.0), (0, 1.0), (0, 1.0), (0, 1.0)).shares().tolist() == pytest.approx([0.25] * 4)


def test_what_is_half_again_as_slow_gets_next_to_nothing() -> None:
    share = tally((8, 1.0), (8, 1.5), (8, 1.05), (8, 4.0)).shares()
    assert share.sum() == pytest.approx(1.0)
    assert share[1] < 0.03
    assert 0.25 < share[2] < share[0]
    assert share[3] == pytest.approx(EXPLORED / 4, rel=1e-3)


def test_few_trials_are_believed_less_than_many() -> None:
    few, many = tally((8, 1.0), (1, 1.3)).shares(), tally((8, 1.0), (20, 1.3)).shares()
    assert many[1] < 0.5 * few[1]
    assert tally((8, 1.0), (0, 1.0)).shares()[1] == pytest.approx(0.5)


def test_failures_count_as_trials() -> None:
    inf = float("inf")
    once, often = tally((8, 1.0), (1, inf)).shares(), tally((8, 1.0), (8, inf)).shares()
    assert often[1] < 0.05 < once[1] < 0.4
    assert tally((3, inf), (3, inf)).shares().tolist() == pytest.approx([0.5, 0.5])


def test_a_sketch_that_is_getting_better_fast_keeps_its_turns() -> None:
    """Two that are equally far behind, of which one has three alike and the other best points far apart."""
    made = Tally(3)
    made.take(np.repeat([0, 1, 2], 3), [1.0, 1.01, 1.02, 1.6, 1.61, 1.62, 1.6, 2.4, 3.6])
    still, moving = made.shares()[1:]
    assert still < 0.05
    assert moving > 5 * still


def test_turns_are_in_proportion_and_none_is_lost() -> None:
    share = np.array([0.7, 0.2, 0.1])
    plenty = np.array([99, 99, 99])
    assert turns(share, plenty, 10).tolist() == [7, 2, 1]
    assert turns(share, np.array([3, 99, 0]), 10).tolist() == [3, 7, 0]
    assert turns(share, np.array([1, 1, 0]), 10).tolist() == [1, 1, 0]
    rng = np.random.default_rng(0)
    mean = np.mean([turns(share, plenty, 4, 1.0 - rng.random(3)) for _ in range(400)], axis=0)
    assert mean.tolist() == pytest.approx([2.8, 0.8, 0.4], abs=0.3)


def test_the_best_of_each_sketch_are_taken_in_order() -> None:
    sketch = np.array([1, 1, 0, 1, 0, 0])
    assert divide(np.array([0.5, 0.5]), sketch, 4).tolist() == [0, 1, 2, 4]
    assert divide(np.array([0.99, 0.01]), sketch, 2).tolist() == [2, 4]
    assert divide(np.array([0.5, 0.5]), sketch, 99).tolist() == [0, 1, 2, 3, 4, 5]


def test_a_memory_tells_sketches_apart_and_is_restored() -> None:
    space = matmul_space()
    memory = Memory(space, 4)
    a, b = (space.candidates(space.sample(np.random.default_rng(0), 20, np.eye(2)[s])) for s in range(2))
    memory.tell(
        [
            Measurement(a[0], (3.0, 1.0, 2.0)),
            Measurement(a[1], (5.0,)),
            Measurement(b[0], failure=FailureKind.CRASH),
            Measurement(Candidate(None), (1e-9,)),
        ]
    )
    assert memory.tally.tried.tolist() == [2, 1]
    assert memory.tally.best[:, 0].tolist() == [2.0, float("inf")]
    repeated = Memory(space, 4)
    repeated.restore(json.loads(json.dumps(memory.state())))
    assert repeated.tally.shares().tolist() == memory.tally.shares().tolist()
    old = {**memory.state(), "version": 1}
    with pytest.raises(ValueError, match="version"):
        repeated.restore(old)


def unequal() -> tuple[SyntheticTask, Space]:
    space = Space([Sketch(name, (PerfectTile(512, 3), PerfectTile(512, 3))) for name in "abc"])
    return SyntheticTask(space, seed=1), space


def slow(task: SyntheticTask, candidates: list[Candidate]) -> list[Measurement]:
    """As the task has it, but sketch ``c`` is five times as slow."""
    return [
        Measurement(m.candidate, tuple(s * (5.0 if m.candidate.sketch == "c" else 1.0) for s in m.samples))
        for m in measure(task, candidates)
    ]


@pytest.mark.parametrize("mode", ["score", "validity", None])
def test_a_search_turns_away_from_a_sketch_that_is_behind(mode: str | None) -> None:
    """Even where the score function thinks well of it."""
    task, space = unequal()
    score = getattr(task, mode) if mode else None
    searcher = GeneticSearcher(space, seed=0)
    first = searcher.ask(24, score=score)
    assert min(sum(c.sketch == name for c in first) for name in "abc") >= 4
    searcher.tell(slow(task, first))
    later = []
    for _ in range(4):
        later += searcher.ask(16, score=score)
        searcher.tell(slow(task, later[-16:]))
    assert sum(c.sketch == "c" for c in later) <= 6


def test_draws_follow_the_shares_in_large_and_small_spaces() -> None:
    for extent, n in ((512, 60), (8, 20)):
        space = Space([Sketch(name, (PerfectTile(extent, 3), PerfectTile(extent, 3))) for name in "ab"])
        pool = CandidatePool(Memory(space, 0), np.zeros(0, dtype=np.int64), None, 500, None, np.array([0.95, 0.05]))
        pool.fill(np.random.default_rng(0), n)
        assert (pool.points.sketch == 1).sum() < 0.25 * n


def test_what_a_prior_prefers_is_taken_sketch_by_sketch() -> None:
    space = matmul_space()
    batch = space.sample(np.random.default_rng(0), 100)

    def partial(batch: PointBatch) -> Floats:
        return np.where(batch.sketch == 0, 1.0, 2.0)

    assert (sift(partial, batch, 10).sketch == 0).all()
    assert (sift(partial, batch, 10, np.array([0.5, 0.5])).sketch == 1).sum() == 5


def test_a_construction_takes_sketches_by_what_the_prior_expects_of_them() -> None:
    space = Space([Sketch(name, (PerfectTile(512, 3), PerfectTile(512, 3))) for name in "abc"])

    def prior(batch: PointBatch) -> Floats:
        return np.array([1.0, 1.2, 60.0])[batch.sketch] * (1.0 + 0.01 * batch.choice.sum(axis=1))

    counts = np.bincount(construct(space, prior, np.random.default_rng(0), 16).sketch, minlength=3)
    assert min(counts[:2]) >= 5
    assert counts[2] <= 3

    def silent(batch: PointBatch) -> Floats:
        return np.where(batch.sketch == 2, np.nan, prior(batch))

    counts = np.bincount(construct(space, silent, np.random.default_rng(0), 16).sketch, minlength=3)
    assert counts[2] >= 3, "what is not known may be good"


def test_a_sketch_without_points_left_gets_no_draws() -> None:
    space = Space([Sketch("few", (PerfectTile(4, 2),)), Sketch("many", (PerfectTile(2**20, 4), PerfectTile(2**20, 4)))])
    memory, share = Memory(space, 0), np.array([0.9, 0.1])
    everything = space.keys(space.all_of(0))
    assert len(np.unique(everything)) == space.sizes[0] == 3
    assert memory.left(everything[:2]).tolist() == [True, True]
    pool = CandidatePool(memory, everything, None, 500, None, share)
    pool.fill(np.random.default_rng(0), 40)
    assert (pool.points.sketch == 1).all()
    assert pool.share is not None
    assert pool.share.tolist() == [0.0, 1.0]


def test_what_was_constructed_and_not_proposed_is_proposed_next() -> None:
    task = SyntheticTask(matmul_space(), seed=2)
    asked: list[int] = []

    def prior(batch: PointBatch) -> Floats:
        asked.append(len(batch))
        return task.latency(task.resolve(batch)[0])

    searcher = GeneticSearcher(task.space, seed=0)
    first = searcher.ask(16, prior=prior)
    constructed = sum(asked)
    asked.clear()
    repeated = GeneticSearcher(task.space, seed=1)
    repeated.restore(json.loads(json.dumps(searcher.state())))
    second = repeated.ask(16, first, prior=prior)
    assert sum(asked) < constructed / 10
    assert not set(first) & set(second)
    assert task.latency(task.space.batch(second[:14])).max() < 2 * task.best_latency * 1.5


@pytest.mark.parametrize("ran", [0, 1, 2])
def test_a_batch_is_constructed_until_there_is_more_than_one_to_go_on_from(ran: int) -> None:
    task = SyntheticTask(matmul_space(), seed=2)
    searcher = GeneticSearcher(task.space, seed=0)
    known = task.space.candidates(task.space.sample(np.random.default_rng(0), 3))
    failed = [Measurement(candidate, failure=FailureKind.CRASH) for candidate in known[ran:]]
    searcher.tell([*(Measurement(candidate, (1.0,)) for candidate in known[:ran]), *failed])
    proposed = searcher.ask(3, prior=lambda batch: task.latency(task.resolve(batch)[0]))
    best = task.latency(task.space.batch(proposed)).min()
    assert (best < 1.5 * task.best_latency) == (ran < 2)
    assert not set(proposed) & set(known)
