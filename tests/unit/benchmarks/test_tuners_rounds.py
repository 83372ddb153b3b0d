"""What MetaSchedule's rounds become in the comparison of tuners."""

from __future__ import annotations

import pytest
from tuner_outcomes import ask

from benchmarks.tuners import metaschedule


def round_(at, results, trace=None, spent=0.0, build=1.0, run=2.0):
    profile = {"SendToBuilder": build, "SendToRunner": run}
    return {"kind": "round", "at": at, "results": results, "trace": trace, "profile": profile, "spent": spent}


READY = {"kind": "ready", "at": 110.0, "hash": "42"}


def test_rounds_become_trials_up_to_the_last_complete_one():
    events = [
        READY,
        round_(130.0, [[2e-3, False], [None, False]], "A", spent=1.0),
        round_(151.0, [[1e-3, False], [2e-3, True]], "B", build=9.0, run=20.0),
        round_(191.0, [[1e-4, False]], "C"),
    ]
    evaluations = [(120.0, 3.0), (125.0, 1.0), (140.0, 5.0), (150.0, 5.0), (180.0, 7.0)]
    found = metaschedule.outcome_of(ask(), 100.0, events, evaluations)
    assert (found.startup, found.elapsed, found.workload) == (10.0, 40.0, "42")  # a second was our own
    assert [trial.at for trial in found.trials] == [20.0, 20.0, 40.0, 40.0, 80.0]
    assert (found.counted, found.failed, found.duplicates) == (2, 1, 1)
    assert found.busy == pytest.approx(14.0 / 40.0)
    assert found.trace == "B"  # what came after the budget is not its best
    assert found.parts == {"build": 9.0, "run": 20.0, "kernel": 14.0, "search": 11.0}


def test_a_first_round_longer_than_the_budget_is_not_held_against_it():
    found = metaschedule.outcome_of(ask(), 100.0, [READY, round_(210.0, [[1e-3, False]] * 4, "A")], [(200.0, 4.0)])
    assert (found.elapsed, found.counted, found.trace) == (100.0, 4, "A")
    assert found.rate() == pytest.approx(2.4)


def test_without_a_round_the_candidates_that_ran_are_told():
    found = metaschedule.outcome_of(ask(), 100.0, [READY], [(120.0, 1.0), (130.0, 2.0)])
    assert (found.elapsed, found.counted, found.trace) == (20.0, 2, None)


def test_half_a_line_is_not_read(tmp_path):
    path = tmp_path / "events"
    assert metaschedule.read_lines(path) == []
    path.write_text('{"a": 1}\n{"b"')
    assert metaschedule.read_lines(path) == [{"a": 1}]
