from __future__ import annotations

import importlib
import json

import numpy as np
import pytest
import torch
from search_runs import reached

from tunesmith.errors import MissingDependency
from tunesmith.search.policy import Episodes, Policy, PolicyOptions
from tunesmith.search.ppo import AgentSearcher
from tunesmith.search.random import RandomSearcher
from tunesmith.search.registry import make_searcher
from tunesmith.search.walk import Walk
from tunesmith.space.base import Sketch
from tunesmith.space.knobs import Categorical, PerfectTile
from tunesmith.space.space import Space
from tunesmith.testing.simulated import tune
from tunesmith.testing.synthetic import SyntheticTask, matmul_space, tiny_space
from tunesmith.types import Candidate


def test_beats_random_search_with_and_without_scores() -> None:
    chance = reached(RandomSearcher, "validity")
    assert reached(AgentSearcher, "score") < 0.6 * chance
    assert reached(AgentSearcher, "validity") < 0.6 * chance


def test_a_policy_learns_what_is_rewarded() -> None:
    """Up where the agent sees a positive number, down where it sees a negative one; a slot it lacks is left alone."""
    rng = np.random.default_rng(0)
    policy = Policy(2, 3, rng, PolicyOptions(calm=0.0, rate=0.01))
    own = np.array([[True, True, False]]).repeat(64, axis=0)
    for _ in range(25):
        seen = rng.choice([-1.0, 1.0], size=(5, 64, 2)).astype(np.float32)
        step = np.stack([policy.act(rng, seen[t]) for t in range(4)])
        reward = (step[:, :, :2] * seen[:4]).sum(axis=2)
        policy.learn(rng, Episodes(seen, own, step, reward))
    seen = rng.choice([-1.0, 1.0], size=(400, 2)).astype(np.float32)
    step = policy.act(rng, seen)
    assert (step[:, :2] == seen).mean() > 0.8
    assert np.abs((step[:, 2] == 1).mean() - 1 / 3) < 0.2
    assert set(np.unique(step)) == {-1, 0, 1}


def test_a_policy_is_restored_bit_for_bit_and_leaves_torch_as_it_was() -> None:
    seed, threads = torch.get_rng_state(), torch.get_num_threads()
    task = SyntheticTask(matmul_space(64, 64, 64))
    searcher, twin = AgentSearcher(task.space, seed=1), AgentSearcher(task.space, seed=2)
    tune(searcher, task, rounds=2, score=task.score)
    twin.restore(json.loads(json.dumps(searcher.state())))
    assert twin.state()["policy"] == searcher.state()["policy"] != AgentSearcher(task.space, seed=1).state()["policy"]
    assert torch.equal(torch.get_rng_state(), seed)
    assert torch.get_num_threads() == threads


def test_steps_stay_inside_and_can_be_taken_back() -> None:
    space = Space([Sketch("a", (PerfectTile(96, 3, 8), Categorical(4))), Sketch("b", (Categorical(4),))])
    walk, rng = Walk(space), np.random.default_rng(0)
    assert walk.slots == 3
    assert walk.own.tolist() == [[True, True, True], [False, False, True]]
    here = space.sample(rng, 200)
    moved = walk.move(here, rng.integers(-1, 2, size=(200, 3)))
    assert all(space.known(space.candidates(moved)))
    assert (moved.choice != here.choice).any()
    start = space.batch([Candidate("a", ((96, 1, 1), 0))])
    up = walk.move(start, np.array([[1, 1, 0]]))
    assert [c.decisions[0] for c in space.candidates(up)] == [(24, 2, 2)]
    down = walk.move(up, np.array([[-1, -1, -1]]))
    assert (down.choice == start.choice).all()


def test_without_its_libraries_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.import_module

    def missing(name: str, package: str | None = None) -> object:
        if name.startswith("sklearn"):
            raise ModuleNotFoundError(name)
        return real(name, package)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(MissingDependency, match="tunesmith\\[search\\]"):
        make_searcher("ppo", tiny_space(), 0)
