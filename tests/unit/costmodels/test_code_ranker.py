"""The forest that also sees machine code: better where the code tells, and silent where nobody read it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from costmodels import splits
from costmodels.base import Features, TrainingSet
from costmodels.code_ranker import CodeRankerModel, chosen_again
from costmodels.evaluation import RANKER_AND_CODE, contenders, evaluate_all
from costmodels.labelled import Labelled, Measured
from costmodels.metrics import evaluate
from costmodels.ranker import RankerModel, RankerOptions
from costmodels.testing import decision_part
from tunesmith.analysis.machine_code import COLUMNS, PLACE
from tunesmith.names import CODE_RANKER, RANKER

QUICK = RankerOptions(rounds=20, family_rounds=10)


def measured(name: str, seed: int, read: bool = True) -> Measured:
    """Programs half of which a compiler left scalar, which no decision tells: those take eight times as long."""
    part, rng = decision_part("conv", 40, seed), np.random.default_rng([seed, 9])
    scalar = rng.random(40) < 0.5
    code = rng.integers(1, 20, (40, len(COLUMNS))).astype(np.float32)
    code[:, PLACE["hot.lanes"]] = code[:, PLACE["hot.product_lanes"]] = np.where(scalar, 1, 64)
    code[:, PLACE["hot.scalar"]] = scalar
    latency = part.latency * np.where(scalar, 8.0, 1.0)
    return Measured(name, "conv", frozenset(), part.features.rows, latency, np.zeros(40), code if read else None)


LABELLED = Labelled.of([measured(f"w{at}", at) for at in range(8)])


def judged(model: RankerModel, data: TrainingSet) -> float:
    return evaluate(model.predict(data.features)[0], data.latency, data.group).top1


def test_machine_code_tells_what_decisions_do_not() -> None:
    cut = splits.by_workload(LABELLED, 2, 0)[0]
    train, test = LABELLED.data.take(cut.train), LABELLED.data.take(cut.test)
    plain, reading = RankerModel(0, QUICK), CodeRankerModel(0, QUICK)
    plain.fit(train)
    reading.fit(train)
    assert judged(reading, test) > judged(plain, test) + 0.1
    again = CodeRankerModel.load(reading.save())
    assert (again.predict(test.features)[0] == reading.predict(test.features)[0]).all()
    with pytest.raises(ValueError, match="not a saved code ranker"):
        CodeRankerModel.load(plain.save())
    with pytest.raises(ValueError, match="not a saved ranker"):
        RankerModel.load(reading.save())


def test_programs_whose_code_nobody_read_are_neither_learned_from_nor_ranked() -> None:
    some = Labelled.of([measured(f"w{at}", at, read=at != 7) for at in range(8)])
    model, whole = CodeRankerModel(0, QUICK), CodeRankerModel(0, QUICK)
    model.fit(some.data)
    whole.fit(LABELLED.data.take(np.flatnonzero(LABELLED.data.group != 7)))
    scores, deviation = model.predict(some.data.features)
    assert np.isnan(scores[some.data.group == 7]).all()
    known = some.data.group != 7
    assert (scores[known] == whole.predict(LABELLED.data.features)[0][known]).all()
    assert (deviation >= 0).all()
    unread = Features(LABELLED.data.features.rows, LABELLED.data.features.offsets)
    assert np.isnan(model.predict(unread)[0]).all()
    with pytest.raises(ValueError, match="no program with a valid latency"):
        CodeRankerModel(0).fit(replace(LABELLED.data, features=unread))


def test_a_second_opinion_orders_the_best_alone() -> None:
    first = np.array([5.0, 4.0, np.nan, 1.0, 3.0])
    second = np.array([0.0, 1.0, 9.0, 9.0, np.nan])
    assert np.argsort(-chosen_again(first, second, 2)).tolist() == [1, 0, 2, 4, 3], "unknown ones are in the middle"
    assert np.argsort(-chosen_again(first, second, 5)).tolist() == [2, 3, 1, 0, 4], "the unread come last"
    assert np.argsort(-chosen_again(first, np.full(5, np.nan), 3)).tolist() == [0, 1, 2, 4, 3]
    assert chosen_again(np.full(3, np.nan), np.zeros(3)).tolist() == [0, -1, -2]


def test_both_are_judged_where_code_was_read() -> None:
    known, cuts = contenders(), splits.by_workload(LABELLED, 2, 0)
    chosen = {name: known[name] for name in (RANKER, CODE_RANKER)}
    figures = {row.contender: row.figures["top-1"].mean for row in evaluate_all(LABELLED, cuts, chosen)}
    assert figures[RANKER_AND_CODE] > figures[RANKER] + 0.1
    unread = Labelled.of([measured(f"w{at}", at, read=False) for at in range(8)])
    rows = {row.contender: row for row in evaluate_all(unread, cuts, chosen)}
    assert RANKER_AND_CODE not in rows
    assert rows[CODE_RANKER].figures["pairs"].mean == 0.5, "it knows nothing"
