from __future__ import annotations

import math
from dataclasses import replace

import pytest

from benchmarks.harness.comparison import Entry
from benchmarks.harness.jobs import Measured, measured_of
from benchmarks.harness.kernels import Kernels, summed
from benchmarks.harness.limits import Level, Peak, binding
from benchmarks.operators import cases, figures, first
from benchmarks.operators.cases import RAGGED, Case, chosen
from benchmarks.operators.comparison import OperatorOutcome
from benchmarks.tuners.plan import OPERATORS
from tunesmith.errors import InvalidOperator, MeasurementFailed
from tunesmith.types import Candidate
from workers.peers.comparison import Result

PEAK = Peak(1e9, (Level("memory", math.inf, 1e9),))
"""A million operations, or a million bytes, take a millisecond."""
CASE = Case("gemm:100x100x50:float32", 2, record_missing=True)


def entry(runtime, seed, milliseconds, kernel=None, others=0.0, **values):
    result = Result(runtime, [milliseconds * 1e-3] if milliseconds else [], medians=[milliseconds * 1e-3])
    inside = None if kernel is None else Kernels(kernel * 1e-3, others * 1e-3)
    return Entry(runtime, seed, result, kernels=inside, **values)


def outcome(*entries, flops=1e6, bytes_=1e3, case=CASE):
    return OperatorOutcome(flops, bytes_, list(entries), PEAK, case=case, versions={"apache-tvm": "1.2"})


def tables(*outcomes):
    return {
        report.name: [dict(zip(report.columns, row, strict=True)) for row in report.rows]
        for report in figures.reports(outcomes, {"CPU": "x"})
    }


FULL = outcome(
    entry("untuned", None, 100.0),
    entry("onnxruntime", None, 2.0),
    entry("metaschedule-64", 0, 5.0, 4.0, tuned_seconds=90.0),
    entry("metaschedule-16", 0, 4.0, 3.0, tuned_seconds=80.0),
    entry("tunesmith", 0, 2.0, 1.25, 0.25, candidates=300, tuned_seconds=79.0),
    entry("tunesmith-10", 0, 3.0, 1.5, 0.5),
    entry("metaschedule-64", 1, 8.0, 7.0, tuned_seconds=70.0),
    entry("tunesmith", 1, 4.0, 3.5, tuned_seconds=69.0),
)


def test_every_runtime_stands_beside_the_limit():
    first_, second = tables(FULL)["operators"]
    assert first_["operator"] == "gemm:100x100x50"
    assert (first_["limit µs"], first_["set by"]) == (pytest.approx(1000.0), "arithmetic")
    assert (first_["tunesmith"], first_["tunesmith kernel"]) == ("2000 (50)", "1250 (80)")
    assert first_["conversions µs"] == pytest.approx(250.0)
    assert (first_["metaschedule"], first_["metaschedule kernel"]) == ("4000 (25)", "3000 (33.3)")
    assert (first_["onnxruntime"], first_["untuned"], first_["torch"]) == ("2000 (50)", "100000 (1)", None)
    assert (second["seed"], second["tunesmith"], second["onnxruntime"]) == (1, "4000 (25)", None)


def test_what_is_read_may_be_the_limit():
    assert binding(1e6, 1e3, PEAK) == "arithmetic"
    assert binding(1e3, 1e6, PEAK) == "memory"
    assert tables(outcome(entry("untuned", None, 4.0), flops=1.0, bytes_=2e6))["operators"][0]["untuned"] == "4000 (50)"


def test_equal_time_is_told_by_seed_with_the_goal_and_the_means():
    one, two, means = tables(FULL)["operators-equal-time"]
    assert (one["metaschedule s"], one["tunesmith s"], one["candidates"]) == (80.0, 79.0, 300)
    assert (one["ratio"], one["of the goal"]) == (pytest.approx(2.0), pytest.approx(1.0))
    assert (one["kernels ratio"], one["kernels of the goal"]) == (pytest.approx(2.0), pytest.approx(1.0))
    assert two["ratio"] == pytest.approx(2.0)
    assert (means["operator"], means["seed"], means["ratio"]) == ("geometric mean", None, pytest.approx(2.0))
    assert means["kernels ratio"] == pytest.approx(2.0)


