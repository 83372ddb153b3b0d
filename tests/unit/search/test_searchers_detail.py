from __future__ import annotations

import json

import numpy as np
import pytest
from effort import THOROUGH

from tunesmith.errors import UnknownSearcher
from tunesmith.search.candidate_pool import ENUMERATE_LIMIT, CandidatePool
from tunesmith.search.codes import Codes
from tunesmith.search.genetic import GeneticOptions, GeneticSearcher
from tunesmith.search.kernel_ridge import KernelRidgeSurrogate
from tunesmith.search.memory import DEAD_LIMIT, Memory, restore_rng, rng_state
from tunesmith.search.random import RandomOptions, RandomSearcher
from tunesmith.search.registry import SEARCHERS, make_searcher
from tunesmith.space.base import PointBatch, Scores, Sketch
from tunesmith.space.knobs import PerfectTile
from tunesmith.space.space import Space
from tunesmith.testing.simulated import measure, tune
from tunesmith.testing.synthetic import SyntheticTask, matmul_space, tiny_space
from tunesmith.types import Candidate, FailureKind, Measurement

SEEDS = 5 if THOROUGH else 2


def median(curves: list[float]) -> float:
    return float(np.median(curves))


def one_sketch() -> Space:
    return Space(matmul_space().sketches[:1])


def final(name: str, mode: str, invalid: float = 0.0, rounds: int = 10) -> float:
    """Best found over the optimum: of one sketch, because what sketches share is another question."""
    out = []
    for seed in range(SEEDS):
        task = SyntheticTask(one_sketch(), seed=seed, invalid=invalid)
        curve = tune(make_searcher(name, task.space, seed), task, rounds=rounds, score=getattr(task, mode), noise=0.01)
        out.append(curve[-1] / task.best_latency)
    return median(out)


def test_evolution_on_a_good_model_finds_the_optimum() -> None:
    """Of six seeds the worst was at 1.17 and 1.65 by then, and the median at 1.00 and 1.41."""
    assert final("genetic", "score", rounds=5) < 1.1
    assert final("genetic", "score", invalid=0.6, rounds=7) < 1.6


def test_evolution_without_a_model_beats_chance() -> None:
    assert final("genetic", "validity") < 0.85 * final("random", "validity")


def test_random_ignores_the_models_opinion() -> None:
    task = SyntheticTask(matmul_space())
    blind, seeing = (RandomSearcher(task.space, seed=3) for _ in range(2))
    assert blind.ask(16, score=task.validity) == seeing.ask(16, score=task.score)


def test_effort_of_an_ask() -> None:
    for invalid, most in ((0.0, 1.0), (0.5, 2.5)):
        task = SyntheticTask(matmul_space(), invalid=invalid)
        searcher = GeneticSearcher(task.space, seed=0)
        searcher.tell(measure(task, searcher.ask(64, score=task.validity)))
        options = searcher.options
        searcher.ask(16, score=task.score)
        for n in (16, 32):
            task.resolved = 0
            searcher.ask(n, score=task.score)
            carried = options.measured + options.survivors
            assert task.resolved <= carried + most * (options.drawn + options.examined * n + n)
    for options_type, cls in ((RandomOptions, RandomSearcher), (GeneticOptions, GeneticSearcher)):
        hopeless = SyntheticTask(matmul_space(), invalid=1.0)
        assert cls(hopeless.space, seed=0, options=options_type(effort=100)).ask(16, score=hopeless.score) == []
        assert hopeless.resolved == 100


def test_the_best_of_an_ask_that_were_not_proposed_are_not_lost() -> None:
    task = SyntheticTask(matmul_space())
    seen: set[int] = set()

    def score(batch: PointBatch) -> Scores:
        fresh.append(len(set(task.space.keys(batch).tolist()) - seen))
        seen.update(task.space.keys(batch).tolist())
        return task.score(batch)

    fresh: list[int] = []
    searcher = GeneticSearcher(task.space, seed=0)
    first = searcher.ask(16, score=score)
    new = sum(fresh)
    fresh.clear()
    second = searcher.ask(16, score=score)
    assert sum(fresh) < new + 10, "what the first ask examined is not drawn anew"
    best, repeated = (task.latency(task.space.batch(c)).min() for c in (first, second))
    assert repeated < 1.5 * best


def test_a_draft_ranks_points_and_evolves_towards_better_ones() -> None:
    task = SyntheticTask(matmul_space(), seed=1)
    rng = np.random.default_rng(0)
    codes, points = Codes(task.space), task.space.sample(rng, 200)
    known, others = np.arange(64), np.arange(64, 200)
    score = task.score(points).mean
    code = codes.of(points)
    assert code.shape == (200, codes.dims)
    draft = KernelRidgeSurrogate(code[known], score[known])
    assert draft.error < 0.9
    assert np.corrcoef(draft.predict(code[others]), score[others])[0, 1] > 0.5
    flat = KernelRidgeSurrogate(code[known], np.full(64, 3.0))
    assert np.allclose(flat.predict(code[others]), 3.0)


def test_equal_knobs_of_two_sketches_share_their_numbers() -> None:
    space = matmul_space()
    one, other = (space.sample(np.random.default_rng(0), 50).take(slice(0, 1)) for _ in range(2))
    choice = one.choice.copy()
    choice[0, 4] = -1
    plain = PointBatch(np.array([0]), choice)
    choice = choice.copy()
    choice[0, 4] = 2
    cached = PointBatch(np.array([1]), choice)
    codes = Codes(space)
    assert (codes.of(one) == codes.of(other)).all()
    assert (codes.of(plain) != codes.of(cached)).sum() == 3  # the sketch, and the location that only one has


