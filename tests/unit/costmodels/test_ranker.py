"""The ranker: the static model where nothing is learned, better where something is, and nothing from strange bytes."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest

from costmodels.base import Features, TrainingSet
from costmodels.metrics import evaluate
from costmodels.ranker import RankerModel, RankerOptions
from costmodels.testing import decision_part
from costmodels.training import assemble
from tunesmith.analysis.rows import COLUMNS, FAMILY, PLACE, STATIC, family_number

QUICK = RankerOptions(rounds=20, family_rounds=10)


def data(seed: int = 0, workloads: int = 8, programs: int = 40) -> TrainingSet:
    """Workloads of two families."""
    return assemble([decision_part(f"{'ab'[i % 2]}{i}", programs, 100 * seed + i) for i in range(workloads)])


def static(features: Features) -> np.ndarray:
    return -features.rows[:, PLACE[STATIC]].astype(np.float64)


FITTED = RankerModel(0, QUICK)
FITTED.fit(data())


def test_trees_see_all_columns_but_the_familys_number() -> None:
    odd = data(7).features
    odd.rows[:, PLACE[FAMILY]] = 5  # a family without trees of its own
    again = Features(odd.rows.copy(), odd.offsets)
    again.rows[:, PLACE[FAMILY]] = 6
    assert (FITTED.predict(odd)[0] == FITTED.predict(again)[0]).all()
    assert COLUMNS.index(FAMILY) == 0


def test_what_was_learned_helps_workloads_that_were_not_seen() -> None:
    assert FITTED.strength > 0
    new = data(7)
    mean, deviation = FITTED.predict(new.features)
    learned, known = evaluate(mean, new.latency, new.group), evaluate(static(new.features), new.latency, new.group)
    assert learned.peak5 > known.peak5 + 0.1
    assert (deviation > 0).all()


@pytest.mark.parametrize("wrong", ["little", "chance"])
def test_without_anything_to_learn_the_scores_are_the_static_models(wrong: str) -> None:
    given = data(programs=1) if wrong == "little" else data()
    if wrong == "chance":  # the static model is right but for noise that no column explains
        noise = np.random.default_rng(0).normal(size=len(given))
        given = TrainingSet(given.features, np.exp2(0.05 * noise - static(given.features)), given.group)
    model = RankerModel(0, QUICK)
    model.fit(given)
    new = data(7).features
    mean, deviation = model.predict(new)
    assert model.strength == 0
    assert (mean == static(new)).all()
    assert (deviation == 0).all()
    again, _ = RankerModel.load(model.save()).predict(new)
    assert (again == mean).all()


def test_a_family_adds_trees_where_it_differs_from_the_others() -> None:
    parts = [decision_part(f"a{i}", 60, i) for i in range(8)]
    odd = [decision_part(f"b{i}", 60, 50 + i) for i in range(8)]
    for part in odd:  # what is slow in other families is fast here
        part.latency[:] *= np.exp2(-3.0 * part.features.rows[:, PLACE["kernel.loads"]])
    model = RankerModel(0, RankerOptions(rounds=20, family_rounds=20))
    model.fit(assemble([*parts, *odd]))
    body = json.loads(model.save())["model"]
    assert str(family_number("b")) in body["families"] or str(family_number("a")) in body["families"]
    assert all(0 < each["weight"] < 1 for each in body["families"].values())


def test_programs_without_an_estimate_are_left_out_and_stay_unknown() -> None:
    given = data()
    given.features.rows[::3, PLACE[STATIC]] = np.nan
    model = RankerModel(0, QUICK)
    model.fit(given)
    mean, _ = model.predict(given.features)
    assert np.isnan(mean[::3]).all()
    assert np.isfinite(np.delete(mean, np.s_[::3])).all()
    many = Features(np.ones((4, len(COLUMNS)), dtype=np.float32), np.array([0, 2, 4]))
    with pytest.raises(ValueError, match="one row for each program"):
        model.predict(many)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('"weight": ', '"weight": 1', "its checksum is another one"),
        ('"rows": "decisions/8"', '"rows": "decisions/0"', "for rows decisions/0"),
        ('"seed"', '"sown"', "its checksum is another one"),
    ],
)
def test_changed_artefacts_are_refused(old: str, new: str, reason: str) -> None:
    with pytest.raises(ValueError, match=f"not a saved ranker of format 1 for rows decisions/8: .*{reason}"):
        RankerModel.load(FITTED.save().replace(old.encode(), new.encode(), 1))


def test_truncated_artefacts_and_forests_of_other_columns_are_refused() -> None:
    saved = FITTED.save()
    for end in (0, 10, len(saved) // 2, len(saved) - 1):
        with pytest.raises(ValueError, match="not a saved ranker"):
            RankerModel.load(saved[:end])
    whole = json.loads(saved)
    whole["model"]["shared"]["members"][0] = "no forest"
    whole["sha256"] = hashlib.sha256(json.dumps(whole["model"]).encode()).hexdigest()
    with pytest.raises(ValueError, match="not a saved ranker"):
        RankerModel.load(json.dumps(whole).encode())