def test_a_run_with_less_time_says_so():
    def text(seconds):
        one = outcome(
            entry("metaschedule-64", 0, 1.2, tuned_seconds=80.0), entry("tunesmith", 0, 1.0, tuned_seconds=seconds)
        )
        return next(r.summary for r in figures.reports([one, FULL], {}) if r.name == figures.EQUAL_TIME)

    assert text(79.0) == figures.EQUAL_TEXT
    assert text(20.0) == figures.EQUAL_TEXT, "in one of them it had all"
    short = replace(
        FULL,
        entries=[
            replace(e, tuned_seconds=e.tuned_seconds and e.tuned_seconds / 2) if e.runtime == "tunesmith" else e
            for e in FULL.entries
        ],
    )
    (made,) = [r for r in figures.reports([short], {}) if r.name == figures.EQUAL_TIME]
    assert made.summary.endswith("Tunesmith had less: 49% to 49% of that time (`--seconds`).")


def test_near_the_limit_half_of_metaschedules_latency_is_not_asked_for():
    entries = (entry("metaschedule-64", 0, 1.2), entry("tunesmith", 0, 1.0))
    one, _ = tables(outcome(*entries))["operators-equal-time"]
    assert one["goal µs"] == pytest.approx(1000.0 / 0.93)
    assert one["of the goal"] == pytest.approx(1 / 0.93)
    assert one["kernels ratio"] is None


def test_ten_candidates_stand_against_all_of_metaschedules():
    one, means = tables(FULL)["operators-first-ten"]
    assert (one["ratio"], one["kernels ratio"]) == (pytest.approx(4 / 3), pytest.approx(1.5))
    assert means["ratio"] == pytest.approx(4 / 3)
    assert "1.33" in figures.verdict([FULL])


def test_ragged_shapes_have_a_table_of_their_own_and_tables_without_rows_are_left_out():
    found = tables(outcome(entry("tunesmith", 0, 2.0), case=Case("gemm:7x7x7:float32", 1, table=RAGGED)))
    assert list(found) == ["operators-ragged"]
    assert found["operators-ragged"][0]["operator"] == "gemm:7x7x7, one thread"
    assert figures.reports([], {}) == []
    assert figures.verdict([]) == ""


def test_what_failed_or_is_wrong_is_noted_and_does_not_win():
    wrong = replace(entry("tunesmith", 0, 2.0).result, error=0.5)
    failed = Entry("metaschedule-64", 0, Result("metaschedule-64", failure="gave up"))
    found = tables(outcome(Entry("tunesmith", 0, wrong), failed, entry("metaschedule-16", 0, 1.0)))
    (row,) = found["operators"]
    assert row["tunesmith"] is None
    assert row["note"] == "tunesmith: other outputs (5.0e-01); metaschedule-64: gave up"
    assert "operators-equal-time" not in found


def test_the_setup_names_what_the_recordings_were_made_with():
    assert figures.reports([FULL], {"CPU": "x"})[0].setup == {
        "CPU": "x",
        "MetaSchedule's runs recorded with apache-tvm": "1.2",
    }


def test_latencies_of_all_runtimes_are_kept_in_seconds():
    head, *rows = figures.latencies([FULL])
    values = dict(zip(head, rows[4], strict=True))
    assert (values["runtime"], values["latency"], values["kernel"], values["other kernels"]) == (
        "tunesmith",
        pytest.approx(2e-3),
        pytest.approx(1.25e-3),
        pytest.approx(2.5e-4),
    )
    assert values["share"] == pytest.approx(0.5)


