from __future__ import annotations

import json

import numpy as np
import pytest

from tunesmith.search.construction import construct
from tunesmith.search.portfolio import PortfolioOptions, PortfolioSearcher, area
from tunesmith.search.registry import make_searcher
from tunesmith.space.base import Floats, PointBatch
from tunesmith.space.space import Space
from tunesmith.testing.simulated import measure
from tunesmith.testing.synthetic import SyntheticTask, matmul_space, tiny_space
from tunesmith.types import Candidate, Measurement

TWO = PortfolioOptions(members=("random", "genetic"), patience=0)


def shares(searcher: PortfolioSearcher) -> Floats:
    """Of each member, of what was measured."""
    members = [member for member, _ in searcher.state()["credits"]]
    return np.bincount(members, minlength=len(searcher.options.members)) / len(members)


def test_trials_go_to_the_better_member() -> None:
    found = []
    for seed in range(3):
        task = SyntheticTask(Space(matmul_space().sketches[:1]), seed=seed)
        searcher = PortfolioSearcher(task.space, seed=seed, options=TWO)
        for _ in range(8):
            searcher.tell(measure(task, searcher.ask(16, score=task.score), noise=0.01))
        found.append(shares(searcher)[1])
    assert min(found) > 0.7
    assert max(found) < 0.98, "the other one is tried now and then"


def test_the_leader_has_every_trial_until_it_stalls() -> None:
    task = SyntheticTask(matmul_space())
    alone = make_searcher("droplet", task.space, 3)
    searcher = PortfolioSearcher(task.space, seed=3, options=PortfolioOptions(patience=8))
    speed = 1.0
    for _ in range(4):
        asked = searcher.ask(4)
        assert asked == alone.ask(4)
        speed /= 2
        measured_before = [Measurement(asked[0], (speed,)), *(Measurement(c, (2.0,)) for c in asked[1:])]
        searcher.tell(measured_before)
        alone.tell(measured_before)
    for small_step in (0.999, 0.998):
        assert shares(searcher).tolist() == [1.0, 0.0, 0.0]
        searcher.tell([Measurement(c, (small_step * speed,)) for c in searcher.ask(4)])
    asked = searcher.ask(4)
    searcher.tell([Measurement(asked[0], (speed / 2,)), *(Measurement(c, (2.0,)) for c in asked[1:])])
    assert (shares(searcher) > 0).sum() > 1
    before = len(searcher.state()["credits"])
    searcher.tell([Measurement(c, (2.0,)) for c in searcher.ask(4)])
    assert {member for member, _ in searcher.state()["credits"][before:]} == {0}, "there was progress, whoever made it"


def test_credit_is_what_came_near_the_best_and_later_ones_count_more() -> None:
    assert area(np.zeros(0)) == 0.0
    assert area(np.ones(7)) == pytest.approx(1.0)
    assert area(np.array([0.0, 0.0, 1.0])) == pytest.approx(3 * area(np.array([1.0, 0.0, 0.0]))) == pytest.approx(0.5)
    task = SyntheticTask(matmul_space())
    searcher = PortfolioSearcher(task.space, seed=0, options=TWO)
    first, *rest = searcher.ask(8)
    searcher.tell([Measurement(first, (1e-3,)), *(Measurement(c, (2e-3,)) for c in rest)])
    assert sorted(credit for _, credit in searcher.state()["credits"]) == [2.0**-TWO.sharpness] * 7 + [1.0]


def test_a_member_with_nothing_left_gives_its_part_away() -> None:
    space = tiny_space()
    task, searcher = SyntheticTask(space), PortfolioSearcher(space, seed=0, options=TWO)
    everything = searcher.ask(space.size + 5)
    assert set(everything) == set(space.candidates(space.at(np.arange(space.size))))
    searcher.tell(measure(task, everything))
    assert searcher.ask(4) == []


def test_the_first_batch_is_constructed_once_and_is_no_members_merit() -> None:
    task = SyntheticTask(matmul_space(), seed=2)
    looked: list[int] = []

    def prior(batch: PointBatch) -> Floats:
        looked.append(len(batch))
        return task.latency(task.resolve(batch)[0])

    construct(task.space, prior, np.random.default_rng(0), 16)
    once = sum(looked)
    looked.clear()
    searcher = PortfolioSearcher(task.space, seed=0)
    first = searcher.ask(16, prior=prior)
    assert sum(looked) < 1.2 * once
    assert task.latency(task.space.batch(first[:14])).max() < 3 * task.best_latency
    searcher.tell(measure(task, first))
    assert searcher.state()["credits"] == []
    searcher.tell(measure(task, searcher.ask(16, prior=prior)))
    assert len(searcher.state()["credits"]) == 16


def test_what_members_remember_alike_is_stored_once() -> None:
    task = SyntheticTask(matmul_space())
    options = PortfolioOptions(members=("random", "random", "genetic"))
    searcher = PortfolioSearcher(task.space, seed=0, options=options)
    for _ in range(4):
        searcher.tell(measure(task, searcher.ask(16)))
    state = searcher.state()
    assert all("seen" in shared for shared in state["shared"])
    assert all("seen" not in own for own in state["own"])
    other = PortfolioSearcher(task.space, seed=0, options=TWO)
    with pytest.raises(ValueError, match="members"):
        other.restore(json.loads(json.dumps(state)))


def test_what_is_measured_of_other_spaces_is_no_best() -> None:
    searcher = PortfolioSearcher(tiny_space(), seed=0)
    searcher.tell([Measurement(Candidate(None), (1e-9,)), Measurement(Candidate("other", (1,)), (1e-9,))])
    assert searcher.state()["best"] is None
