"""What the static model's estimates are for a search."""

from __future__ import annotations

import numpy as np
import pytest
from marked_nests import AVX512, Source, marked

from tunesmith.analysis import prior as module
from tunesmith.analysis.cpu_model import Cache, CpuModel
from tunesmith.analysis.model import Costs
from tunesmith.analysis.nest import Nest
from tunesmith.analysis.prior import COMPARED, REMEMBERED, Samples, StaticPrior
from tunesmith.analysis.rows import PLACE, STATIC
from tunesmith.space.base import PointBatch, Sketch
from tunesmith.space.knobs import ComputeLocation
from tunesmith.space.space import Space


def test_a_prior_knows_what_has_a_nest() -> None:
    space = Space([Sketch("s", (*marked()[1], ComputeLocation(-1, 0)))])
    batch = space.sample(np.random.default_rng(0), 64)
    source = Source()
    found = StaticPrior(space, source, AVX512)(batch)
    assert (np.isnan(found) == (batch.choice[:, 3] == 1)).all()
    assert set(source.asked) == {(-1,), (0,)}
    assert len(StaticPrior(space, source, AVX512)(batch.take(slice(0)))) == 0


def test_estimates_of_a_sketch_may_count_for_more() -> None:
    space = Space([Sketch("s", (*marked()[1], ComputeLocation(-1, 0)))])
    batch = space.sample(np.random.default_rng(0), 64)
    plain, doubted = StaticPrior(space, Source(), AVX512), StaticPrior(space, Source(), AVX512, handicap={"s": 1.5})
    assert np.allclose(doubted(batch), 1.5 * plain(batch), equal_nan=True)


def test_rows_have_the_estimates_and_what_is_known_without_one() -> None:
    space = Space([Sketch("s", (*marked()[1], ComputeLocation(-1, 0)))])
    batch = space.sample(np.random.default_rng(0), 64)
    prior = StaticPrior(space, Source(), AVX512, handicap={"s": 1.5})
    rows = prior.rows(batch, "matmul", "float32")
    estimates = prior(batch)
    known = np.isfinite(estimates)
    assert 0 < known.sum() < (~np.isnan(estimates)).sum() < len(batch), "some are not understood, some are refused"
    assert np.allclose(rows[known, PLACE[STATIC]], np.log2(estimates[known]), rtol=1e-6)
    assert (np.isnan(rows[:, PLACE[STATIC]]) == np.isnan(estimates)).all()
    assert (rows[np.isinf(estimates), PLACE["static.feasible"]] == 0).all()
    assert np.array_equal(rows[:, PLACE["place.0"]], batch.choice[:, 3] - 1)
    assert (rows[:, PLACE["primitive.Split"]] == 2).all()
    assert prior.rows(batch.take(slice(0)), "matmul", "float32").shape == (0, rows.shape[1])


def test_a_promise_holds_estimates_against_the_best() -> None:
    space = Space([Sketch("s", (*marked()[1], ComputeLocation(-1, 0)))])
    prior, batch = StaticPrior(space, Source(), AVX512), space.sample(np.random.default_rng(0), 64)
    found, promise = prior(batch), prior.promise(batch)
    known = np.isfinite(found)
    assert (np.isnan(promise) == np.isnan(found)).all()
    assert np.allclose(promise[known] * found[known], promise[known][0] * found[known][0])
    assert 0.5 < promise[known].max() <= 1.0, "of a thousand others one is as good"
    assert (promise[np.isinf(found)] == 0).all()
    unknown = space.at(np.flatnonzero(space.at(np.arange(space.size)).choice[:, 3] == 1))
    assert np.isnan(prior.promise(unknown)).all()


def test_constraints_that_refuse_everything_are_passed_over() -> None:
    nest, knobs = marked()
    space = Space([Sketch("s", knobs)])

    class Always(Source):
        def structural(self, sketch: str) -> tuple[int, ...]:
            return ()

        def nest(self, sketch: str, decided: tuple[int, ...]) -> Nest | None:
            return nest

    small = CpuModel(1, 4, 0, 1e9, 1e9, (Cache(1024, 1e9),))
    batch: PointBatch = space.sample(np.random.default_rng(0), 64)
    assert not Costs(nest, knobs, batch.choice, small).feasible().any()
    assert np.isfinite(StaticPrior(space, Always(), small)(batch)).all()


@pytest.fixture
def estimated(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many points each evaluation of the static model was of."""
    sizes: list[int] = []

    class Counted(Costs):
        def __init__(self, *args: object) -> None:
            super().__init__(*args)  # type: ignore[arg-type]
            sizes.append(self.n)

    monkeypatch.setattr(module, "Costs", Counted)
    return sizes


def test_a_search_comes_back_to_points_for_nothing(estimated: list[int]) -> None:
    space = Space([Sketch("s", marked()[1])])

    class Plain(Source):
        def structural(self, sketch: str) -> tuple[int, ...]:
            return ()

        def nest(self, sketch: str, decided: tuple[int, ...]) -> Nest | None:
            return marked()[0]

    prior, batch = StaticPrior(space, Plain(), AVX512), space.at(np.arange(8))
    found = prior(batch.take(slice(0, 6)))
    before = list(estimated)
    rows = prior.rows(batch.take(slice(0, 6)), "matmul", "float32")
    assert estimated == before, "rows of what was estimated last"
    again = prior(batch)
    assert estimated == [*before, 2], "only what is new"
    assert np.array_equal(again[:6], found)
    fresh = StaticPrior(space, Plain(), AVX512).rows(batch.take(slice(0, 6)), "matmul", "float32")
    assert np.array_equal(rows, fresh, equal_nan=True)
    many = space.sample(np.random.default_rng(0), REMEMBERED + 1)
    assert np.array_equal(prior(many), prior(many))
    assert estimated.count(REMEMBERED + 1) == 2, "what was drawn does not come back"


def test_a_point_that_was_unknown_is_asked_again() -> None:
    space = Space([Sketch("s", (*marked()[1], ComputeLocation(-1, 0)))])

    class Late(Source):
        def nest(self, sketch: str, decided: tuple[int, ...]) -> Nest | None:
            self.asked.append(decided)
            return marked()[0] if len(self.asked) > 1 else None

    batch = space.at(np.arange(space.size)[:1])
    prior = StaticPrior(space, Late(), AVX512)
    assert np.isnan(prior(batch)).all()
    assert not np.isnan(prior(batch)).any()


def test_models_of_a_space_leave_random_points_to_each_other(estimated: list[int]) -> None:
    space, samples, source = Space([Sketch("s", (*marked()[1], ComputeLocation(-1, 0)))]), Samples(), Source()
    batch = space.at(np.arange(4))
    first = StaticPrior(space, source, AVX512, samples=samples).promise(batch)
    assert max(estimated) > len(batch), "random ones"
    estimated.clear()
    assert np.array_equal(StaticPrior(space, source, AVX512, samples=samples).promise(batch), first, equal_nan=True)
    assert max(estimated, default=0) <= len(batch) < COMPARED
    source.asked.append((7,))
    StaticPrior(space, source, AVX512, samples=samples).promise(batch)
    assert max(estimated) > len(batch), "with another nest they are looked at again"
    assert len(samples) == 1, "by the newest count alone"