def test_shares_are_drawn():
    from matplotlib.figure import Figure

    axes = Figure().subplots()
    figures.draw(axes, [FULL])
    assert [text.get_text() for text in axes.get_yticklabels()] == ["gemm:100x100x50"]
    assert max(bar.get_width() for bar in axes.patches) == pytest.approx(50.0)


# Which operators


def test_by_default_all_operators_run_and_one_of_them_on_one_thread_too():
    found = chosen(None, False, None, 2)
    assert [case.operator for case in found if case.record_missing] == list(OPERATORS)
    assert [(case.operator, case.threads) for case in found if case.threads == 1] == [(OPERATORS[0], 1)]
    assert [case.operator for case in found if case.table == RAGGED] == list(cases.RAGGED_OPERATORS)
    assert all(case.threads == 1 for case in chosen(None, False, 1, 2))
    assert len(chosen(None, False, None, 1)) == len(found) - 1


def test_what_is_asked_for_meets_metaschedule_and_quick_meets_recordings_alone():
    assert chosen(["gemm:8x8x8"], False, None, 4) == [Case("gemm:8x8x8:float32", 4, record_missing=True)]
    ragged = cases.RAGGED_OPERATORS[1]
    assert chosen([ragged], False, 2, 4) == [Case(ragged, 2, record_missing=True, table=RAGGED)]
    quick = chosen(None, True, None, 4)
    assert len(quick) == 2
    assert not any(case.record_missing for case in quick)
    with pytest.raises(InvalidOperator):
        chosen(["gemm:8"], False, None, 4)


# Kernels and first candidates


def test_the_operator_is_told_from_what_stands_around_it():
    calls = [("pack", [2.0, 1.0, 3.0]), ("conv", [5.0]), ("unpack", [1.0])]
    assert summed(calls, {"conv"}) == Kernels(5.0, 3.0)
    with pytest.raises(MeasurementFailed, match="dense is not among the kernels pack, conv, unpack"):
        summed(calls, {"dense"})


def test_failed_candidates_count_among_the_first_and_the_default_schedule_does_not():
    trials = [{"workload": "a", "sketch": None, "decisions": [], "latency": 9.0}]
    trials += [
        {"workload": "a", "sketch": "s", "decisions": [at, [2, 4]], "latency": None if at == 2 else 8.0 - at}
        for at in range(5)
    ]
    trials += [
        {"workload": "b", "sketch": None, "decisions": [], "latency": 1.0},
        {"workload": "b", "sketch": "t", "decisions": [], "latency": 2.0},
    ]
    found = first.best_of_first(measured_of(trials), 4)
    assert found == {"a": (Candidate("s", (3, (2, 4))), 5.0), "b": (Candidate(None), 1.0)}
    assert first.best_of_first([Measured("a", Candidate("s"), None)]) == {}


def test_a_champion_is_what_was_measured_again_and_won():
    def trial(at, latency, samples=(), won=True, champion=None):
        beside = champion and {"index": 0, "sketch": "s", "decisions": champion}
        repeated = {"samples": list(samples), "won": won, "champion": beside}
        return {
            "workload": "a",
            "sketch": "s",
            "decisions": [at],
            "latency": latency,
            "confirmation": repeated if samples else None,
        }

    trials = [
        trial(0, 5.0),
        trial(1, 3.0, [4.0, 3.5, 4.5]),
        trial(2, 1.0, [9.0, 9.0, 9.0], won=False, champion=[1]),
        trial(3, 3.0, [2.5, 2.0, 2.6], champion=[4]),
        trial(4, 2.0, [3.0], champion=[1]),
        trial(5, 1.9),
    ]
    found = [first.champions_of_first(measured_of(trials), count).get("a") for count in (1, 2, 3, 6)]
    second, last = (Candidate("s", (1,)), 4.0), (Candidate("s", (3,)), 2.5)
    assert found == [None, second, second, last], "the later one of a batch stood beside the other"
    unconfirmed = measured_of([trial(0, 5.0), trial(1, 3.0)])
    assert first.champions_of_first(unconfirmed, 2) == first.best_of_first(unconfirmed, 2)
