from __future__ import annotations

import json

import numpy as np

from tunesmith.search.candidate_pool import CandidatePool
from tunesmith.search.perceptron import Perceptron
from tunesmith.search.q_learning import QLearningSearcher
from tunesmith.search.random import RandomSearcher
from tunesmith.space.space import Space
from tunesmith.testing.simulated import measure, tune
from tunesmith.testing.synthetic import SyntheticTask, matmul_space


def one_sketch() -> Space:
    return Space(matmul_space().sketches[:1])


def learnt(seed: int, rounds: int = 8) -> tuple[SyntheticTask, QLearningSearcher, float]:
    task = SyntheticTask(one_sketch(), seed=seed)
    searcher = QLearningSearcher(task.space, seed)
    return task, searcher, tune(searcher, task, rounds=rounds, noise=0.01)[-1] / task.best_latency


def test_it_beats_chance_and_knows_which_directions_pay() -> None:
    reached, chance, gains = [], [], []
    for seed in range(5):
        task, searcher, best = learnt(seed)
        reached.append(best)
        chance.append(tune(RandomSearcher(task.space, seed=seed), task, rounds=8, noise=0.01)[-1] / task.best_latency)
        rng = np.random.default_rng(seed)
        points = task.space.sample(rng, 200)
        directed, random = searcher._directed(points, 0.0), task.space.neighbours(rng, points)
        gains.append([float(np.log(task.latency(points) / task.latency(moved)).mean()) for moved in (directed, random)])
    assert np.median(reached) < 0.6 * np.median(chance)
    directed, random = np.median(gains, axis=0)
    assert directed > 0.05
    assert abs(random) < 0.02


def test_walks_start_at_fast_points() -> None:
    task = SyntheticTask(one_sketch())
    searcher = QLearningSearcher(task.space, 0)
    results = measure(task, searcher.ask(64))
    searcher.tell(results)
    pool = CandidatePool(searcher._memory, np.zeros(0, dtype=np.int64), None, 64)
    starts = np.concatenate([task.latency(searcher._starts(pool)) for _ in range(4)])
    assert np.median(starts) < 0.7 * np.median([m.latency for m in results])
    assert len(np.unique(starts)) > 8


def test_a_perceptron_learns_and_is_restored_bit_for_bit() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(512, 4)).astype(np.float32)
    wanted = np.tanh(x[:, 0] * x[:, 1]).astype(np.float64)
    network, twin = Perceptron(4, 32, 0), Perceptron(4, 32, 1)
    for _ in range(3000):
        rows = rng.integers(512, size=64)
        network.learn(x[rows], wanted[rows], 0.2)
    assert np.mean((network.predict(x) - wanted) ** 2) < 0.3 * wanted.var()
    twin.restore(json.loads(json.dumps(network.state())))
    assert (twin.predict(x) == network.predict(x)).all()
