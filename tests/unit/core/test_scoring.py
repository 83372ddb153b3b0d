"""The score function of a search: what it asks of the space and the model, and when it lets go of the host lease."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from costmodels.base import Features
from tunesmith.search.turns import Turns
from tunesmith.space.base import Bools, PointBatch
from tunesmith.testing.synthetic import SyntheticTask, matmul_space
from workers.core.scoring import CHUNK, RankedScorer, Scorer
from workers.sandbox.lease import HostLease


class Points(SyntheticTask):
    """A synthetic task whose features are a point's latency; notes how many points were looked at in one go."""

    def features(self, batch: PointBatch) -> tuple[PointBatch, Features | None, Bools]:
        self.sizes = [*getattr(self, "sizes", []), len(batch)]
        canonical, valid = self.resolve(batch)
        rows = self.latency(canonical)[valid].astype(np.float32).reshape(-1, 1)
        return canonical, (Features(rows, np.arange(len(rows) + 1)) if len(rows) else None), valid


class Reciprocal:
    """A model that is asked once for a whole batch."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def predict(self, features: Features) -> tuple[np.ndarray, np.ndarray]:
        self.asked.append(len(features))
        return 1.0 / features.rows[:, 0].astype(np.float64), np.zeros(len(features))


class Counted(HostLease):
    """A lease that counts how often it was shared."""

    count = 0

    @contextmanager
    def shared(self) -> Iterator[None]:
        self.count += 1
        with super().shared():
            yield


def test_few_points_under_one_hold_of_the_lease_and_one_question_to_the_model(tmp_path: Path) -> None:
    task, model, checks = Points(matmul_space(), invalid=0.5), Reciprocal(), []
    lease = Counted(tmp_path / "lease")
    scorer = Scorer(task, model, lease, lambda: checks.append(1))  # type: ignore[arg-type]
    batch = task.space.sample(np.random.default_rng(0), 10 * CHUNK + 1)
    scores = scorer(batch)
    assert max(task.sizes) == CHUNK
    assert len(checks) == 11
    assert lease.count == 12
    assert model.asked == [scores.valid.sum()]
    assert 0 < scores.valid.sum() < len(batch)
    canonical, valid = task.resolve(batch)
    assert (scores.valid == valid).all()
    assert (scores.batch.choice == canonical.choice).all()
    assert np.allclose(scores.mean[valid], 1.0 / task.latency(canonical)[valid], rtol=1e-5)
    assert (scores.mean[~valid] == 0).all()


class Sketchy:
    """A static model that only looks at the sketch."""

    def promise(self, batch: PointBatch) -> np.ndarray:
        return batch.sketch + 0.5


def test_the_static_models_promise_is_the_last_feature(tmp_path: Path) -> None:
    task, lease = Points(matmul_space(), invalid=0.5), HostLease(tmp_path / "lease")
    batch = task.space.sample(np.random.default_rng(0), 20)
    for prior in (Sketchy(), None):
        features, valid = Scorer(task, None, lease, lambda: None, prior).features(batch)  # type: ignore[arg-type]
        assert features is not None
        canonical = task.resolve(batch)[0].take(valid)
        assert np.allclose(features.rows[:, 0], task.latency(canonical))
        wanted = prior.promise(canonical) if prior else np.full(valid.sum(), np.nan)
        assert np.array_equal(features.rows[:, 1], wanted.astype(np.float32), equal_nan=True)


def test_without_a_model_features_are_only_made_on_request(tmp_path: Path) -> None:
    task = Points(matmul_space(), invalid=0.5)
    scorer = Scorer(task, None, HostLease(tmp_path / "lease"), lambda: None)  # type: ignore[arg-type]
    batch = task.space.sample(np.random.default_rng(0), 20)
    scores = scorer(batch)
    assert not hasattr(task, "sizes")
    assert (scores.mean == 0).all()
    features, valid = scorer.features(batch)
    assert features is not None
    assert len(features) == valid.sum() == scores.valid.sum()
    assert len(scorer(batch.take(slice(0))).mean) == 0
    assert scorer.features(batch.take(slice(0)))[0] is None


class Ruled(Points):
    """A synthetic task that is its own static model: estimates are ten times too long, and every third is unknown."""

    def __call__(self, batch: PointBatch) -> np.ndarray:
        keys = self.space.keys(batch)
        return np.where(keys % 3 == 0, np.nan, np.where(keys % 5 == 0, np.inf, 10 * self.latency(batch)))

    def rows(self, batch: PointBatch, family: str, precision: str) -> np.ndarray:
        assert (family, precision) == ("matmul", "float32")
        unknown = self.space.keys(batch) % 3 == 0
        return np.where(unknown, np.nan, np.log2(self.latency(batch))).astype(np.float32).reshape(-1, 1)


class Exact:
    """A ranker that knows the latency."""

    def predict(self, features: Features) -> tuple[np.ndarray, np.ndarray]:
        return -features.rows[:, 0].astype(np.float64), np.ones(len(features))


def test_a_ranker_scores_by_decision_rows_and_corrects_estimates(tmp_path: Path) -> None:
    task = Ruled(matmul_space(), invalid=0.5)
    lease, about = HostLease(tmp_path / "lease"), ("matmul", "float32")
    scorer = RankedScorer(task, Exact(), lease, lambda: None, task, *about)  # type: ignore[arg-type]
    batch = task.space.sample(np.random.default_rng(0), 40)
    scores = scorer(batch)
    canonical, valid = task.resolve(batch)
    assert (scores.valid == valid).all()
    assert not hasattr(task, "sizes"), "nothing is lowered for features"
    unknown, logs = task.space.keys(canonical) % 3 == 0, -np.log2(task.latency(canonical))
    assert np.allclose(scores.mean[valid & ~unknown], logs[valid & ~unknown], rtol=1e-5)
    assert np.allclose(scores.mean[valid & unknown], np.median(scores.mean[valid & ~unknown]))
    assert (scores.std[valid & ~unknown] == 1).all()
    assert isinstance(scorer.guide, Turns)
    assert scorer.guide.first is task, "the static model has the first place"
    estimates, corrected = task(batch), scorer.guide.second(batch)
    known = ~np.isnan(estimates)
    assert 0 < known.sum() < len(batch)
    assert np.allclose(corrected[known], task.latency(batch)[known], rtol=1e-5)
    assert np.isnan(corrected[~known]).all()
    assert (np.isinf(scorer.guide(batch)) == np.isinf(estimates)).all()
    features, _ = scorer.features(batch)
    assert features is not None
    assert len(features) == valid.sum()
    alone = RankedScorer(task, None, lease, lambda: None, task, *about)  # type: ignore[arg-type]
    assert alone.guide is task
    assert (alone(batch).mean == 0).all()
