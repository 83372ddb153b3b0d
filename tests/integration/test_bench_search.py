from __future__ import annotations

from dataclasses import replace

import pytest
from operator_runs import recorded_run

from benchmarks.models import tuning
from benchmarks.models.tuning import Measured, Point, Tuned
from benchmarks.operators import recordings
from benchmarks.operators.cases import Case
from benchmarks.operators.kernels import Kernels
from benchmarks.operators.lineup import Lineup
from benchmarks.search import contest
from benchmarks.search.contest import Chase, Course, Outcome, Rival
from benchmarks.tuners.outcome import Trial
from tunesmith.cli.main import run_command_line
from tunesmith.errors import MeasurementFailed
from tunesmith.preparation import PLAIN, Preparation
from workers.peers.comparison import Result

pytestmark = pytest.mark.pair
OPERATOR = "gemm:16x16x16:float32"


@pytest.fixture
def asked(tmp_path, monkeypatch):
    """A recorded run of MetaSchedule, and Tunesmith without its stack; the list holds what that was asked for."""
    ask, recording, (first, second, third) = recorded_run(
        OPERATOR, "metaschedule-16", (Trial(30.0, 2e-3), Trial(60.0, 1e-3)), tmp_path / "plain"
    )
    recordings.keep(recording, ask, tmp_path / "runs")
    workload, found = recording.outcome.workload, []

    def tunesmith(model, request, folder):
        found.append(request)
        if request.search == "random":
            raise MeasurementFailed("no luck")
        if request.space == "all":
            return Tuned([], Preparation(fast_math=True), 3, 9.0, (), (Point(5.0, 1.0),))
        slow = [Measured(workload, second, 3e-3)] * 40
        return Tuned([], PLAIN, 42, 9.0, (Measured(workload, first, None), *slow, Measured(workload, third, 1e-3)))

    monkeypatch.setattr(tuning, "tunesmith_warm", tunesmith)
    return found


@pytest.fixture
def timed(monkeypatch):
    """Timing without processes: every library that was built takes as many milliseconds as entries came before it."""

    def time(lineup, slice_, passes):
        for number, (name, entry) in enumerate(lineup.entries.items(), start=1):
            if (lineup.folder / f"{name}.so").exists():
                result = Result(name, [1e-3 * number], error=1e-6)
                lineup.entries[name] = replace(entry, result=result, kernels=Kernels(1e-3 * number, 0.0))

    monkeypatch.setattr(Lineup, "time", time)


def test_the_best_after_some_trials_are_timed_beside_the_recorded_winner(tmp_path, asked, timed):
    plan = contest.Plan(("genetic", "random"), None, 0.02, 2, tmp_path / "runs")
    (tmp_path / "work").mkdir()
    outcome = contest.hold(Case(OPERATOR, 1), 0, plan, tmp_path / "work", print)
    assert [(request.search, request.space, request.trials, request.seconds) for request in asked] == [
        ("genetic", "tvm", 128, contest.LIMIT),
        ("random", "tvm", 128, contest.LIMIT),
        ("genetic", "all", None, 60.0),
        ("random", "all", None, 60.0),
    ]
    assert [(entry.runtime, entry.result.failure) for entry in outcome.entries] == [
        ("metaschedule-16", ""),
        ("genetic-tvm", ""),
        ("genetic-tvm-32", ""),
        ("random-tvm", "no luck"),
        ("genetic-all", ""),
        ("random-all", "no luck"),
    ]
    (rival,) = outcome.rivals
    assert (rival.recorded, rival.timed, rival.wall) == ({32: 1e-3, 64: 1e-3, 128: 1e-3}, 1e-3, 60.0)
    (course,), (chase,) = outcome.courses.values(), outcome.chases.values()
    assert course.timed == {32: 3e-3, 64: 2e-3, 128: 2e-3}, "what is the best after 64 is built and timed once"
    assert chase.timed == 5e-3
    assert (course.bests[0], course.bests[-2:], len(course.bests)) == (float("inf"), (3e-3, 1e-3), 42)
    assert course.needed(course.timed[128]) == 42
    assert chase.reached(chase.timed) == 5.0
    asked.clear()
    (tmp_path / "again").mkdir()
    without = contest.hold(Case(OPERATOR, 1), 1, plan, tmp_path / "again", print)
    assert (without.entries, asked) == ([], []), "nothing is tuned without a time, or with nothing to compare with"
    for number, (searchers, runs) in enumerate([(("genetic",), 0), (("genetic", "random"), 4)]):
        (tmp_path / f"more{number}").mkdir()
        contest.hold(
            Case(OPERATOR, 1), 1, replace(plan, searchers=searchers, seconds=20.0), tmp_path / f"more{number}", print
        )
        assert len(asked) == runs


def test_search_side_by_side(capsys, tmp_path, monkeypatch):
    asked, page, names = [], tmp_path / "page.md", ("search", "search-time")

    def hold(case, seed, plan, folder, tell):
        asked.append((case, seed, plan.searchers))
        course, chase = Course((2e-3,) * 128, {128: 2e-3}), Chase((Point(5.0, 1e-3),), 1e-3, 60.0)
        return Outcome(
            case,
            seed,
            [Rival("metaschedule-64", {32: 4e-3, 64: 4e-3, 128: 4e-3}, 4e-3, 50.0)],
            {"genetic": course},
            {"genetic": chase},
            [],
        )

    monkeypatch.setattr(contest, "hold", hold)
    page.write_text("".join(f"<!-- bench:{name} -->\nold\n<!-- /bench:{name} -->\n" for name in names))
    status = run_command_line(
        [
            "bench",
            "search",
            "--operator",
            OPERATOR,
            "--seeds",
            "2",
            "--no-record",
            "--threads",
            "1",
            "--out",
            str(tmp_path / "out"),
            "--docs",
            str(page),
        ]
    )
    said = capsys.readouterr()
    assert status == 0, said
    assert asked == [(Case(OPERATOR, 1), seed, ("genetic",)) for seed in (0, 1)]
    assert "genetic: after 32 –, after 64 –, after 128 0.5, share of trials 0.00781" in said.out
    assert page.read_text().count("| gemm:16x16x16, one thread | genetic | 1 |") == 2
    for name in ("search.csv", "search-time.csv", "search-latencies.csv", "search.svg"):
        assert (tmp_path / "out" / name).stat().st_size > 0


def test_searchers_that_are_not_there_are_usage(capsys):
    assert run_command_line(["bench", "search", "--search", "magic"]) == 2
    assert "there is no searcher 'magic'" in capsys.readouterr().err
