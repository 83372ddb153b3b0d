"""Splits that keep workloads apart, metrics by hand, and a table in which a better contender is better."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from costmodels import evaluation, splits
from costmodels.base import Features, Floats, TrainingSet
from costmodels.evaluation import NOISE, RANDOM, STATIC_MODEL, contenders, evaluate_all, interval
from costmodels.labelled import Labelled, Measured
from costmodels.metrics import rank_correlation
from costmodels.testing import decision_part


def measured(name: str, kin: str, models: set[str], programs: int = 40, seed: int = 0) -> Measured:
    part = decision_part(kin, programs, seed)
    return Measured(name, kin, frozenset(models), part.features.rows, part.latency, np.full(programs, 0.02))


FOUND = [
    measured("a0", "conv", {"m", "n"}, seed=0),
    measured("a1", "conv", {"n"}, seed=1),
    measured("a2", "conv", {"o"}, seed=2),
    measured("b0", "dense", {"m"}, seed=3),
    measured("b1", "dense", {"o"}, seed=4),
    measured("c0", "pool", {"o"}, seed=5),
]
LABELLED = Labelled.of(FOUND)


def workloads(places: np.ndarray) -> set[str]:
    return {LABELLED.names[group] for group in LABELLED.data.group[places]}


def test_held_out_workloads_are_whole_and_each_judges_once() -> None:
    cuts = splits.by_workload(LABELLED, 3, 0)
    assert sorted(name for cut in cuts for name in workloads(cut.test)) == sorted(LABELLED.names)
    for cut in cuts:
        assert not workloads(cut.train) & workloads(cut.test)
        assert len(cut.train) + len(cut.test) == len(LABELLED.data)


def test_no_workload_of_a_model_nor_a_mutation_of_one_is_learned_from() -> None:
    found = {frozenset(workloads(cut.test)): workloads(cut.train) for cut in splits.by_model(LABELLED)}
    assert found == {frozenset({"a0", "b0"}): {"c0"}, frozenset({"a0", "a1"}): {"b0", "b1", "c0"}}, "o leaves nothing"
    for cut in splits.by_kin(LABELLED):
        assert {name[0] for name in workloads(cut.train)}.isdisjoint(name[0] for name in workloads(cut.test))


def test_further_measurements_are_learned_from_and_never_judge() -> None:
    more = [replace(each, judges=False) for each in (FOUND[0], FOUND[4])]
    twice = Labelled.of([*FOUND, *more])
    for study in (splits.by_workload(twice, 3, 0), splits.by_kin(twice), splits.few_shot(twice, (0, 4), 3, 0)):
        for cut in study:
            judged = {twice.names[group] for group in twice.data.group[cut.test]}
            assert max(twice.data.group[cut.test]) < len(FOUND)
            shown = np.unique(twice.data.group[cut.train]).tolist()
            assert not {twice.names[group] for group in shown if group >= len(FOUND)} & judged
            assert study[0].study != "workload" or not {twice.names[group] for group in shown} & judged
    learned = [cut for cut in splits.by_workload(twice, 3, 0) if len(FOUND) in twice.data.group[cut.train]]
    assert len(learned) == 2, "wherever its workload does not judge"


def test_only_what_was_built_for_another_target_is_learned_from() -> None:
    there = [replace(each, target="there", judges=False) for each in FOUND[:4]]
    both = Labelled.of([*(replace(each, target="here") for each in FOUND), *there])
    cuts = splits.by_target(both, 3, 0)
    assert sorted(np.unique(both.data.group[np.concatenate([cut.test for cut in cuts])])) == list(range(len(FOUND)))
    for cut in cuts:
        learned, judged = (np.unique(both.data.group[side]).tolist() for side in (cut.train, cut.test))
        assert {both.targets[group] for group in learned} == {"there"}
        assert not {both.names[group] for group in learned} & {both.names[group] for group in judged}
    assert not splits.by_target(LABELLED, 3, 0), "there is one target alone"


def test_recordings_of_two_targets_judge_each_other() -> None:
    both = Labelled.of([replace(each, target=target) for target in ("here", "there") for each in FOUND])
    cuts = splits.by_target(both, 2, 0)
    assert len(cuts) == 4
    for cut in cuts:
        learned, judged = ({both.targets[group] for group in both.data.group[side]} for side in (cut.train, cut.test))
        assert len(judged) == 1
        assert learned == {"here", "there"} - judged


def test_shots_are_added_to_the_same_split_and_never_judge() -> None:
    cuts = splits.few_shot(LABELLED, (0, 4, 8), 3, 0)
    for none, four, eight in zip(cuts[::3], cuts[1::3], cuts[2::3], strict=True):
        assert none.test.tolist() == four.test.tolist() == eight.test.tolist()
        assert set(none.train) < set(four.train) < set(eight.train)
        assert not set(eight.train) & set(eight.test)
        shown = LABELLED.data.group[np.setdiff1d(four.train, none.train)]
        assert np.unique(shown, return_counts=True)[1].tolist() == [4, 4]
    assert [cut.study for cut in cuts[:3]] == ["0 shots", "4 shots", "8 shots"]


def test_workloads_without_a_latency_are_left_out() -> None:
    failed = Measured("d0", "dense", frozenset(), FOUND[0].rows, np.full(40, np.inf), np.zeros(40))
    assert Labelled.of([failed, FOUND[1]]).names == ("a1",)
    with pytest.raises(ValueError, match="no measured program"):
        Labelled.of([failed])


def test_rank_correlation_by_hand() -> None:
    latency = np.array([1.0, 2.0, 3.0, np.inf])
    assert rank_correlation(np.array([3.0, 2.0, 1.0, 9.0]), latency) == pytest.approx(1)
    assert rank_correlation(np.array([1.0, 2.0, 3.0, 0.0]), latency) == pytest.approx(-1)
    assert rank_correlation(np.array([5.0, 5.0, 1.0, 0.0]), latency) == pytest.approx(3**0.5 / 2), "ties share a rank"
    assert np.isnan(rank_correlation(np.ones(4), latency))
    assert np.isnan(rank_correlation(np.zeros(0), np.zeros(0)))


def test_bands_hold_the_mean_and_narrow_with_more_workloads() -> None:
    few, many = (interval(np.random.default_rng(0).normal(size=n)) for n in (8, 512))
    for found in (few, many):
        assert found.low < found.mean < found.high
    assert many.high - many.low < (few.high - few.low) / 4
    assert interval(np.array([0.5, np.nan])).mean == 0.5
    assert np.isnan(interval(np.array([np.nan])).mean)


def test_the_table_ranks_contenders_and_nothing_beats_the_noise() -> None:
    def oracle(data: TrainingSet, features: Features, seed: int) -> Floats:
        rows = {
            row.tobytes(): latency
            for row, latency in zip(LABELLED.data.features.rows, LABELLED.data.latency, strict=True)
        }
        return -np.array([rows[row.tobytes()] for row in features.rows])

    def ignorant(data: TrainingSet, features: Features, seed: int) -> Floats:
        return np.full(len(features), np.nan)

    known = contenders()
    chosen = {name: known[name] for name in (RANDOM, STATIC_MODEL)} | {"oracle": oracle, "ignorant": ignorant}
    rows = evaluate_all(LABELLED, splits.by_workload(LABELLED, 2, 0), chosen)
    pairs = {row.contender: row.figures["pairs"].mean for row in rows}
    assert set(pairs) == {*chosen, NOISE}
    assert pairs["oracle"] == 1.0 > pairs[NOISE] > pairs[STATIC_MODEL] > pairs[RANDOM]
    assert pairs["ignorant"] == 0.5
    assert all(row.workloads == 6 for row in rows)
    assert all(row.figures["top-1"].mean <= row.figures["top-10"].mean for row in rows)


def test_a_ranker_is_judged_by_what_it_did_not_see() -> None:
    cut = splits.by_workload(LABELLED, 2, 0)[:1]
    rows = evaluate_all(LABELLED, cut, {"ranker": contenders()["ranker"], STATIC_MODEL: contenders()[STATIC_MODEL]})
    figures = {row.contender: row.figures["pairs"].mean for row in rows}
    assert figures["ranker"] > figures[STATIC_MODEL] + 0.05
    assert list(evaluation.METRICS) == list(rows[0].figures)
