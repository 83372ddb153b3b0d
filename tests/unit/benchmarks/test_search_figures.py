from __future__ import annotations

import math

import pytest
from answers import whole

from benchmarks.harness.comparison import Entry
from benchmarks.harness.jobs import Measured, Point, curve_of
from benchmarks.operators.cases import Case
from benchmarks.operators.recordings import TRIALS, Recording, ask_for
from benchmarks.search import figures
from benchmarks.search.comparison import Baseline, SearchOutcome, TimedRun, TrialRun, baseline_of, bests_of
from benchmarks.tuners.outcome import Trial
from tunesmith.client import Job
from tunesmith.targets import Target
from tunesmith.types import Candidate
from workers.peers.comparison import Result

CASE = Case("gemm:100x100x50:float32", 2)
SLOW = Baseline("metaschedule-64", {32: 8.0, 64: 6.0, 128: 5.0}, 10.0, 100.0)
FAST = Baseline("metaschedule-16", {32: 10.0, 64: 4.0, 128: 4.0}, 4.0, 200.0)
BESTS = (math.inf, 9.0, *[3.0] * 60, *[1.0] * 66)
"""As the tuner measured, which is half of what is timed: 6 from the third trial on, 2 from the sixty-third."""
TRIAL_RUN = TrialRun(BESTS, {32: 6.0, 64: 2.0, 128: 2.0})
TIMED_RUN = TimedRun((Point(1.0, 16.0), Point(30.0, 8.0), Point(50.0, 7.0)), 3.5, 200.0)


def outcome(*baselines, trial_run=TRIAL_RUN, timed_run=TIMED_RUN, seed=0, searcher="genetic"):
    return SearchOutcome(
        CASE, seed, list(baselines), {searcher: trial_run}, {searcher: timed_run}, [], {"apache-tvm": "1.2"}
    )


def tables(*outcomes):
    return {
        report.name: [dict(zip(report.columns, row, strict=True)) for row in report.rows]
        for report in figures.reports(outcomes, {"CPU": "x"})
    }


def test_a_recorded_curve_is_scaled_by_what_its_winner_takes_now():
    assert [SLOW.after(count) for count in (32, 64, 128)] == [16.0, 12.0, 10.0]
    assert outcome(SLOW, FAST).baseline is FAST
    trials = tuple(Trial(1.0 * at, None if at < 40 else 100.0 - at) for at in range(TRIALS))
    run = ask_for(CASE.operator, Target({"kind": "llvm", "num-cores": 2}), "metaschedule-16", 0)
    recording = Recording(run.outcome(elapsed=127.0, trials=trials), {})
    assert baseline_of(recording, 5.0) == Baseline("metaschedule-16", {32: math.inf, 64: 37.0, 128: -27.0}, 5.0, 127.0)
    assert baseline_of(recording, None) is None


def test_latencies_stand_over_those_of_the_better_metaschedule_after_as_many_trials():
    one, means = tables(outcome(SLOW, FAST))["search"]
    assert (one["operator"], one["searcher"], one["seed"]) == ("gemm:100x100x50", "genetic", 0)
    assert [one[f"after {count}"] for count in (32, 64, 128)] == [0.6, 0.5, 0.5]
    assert one["share of trials"] == 63 / 128
    assert (means["operator"], means["searcher"], means["seed"]) == ("geometric mean", "genetic", None)
    assert means["after 64"] == pytest.approx(0.5)


def test_time_counts_until_metaschedules_winner_is_met():
    one, _ = tables(outcome(SLOW, FAST))["search-time"]
    assert (one["metaschedule s"], one["tunesmith s"], one["share of the time"]) == (200.0, 30.0, 0.15)
    assert one["ratio"] == pytest.approx(3.5 / 4.0)


def test_a_goal_that_was_not_reached_counts_as_all_trials_and_all_time():
    never = outcome(
        FAST, trial_run=TrialRun((2.0,) * 128, {128: 8.0}), timed_run=TimedRun(TIMED_RUN.curve, 9.0, 200.0), seed=1
    )
    found = tables(outcome(FAST), never)
    assert [row["share of trials"] for row in found["search"]] == [63 / 128, None, pytest.approx((63 / 128) ** 0.5)]
    assert [row["after 32"] for row in found["search"]][:2] == [0.6, None]
    assert [row["share of the time"] for row in found["search-time"]] == [0.15, None, pytest.approx(0.15**0.5)]


