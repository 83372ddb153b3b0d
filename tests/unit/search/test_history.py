from __future__ import annotations

import json

import numpy as np

from tunesmith.search.codes import Codes
from tunesmith.search.history import MAX_MEASUREMENTS, History
from tunesmith.search.surrogate import from_history
from tunesmith.space.space import Space
from tunesmith.testing.synthetic import huge_space, tiny_space
from tunesmith.types import Candidate, FailureKind, Measurement


def _sampled(space: Space, n: int, seed: int = 0) -> list[Candidate]:
    return space.candidates(space.sample(np.random.default_rng(seed), n))


def test_keeps_each_point_once_with_its_newer_figure() -> None:
    history = History(tiny_space())
    a, b, *_ = dict.fromkeys(_sampled(tiny_space(), 40))
    default = Measurement(Candidate(None), (9.0,))
    history.take([Measurement(a, (2.0,)), Measurement(b, failure=FailureKind.CRASH), default])
    history.take([Measurement(a, (1.0,))])
    assert history.space.candidates(history.points) == [b, a]
    assert history.seconds.tolist() == [np.inf, 1.0]
    assert history.goodness.tolist() == [0.0, 0.0]
    assert history.fastest(5).tolist() == [1]


def test_continues_from_its_state() -> None:
    space = huge_space()
    history, twin = History(space), History(space)
    history.take([Measurement(c, (float(i + 1),)) for i, c in enumerate(_sampled(space, 50))])
    twin.restore(json.loads(json.dumps(history.state())))
    assert twin.seconds.tolist() == history.seconds.tolist()
    assert space.candidates(twin.points) == space.candidates(history.points)


def test_forgets_neither_the_fastest_nor_the_newest() -> None:
    space = huge_space()
    history = History(space)
    candidates = _sampled(space, 2 * MAX_MEASUREMENTS)
    history.take([Measurement(c, (float(i + 1),)) for i, c in enumerate(candidates)])
    kept = space.candidates(history.points)
    assert len(kept) == MAX_MEASUREMENTS
    assert (kept[0], kept[-1]) == (candidates[0], candidates[-1])
    assert len(json.dumps(history.state())) < 150_000


def test_a_guess_needs_something_to_go_by() -> None:
    space = huge_space()
    history, codes = History(space), Codes(space)
    assert from_history(codes, history) is None
    points = _sampled(space, 40)
    history.take([Measurement(c, (1.0 + i % 7,)) for i, c in enumerate(points)])
    draft = from_history(codes, history)
    assert draft is not None
    found = draft.predict(codes.of(history.points))
    assert np.corrcoef(found, history.goodness)[0, 1] > 0
