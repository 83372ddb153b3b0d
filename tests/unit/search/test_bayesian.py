from __future__ import annotations

import sys

import numpy as np
import pytest

from tunesmith.errors import MissingDependency
from tunesmith.search.acquisition import Portfolio
from tunesmith.search.bayesian import BayesianSearcher
from tunesmith.search.process import likeliest
from tunesmith.search.registry import make_searcher
from tunesmith.space.space import Space
from tunesmith.testing.simulated import measure, tune
from tunesmith.testing.synthetic import SyntheticTask, matmul_space


def reached(name: str) -> float:
    out = []
    for seed in range(5):
        task = SyntheticTask(Space(matmul_space().sketches[:1]), seed=seed)
        out.append(tune(make_searcher(name, task.space, seed), task, rounds=5, noise=0.01)[-1] / task.best_latency)
    return float(np.median(out))


def test_it_beats_chance_by_far() -> None:
    assert reached("bayesian") < 0.6 * reached("random")


def test_a_batch_spreads_over_what_is_not_correlated() -> None:
    covariance = np.array([[1.0, 0.999, 0.0], [0.999, 1.0, 0.0], [0.0, 0.0, 0.5]])
    picked, _ = Portfolio(0.95, 0.1, 5).choose(np.array([0.1, 0.1, 0.0]), covariance, 0.5, 0.5, 2)
    assert set(picked.tolist()) == {0, 2}


def test_a_function_that_stays_behind_is_dropped_and_one_is_left() -> None:
    portfolio = Portfolio(0.95, 0.1, 5)
    for _ in range(6):
        portfolio.credit({"ei": [0.0], "poi": [1.0], "lcb": [0.0]})
    assert portfolio.active == ["ei", "lcb"]
    for _ in range(40):  # certain values: all functions choose the best mean
        portfolio.choose(np.arange(8.0), np.zeros((8, 8)), 0.0, 0.1, 3)
    assert len(portfolio.active) == 1
    repeated = Portfolio(0.95, 0.1, 5)
    repeated.restore(portfolio.state())
    assert repeated.state() == portfolio.state()


def test_scores_count_as_measurements() -> None:
    found = {"validity": [0.0], "score": [0.0]}
    for seed in range(5):
        task = SyntheticTask(matmul_space(), seed=seed)
        for mode, out in found.items():
            searcher = BayesianSearcher(task.space, seed)
            searcher.tell(measure(task, task.space.candidates(task.space.sample(np.random.default_rng(seed), 48))))
            asked = searcher.ask(16, score=getattr(task, mode))
            out.append(float(np.median([m.latency for m in measure(task, asked)])))
    assert np.sum(found["score"]) < 0.9 * np.sum(found["validity"])


def test_length_and_noise_are_the_likeliest() -> None:
    rng = np.random.default_rng(0)
    codes = rng.random((60, 2))
    smooth = np.sin(2.0 * codes[:, 0])
    assert likeliest(codes, smooth, (0.1, 2.0), (1e-3, 0.5)) == (2.0, 1e-3)
    assert likeliest(codes, rng.normal(size=60), (0.1, 2.0), (1e-3, 0.5))[1] == 0.5


@pytest.mark.parametrize(
    ("name", "module"),
    [("bayesian", "sklearn.gaussian_process"), ("lfbo", "sklearn.ensemble"), ("evolution-strategy", "cmaes")],
)
def test_without_its_library_a_searcher_says_what_to_install(
    name: str, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingDependency) as caught:
        make_searcher(name, matmul_space(), 0)
    assert "pip install 'tunesmith[search]'" in caught.value.detail
    assert caught.value.field == "search"
