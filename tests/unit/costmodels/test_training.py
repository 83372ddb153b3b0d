from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodels.base import Features, TrainingSet
from costmodels.boosting import BoostingOptions, pack_sum, pack_sum_objective
from costmodels.registry import COST_MODELS, cost_model_class, load_cost_model, make_cost_model
from costmodels.testing import synthetic_part
from costmodels.training import Part, assemble, assess, split, train
from costmodels.xgboost_model import XGBoostModel
from tunesmith.errors import UnknownCostModel
from tunesmith.names import COST_MODELS as NAMES
from tunesmith.names import NO_COST_MODEL, RANKER

programs = st.lists(st.integers(1, 4), max_size=6).map(
    lambda counts: Features.pack([np.full((c, 3), i, dtype=np.float32) for i, c in enumerate(counts)])
)


@given(programs, st.data())
@settings(deadline=None, max_examples=50)
def test_features_take_concat_and_widen(features: Features, data: st.DataObject) -> None:
    if len(features):
        index = np.array(data.draw(st.lists(st.integers(0, len(features) - 1), max_size=6)), dtype=np.int64)
        taken = features.take(index)
        assert taken.counts.tolist() == features.counts[index].tolist()
        assert taken.rows[taken.offsets[:-1], 0].tolist() == index.tolist()
    double = Features.concat([features, features])
    assert double.counts.tolist() == [*features.counts, *features.counts]
    if len(features):
        wider = features.beside(np.arange(len(features)) / 2)
        assert (wider.rows[:, :-1] == features.rows).all()
        assert [set(wider.rows[a:b, -1]) for a, b in zip(wider.offsets, wider.offsets[1:], strict=False)] == [
            {i / 2} for i in range(len(features))
        ]


def test_broken_features_are_refused() -> None:
    rows = np.zeros((3, 2), dtype=np.float32)
    for offsets in ([0, 0, 3], [0, 2], [1, 3], [0, 2, 1, 3], []):
        with pytest.raises(ValueError):
            Features(rows, np.array(offsets, dtype=np.int64))


def test_the_pack_sum_objective_by_hand() -> None:
    offsets = np.array([0, 2, 3])
    margins = np.array([0.25, 0.5, 0.1])
    assert pack_sum(margins, offsets).tolist() == [0.75, 0.1]
    gradient, curvature = pack_sum_objective(offsets, np.array([1.0, 0.0]))(margins)
    assert gradient.tolist() == [-0.25, -0.25, 0.1]
    assert curvature.tolist() == [2.0, 2.0, 1.0]


def test_the_gradient_is_the_losss_derivative() -> None:
    rng = np.random.default_rng(0)
    offsets, labels, margins = np.array([0, 3, 4, 9]), rng.random(3), rng.normal(size=9)

    def loss(at: np.ndarray) -> float:
        return float(((pack_sum(at, offsets) - labels) ** 2).sum() / 2)

    gradient, _ = pack_sum_objective(offsets, labels)(margins)
    for row in range(9):
        step = np.zeros(9)
        step[row] = 1e-6
        assert gradient[row] == pytest.approx((loss(margins + step) - loss(margins - step)) / 2e-6, rel=1e-5)


def test_labels() -> None:
    features = Features.pack([np.zeros((1, 2), dtype=np.float32)] * 5)
    latency = np.array([2.0, 1.0, np.inf, 3.0, np.inf])
    data = TrainingSet(features, latency, np.array([0, 0, 0, 1, 2]))
    assert data.labels().tolist() == [0.5, 1.0, 0.0, 1.0, 0.0]


def test_assembling() -> None:
    parts = [synthetic_part("a", 3, 0), synthetic_part("b", 2, 1), synthetic_part("a", 4, 2)]
    data = assemble(parts)
    assert data.group.tolist() == [0] * 3 + [1] * 2 + [0] * 4
    assert len(data) == len(data.features) == 9
    assert len(assemble([])) == 0
    with pytest.raises(ValueError):
        assemble([Part("a", parts[0].features, np.ones(2))])
    with pytest.raises(ValueError):
        assemble([*parts, Part("c", Features.pack([np.zeros((1, 2), dtype=np.float32)]), np.ones(1))])


def test_a_split_holds_back_the_same_share_of_each_workload() -> None:
    data = assemble([synthetic_part(name, n, n) for name, n in (("a", 20), ("b", 10), ("c", 30))])
    rest, held = split(data, 0.2, 0)
    assert np.bincount(held.group).tolist() == [4, 2, 6]
    assert sorted([*rest.latency, *held.latency]) == sorted(data.latency)


def test_training_reports_held_out_metrics() -> None:
    data = assemble([synthetic_part("a", 200, 0), synthetic_part("b", 100, 1)])
    trained = train(data, "xgboost", 0)
    assert trained.programs == 300
    assert trained.valid == int(np.isfinite(data.latency).sum())
    assert trained.metrics is not None
    assert trained.metrics.programs == 30
    assert trained.metrics.pairwise > 0.55
    assert assess(trained.model, data).pairwise > trained.metrics.pairwise
    assert train(assemble([synthetic_part("a", 20, 0)]), "xgboost", 0).metrics is None
    assert train(data, "xgboost", 0, holdout=0.0).metrics is None


def test_every_name_is_known_on_both_sides() -> None:
    assert (*COST_MODELS, NO_COST_MODEL) == NAMES
    for name in COST_MODELS:
        model = make_cost_model(name, 1)
        assert type(model) is cost_model_class(name)
        assert getattr(model, "kind", None) == name
    for name in (NO_COST_MODEL, "no-such"):
        with pytest.raises(UnknownCostModel):
            make_cost_model(name, 0)


def test_a_model_of_another_kind_is_refused() -> None:
    model = XGBoostModel(0, BoostingOptions(members=1, rounds=2))
    part = synthetic_part("a", 30, 0)
    model.fit(assemble([part]))
    loaded = load_cost_model("xgboost", model.save())
    assert (loaded.predict(part.features)[0] == model.predict(part.features)[0]).all()
    with pytest.raises(ValueError):
        load_cost_model("lightgbm", model.save())


def test_the_registry_imports_a_library_only_when_asked() -> None:
    code = (
        "import sys, costmodels.registry as r; assert not {'xgboost', 'lightgbm'} & set(sys.modules); "
        "r.make_cost_model('xgboost', 0); assert 'xgboost' in sys.modules and 'lightgbm' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


@pytest.mark.parametrize("name", sorted({*COST_MODELS} - {RANKER}))
def test_programs_with_more_stores_are_not_taken_for_faster_ones(name: str) -> None:
    rng = np.random.default_rng(0)
    programs = [rng.normal(size=(int(rng.integers(2, 10)), 8)).astype(np.float32) for _ in range(300)]
    features = Features.pack(programs)
    latency = features.counts * np.exp(0.1 * rng.normal(size=300))
    data = TrainingSet(features, latency, np.zeros(300, dtype=np.int64))
    model = make_cost_model(name, 0)
    model.fit(data.take(np.arange(200)))
    assert assess(model, data.take(np.arange(200, 300))).pairwise > 0.75