def test_drafts_save_exact_scores_without_losing_quality() -> None:
    """Ranking 13 points a proposal exactly, without drafts, reached 1.002 times the optimum here."""
    reached, examined = [], []
    for seed in range(SEEDS):
        task = SyntheticTask(one_sketch(), seed=seed, invalid=0.2)
        searcher = make_searcher("genetic", task.space, seed)
        reached.append(tune(searcher, task, rounds=8, score=task.score, noise=0.01)[-1] / task.best_latency)
        examined.append(task.resolved / (8 * 16))
    assert median(reached) < 1.15
    assert max(examined) < 10


def test_without_a_model_half_of_the_proposals_are_mutations_of_the_best() -> None:
    task = SyntheticTask(matmul_space())
    searcher = GeneticSearcher(task.space, seed=0)
    first = searcher.ask(64)
    results = measure(task, first)
    searcher.tell(results)
    best = sorted(results, key=lambda m: m.latency)[:16]
    parents = task.space.batch([m.candidate for m in best])
    proposed = searcher.ask(20)
    near = 0
    for point in range(20):
        row = task.space.batch(proposed[point : point + 1])
        same = parents.sketch == row.sketch
        near += bool(((parents.choice != row.choice).sum(axis=1)[same] == 1).any())
    assert near >= 10
    assert len(proposed) == 20


def test_a_share_of_proposals_is_random() -> None:
    task = SyntheticTask(matmul_space())
    greedy = GeneticSearcher(task.space, seed=0, options=GeneticOptions(epsilon=0.0)).ask(32, score=task.score)
    loose = GeneticSearcher(task.space, seed=0, options=GeneticOptions(epsilon=0.9)).ask(32, score=task.score)
    assert median(task.latency(task.space.batch(greedy)).tolist()) < median(
        task.latency(task.space.batch(loose)).tolist()
    )


def test_exhaustion_is_exact_up_to_the_limit_of_listing() -> None:
    tiles = (PerfectTile(16, 4), PerfectTile(16, 4))
    task = SyntheticTask(Space([Sketch("a", tiles)]), invalid=0.9)
    assert ENUMERATE_LIMIT / 2 < task.space.size <= ENUMERATE_LIMIT
    searcher = RandomSearcher(task.space, seed=0)
    found: set[Candidate] = set()
    while batch := searcher.ask(16, score=task.validity):
        found |= set(batch)
    assert found == task.valid_points()


def test_memory_keeps_the_best_and_the_first_sign_of_death() -> None:
    space = matmul_space()
    task, memory = SyntheticTask(space), Memory(space, 4)
    candidates = space.candidates(space.sample(np.random.default_rng(0), 20))
    canonical = space.candidates(task.resolve(space.batch(candidates))[0])
    results = measure(task, canonical)
    memory.tell([*results, Measurement(Candidate(None), (1e-9,)), Measurement(canonical[0], failure=FailureKind.CRASH)])
    best = sorted({(m.latency, str(m.candidate)) for m in results})[:4]
    assert [(latency, str(c)) for latency, c in memory.elites] == best
    memory.mark_invalid(np.arange(DEAD_LIMIT + 5))
    assert memory.invalid[0] == 5
    memory.mark_invalid(np.array([DEAD_LIMIT]))
    assert len(memory.invalid) == DEAD_LIMIT
    repeated = Memory(space, 4)
    repeated.restore(json.loads(json.dumps(memory.state())))
    assert repeated.state() == memory.state()
    assert len(repeated.elite_batch(2)) == 2


def test_nan_scores_rank_last() -> None:
    space = matmul_space()

    def score(batch: PointBatch) -> Scores:
        mean = np.where(np.arange(len(batch)) % 2 == 0, np.nan, 1.0 + np.arange(len(batch)))
        return Scores(batch, mean, np.zeros(len(batch)), np.ones(len(batch), dtype=np.bool_))

    pool = CandidatePool(Memory(space, 0), np.zeros(0, dtype=np.int64), score, 100)
    pool.examine(space.sample(np.random.default_rng(0), 10))
    assert np.isfinite(pool.mean[pool.ranked()[:5]]).all()
    assert len(GeneticSearcher(space, seed=0).ask(16, score=score)) == 16


def test_generator_state_is_json_without_large_numbers() -> None:
    rng, twin = np.random.default_rng(7), np.random.default_rng(8)
    rng.integers(5, size=3)
    text = json.dumps(rng_state(rng))
    assert all(abs(v) < 2**53 for v in json.loads(text).values() if isinstance(v, int))
    restore_rng(twin, json.loads(text))
    assert (rng.random(5) == twin.random(5)).all()


def test_names() -> None:
    assert {"random", "genetic", "portfolio"} <= set(SEARCHERS)
    assert SEARCHERS.check("genetic", "random", "genetic") == ("genetic", "random")
    with pytest.raises(UnknownSearcher) as caught:
        make_searcher("no-such", tiny_space(), 0)
    assert "genetic, guided, lfbo, mcts" in caught.value.detail
    assert caught.value.field == "search"


def test_simulated_measurements() -> None:
    task = SyntheticTask(matmul_space(), invalid=0.5)
    candidates = task.space.candidates(task.resolve(task.space.sample(np.random.default_rng(0), 40))[0])
    results = measure(task, candidates, noise=0.05, seed=1)
    assert results == measure(task, candidates, noise=0.05, seed=1)
    assert results != measure(task, candidates, noise=0.05, seed=2)
    assert {m.failure for m in results} == {None, FailureKind.INVALID}
    assert [m.candidate for m in results] == candidates
    exact = measure(task, [task.best])[0]
    assert exact.latency == pytest.approx(task.best_latency)
