from __future__ import annotations

from dataclasses import replace

import pytest
from operator_runs import recorded_run

from benchmarks.harness import jobs
from benchmarks.harness.jobs import Measured, Point, Tuned
from benchmarks.harness.kernels import Kernels
from benchmarks.operators import recordings
from benchmarks.operators.cases import Case
from benchmarks.operators.contenders import OperatorComparison
from benchmarks.search import comparison
from benchmarks.search.comparison import Baseline, SearchOutcome, TimedRun, TrialRun
from benchmarks.tuners.outcome import Trial
from tunesmith.cli.main import run_command_line
from tunesmith.errors import MeasurementFailed
from tunesmith.preparation import PLAIN, Preparation
from workers.peers.comparison import Result

pytestmark = pytest.mark.servers
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
            raise MeasurementFailed("gave up")
        if request.space == "all":
            return Tuned([], Preparation(fast_math=True), 3, 9.0, (), (Point(5.0, 1.0),))
        slow = [Measured(workload, second, 3e-3)] * 40
        return Tuned([], PLAIN, 42, 9.0, (Measured(workload, first, None), *slow, Measured(workload, third, 1e-3)))

    monkeypatch.setattr(jobs, "tune_warm", tunesmith)
    return found


@pytest.fixture
def timed(monkeypatch):
    """Timing without processes: every library that was built takes as many milliseconds as entries came before it."""

    def time(compared, slice_, passes):
        for number, (name, entry) in enumerate(compared.entries.items(), start=1):
            if (compared.folder / f"{name}.so").exists():
                result = Result(name, [1e-3 * number], error=1e-6)
                compared.entries[name] = replace(entry, result=result, kernels=Kernels(1e-3 * number, 0.0))

    monkeypatch.setattr(OperatorComparison, "run", time)


def test_the_best_after_some_trials_are_timed_beside_the_recorded_winner(tmp_path, asked, timed):
    plan = comparison.SearchPlan(("genetic", "random"), None, 0.02, 2, tmp_path / "runs")
    (tmp_path / "work").mkdir()
    outcome = comparison.run(Case(OPERATOR, 1), 0, plan, tmp_path / "work", print)
    assert [(request.search, request.space, request.trials, request.seconds) for request in asked] == [
        ("genetic", "tvm", 128, comparison.RUN_SECONDS),
        ("random", "tvm", 128, comparison.RUN_SECONDS),
        ("genetic", "all", None, 60.0),
        ("random", "all", None, 60.0),
    ]
    assert [(entry.runtime, entry.result.failure) for entry in outcome.entries] == [
        ("metaschedule-16", ""),
        ("genetic-tvm", ""),
        ("genetic-tvm-32", ""),
        ("random-tvm", "gave up"),
        ("genetic-all", ""),
        ("random-all", "gave up"),
    ]
    (baseline,) = outcome.baselines
    assert (baseline.recorded, baseline.timed, baseline.wall) == ({32: 1e-3, 64: 1e-3, 128: 1e-3}, 1e-3, 60.0)
    (trial_run,), (timed_run,) = outcome.trial_runs.values(), outcome.timed_runs.values()
    assert trial_run.timed == {32: 3e-3, 64: 2e-3, 128: 2e-3}, "what is the best after 64 is built and timed once"
    assert timed_run.timed == 5e-3
    assert (trial_run.bests[0], trial_run.bests[-2:], len(trial_run.bests)) == (float("inf"), (3e-3, 1e-3), 42)
    assert trial_run.needed(trial_run.timed[128]) == 42
    assert timed_run.reached(timed_run.timed) == 5.0
    asked.clear()
    (tmp_path / "again").mkdir()
    without = comparison.run(Case(OPERATOR, 1), 1, plan, tmp_path / "again", print)
    assert (without.entries, asked) == ([], []), "nothing is tuned without a time, or with nothing to compare with"
    for number, (searchers, runs) in enumerate([(("genetic",), 0), (("genetic", "random"), 4)]):
        (tmp_path / f"more{number}").mkdir()
        comparison.run(
            Case(OPERATOR, 1), 1, replace(plan, searchers=searchers, seconds=20.0), tmp_path / f"more{number}", print
        )
        assert len(asked) == runs


def test_search_side_by_side(capsys, tmp_path, monkeypatch):
    asked, page, names = [], tmp_path / "page.md", ("search", "search-time")

    def compare(case, seed, plan, folder, tell):
        asked.append((case, seed, plan.searchers))
        trial_run, timed_run = TrialRun((2e-3,) * 128, {128: 2e-3}), TimedRun((Point(5.0, 1e-3),), 1e-3, 60.0)
        return SearchOutcome(
            case,
            seed,
            [Baseline("metaschedule-64", {32: 4e-3, 64: 4e-3, 128: 4e-3}, 4e-3, 50.0)],
            {"genetic": trial_run},
            {"genetic": timed_run},
            [],
        )

    monkeypatch.setattr(comparison, "run", compare)
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
    assert "there is no search 'magic'" in capsys.readouterr().err