def test_searchers_have_means_of_their_own():
    found = tables(outcome(FAST), outcome(FAST, trial_run=TrialRun(BESTS, {128: 8.0}), searcher="random"))["search"]
    assert [(row["searcher"], row["after 128"]) for row in found if row["operator"] == "geometric mean"] == [
        ("genetic", pytest.approx(0.5)),
        ("random", pytest.approx(2.0)),
    ]
    assert "genetic: after 32 0.6, after 64 0.5, after 128 0.5, share of trials 0.492" in figures.verdict(
        figures.reports([outcome(FAST)], {})
    )


def test_without_metaschedule_there_is_nothing_to_compare():
    assert figures.reports([outcome()], {}) == []


def test_the_best_so_far_leaves_the_default_schedule_out_and_counts_failures():
    measured = [Measured("a", Candidate(None), 1.0), Measured("a", Candidate("s"), None)]
    measured += [Measured("a", Candidate("s"), latency) for latency in (5.0, 7.0, 3.0)]
    assert bests_of(measured) == (math.inf, 5.0, 5.0, 3.0)


def test_a_curve_counts_from_the_submission_and_begins_with_the_first_round():
    job = Job.read(whole(Job, {"created_at": "2026-01-01T00:00:00Z", "started_at": "2026-01-01T00:00:02Z"}))
    points = [{"trials": 0, "seconds": 0.0, "latency": 9.0}, {"trials": 4, "seconds": 1.5, "latency": 2.0}]
    assert curve_of(job, points) == (Point(3.5, 2.0),)


def test_every_entry_is_kept_in_seconds():
    entries = [Entry("genetic-tvm", 0, Result("genetic-tvm-seed0", failure="gave up"))]
    head, row = figures.latencies([SearchOutcome(CASE, 0, [], {}, {}, entries)])
    assert dict(zip(head, row, strict=True))["failure"] == "gave up"


def test_curves_are_drawn():
    from matplotlib.figure import Figure

    axes = Figure().subplots()
    figures.draw(axes, [outcome(FAST), outcome(SLOW, trial_run=TrialRun((1.0,) * 40, {128: 5.0}), seed=1)])
    ours, theirs, _ = axes.get_lines()
    assert ours.get_ydata()[-1] == pytest.approx((0.5 * 0.5) ** 0.5)
    assert math.isnan(ours.get_ydata()[0])
    assert theirs.get_ydata()[-1] == pytest.approx(1.0)
    figures.draw(Figure().subplots(), [outcome()])


def test_searchers_are_held_beside_the_first_without_metaschedule():
    better = TrialRun(BESTS, {32: 3.0, 128: 1.0})
    both = SearchOutcome(
        CASE, 3, [], {"genetic": TRIAL_RUN, "droplet": better}, {"droplet": TIMED_RUN}, [], {}, ("genetic", "droplet")
    )
    found = tables(both)
    assert list(found) == ["search-beside"]
    one, means = found["search-beside"]
    assert (one["searcher"], one["seed"], one["compared with"]) == ("droplet", 3, "genetic")
    assert (one["its µs"], one["µs"]) == (2e6, 1e6)
    assert [one[name] for name in ("after 32", "after 64", "after 128", "everything on")] == [0.5, None, 0.5, None]
    assert (means["searcher"], means["after 128"]) == ("droplet", 0.5)
    failed = SearchOutcome(
        CASE,
        0,
        [],
        {"droplet": better},
        {"genetic": TIMED_RUN, "droplet": TimedRun((), 7.0, 9.0)},
        [],
        {},
        ("genetic", "droplet"),
    )
    (one, _) = tables(failed)["search-beside"]
    assert (one["its µs"], one["after 32"], one["after 128"], one["everything on"]) == (None, None, None, 2.0)
