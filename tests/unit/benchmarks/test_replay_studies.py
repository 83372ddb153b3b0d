from __future__ import annotations

import csv
import itertools
import time
from pathlib import Path

import numpy as np
import pytest
from recordings import synthetic
from typer.testing import CliRunner

from benchmarks.replay import best, forecasts, models, searchers
from benchmarks.replay.clocked import Clocked
from benchmarks.replay.command import app
from benchmarks.replay.ranking import FEWEST, Ranker
from benchmarks.replay.searchers import JudgedRuns, Method, Runs
from benchmarks.replay.workloads import DATA, WORKLOADS, file_of, load_all
from tunesmith.errors import InvalidInput, UnknownSearcher
from tunesmith.names import SAMPLERS
from tunesmith.operators import parse_operator
from tunesmith.search.registry import SEARCHERS, make_searcher
from tunesmith.space.base import PointBatch, Scores
from tunesmith.testing.replay import Recording

BATCH = 8


@pytest.fixture(scope="module")
def toys() -> list[Recording]:
    return [synthetic(f"toy{i}", i) for i in range(3)]


def test_every_searcher_is_replayed() -> None:
    assert {m.searcher for m in searchers.methods()} == set(SEARCHERS) - set(SAMPLERS)
    assert Method("random", True) not in searchers.methods()


@pytest.mark.parametrize("method", searchers.methods(), ids=lambda m: m.name)
def test_replays_repeat_and_find_the_optimum(method: Method) -> None:
    toy = synthetic("small", 3, points=16)
    runs, repeated = (searchers.run(toy, method, (0,), len(toy.points), BATCH) for _ in range(2))
    assert runs.curves.shape == (1, len(toy.points))
    assert (runs.curves[:, -1] == toy.optimum).all()
    assert (runs.curves == repeated.curves).all()
    assert (runs.thinking > 0).all()
    assert (runs.scored >= 1).all()


def test_random_search_scores_about_zero(toys: list[Recording]) -> None:
    toy = toys[1]
    runs = searchers.run(toy, Method("random", False), range(60), 12, 4)
    outcome = searchers.judge(toy, Method("random", False), runs)
    # Random search draws sketches by the logarithm of their size, so it is not exactly uniform.
    assert abs(outcome.score.mean()) < 0.25


def test_a_cost_model_that_learns_ranks_better_than_chance(toys: list[Recording]) -> None:
    toy = toys[0]
    ranker = Ranker(toy, 0)
    everything = toy.space.at(toy.points)
    assert not ranker.score(everything).mean.any()
    known = np.random.default_rng(0).permutation(toy.points)[:40]
    candidates = toy.space.candidates(toy.space.at(known))
    ranker.learn(toy.measure(candidates[: FEWEST - 1]))
    assert not ranker.score(everything).mean.any()
    ranker.learn(toy.measure(candidates[FEWEST - 1 :]))
    valid = np.isfinite(toy.seconds[toy.points])
    ranks = np.argsort(np.argsort(ranker.score(everything).mean[valid]))
    speed = np.argsort(np.argsort(-toy.seconds[toy.points][valid]))
    assert np.corrcoef(ranks, speed)[0, 1] > 0.5


def test_reports_name_every_method(toys: list[Recording]) -> None:
    methods = searchers.methods(["random", "genetic"])
    outcomes = [
        searchers.judge(toy, method, searchers.run(toy, method, (0, 1), searchers.budget_of(toy), BATCH))
        for toy in toys
        for method in methods
    ]
    report = searchers.report(outcomes, {})
    assert {row[0] for row in report.rows} == {"random", "genetic", "genetic + cost model"}
    assert [row[1] for row in report.rows] == sorted((row[1] for row in report.rows), reverse=True)
    assert all(row[2] <= row[1] <= row[3] for row in report.rows)
    assert len(searchers.details(outcomes, {}).rows) == len(outcomes)


def test_rounds_are_given_until_the_curves_end(toys: list[Recording]) -> None:
    runs = [searchers.run(toy, Method("random", False), (0,), 2 * BATCH, BATCH) for toy in toys]
    curves = np.stack([forecasts.rounds_of(each.curves, BATCH)[0] for each in runs])
    order = forecasts.order_of("round-robin", toys, curves, BATCH, 0)
    assert sorted(order) == sorted(2 * list(range(len(toys))))
    assert all(task.exhausted for task in forecasts.views(toys, curves, order, BATCH))
    assert forecasts.study(toys, curves[:, None], BATCH).keys() <= set(
        itertools.product(forecasts.ALLOCATORS, forecasts.SHARES)
    )


def test_models_beat_random_ranks(toys: list[Recording]) -> None:
    trials = [models.run(toy, name, 40, seed) for toy in toys for name in models.names() for seed in (0, 1)]
    report = models.report(trials, {})
    accuracy = {row[0]: row[2] for row in report.rows}
    assert accuracy[models.NOTHING] == pytest.approx(0.5, abs=0.08)
    assert all(value > 0.65 for name, value in accuracy.items() if name != models.NOTHING)
    assert all(len(t.scores) == len(t.recording.points) - 40 for t in trials)


@pytest.mark.thorough
def test_the_command_writes_its_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a few searchers: each is replayed above."""
    few = searchers.methods(["random", "genetic", "portfolio"])
    monkeypatch.setattr(searchers, "methods", lambda names: few)
    for toy in (synthetic(f"toy{seed}", seed, points=16) for seed in range(2)):
        toy.save(tmp_path / f"{toy.name}.npz")
    out = tmp_path / "out"
    done = CliRunner().invoke(app, ["--seeds", "2", "--jobs", "1", "--data", str(tmp_path), "--out", str(out)])
    assert done.exit_code == 0, done.output
    with (out / "replay.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["searcher"] for row in rows} == {m.name for m in few}
    stems = ("replay", "replay-best", "replay-spaces", "replay-forecasts", "replay-models")
    names = {f"{stem}{suffix}" for stem in stems for suffix in (".csv", ".md")}
    assert {p.name for p in out.iterdir()} == names | {"replay.svg"}


@pytest.mark.thorough
def test_some_searchers_are_studied_alone(tmp_path: Path) -> None:
    synthetic("toy", points=16).save(tmp_path / "toy.npz")
    out = tmp_path / "out"
    arguments = ["--searcher", "random", "--seeds", "2", "--jobs", "1", "--data", str(tmp_path), "--out", str(out)]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    with (out / "replay.csv").open() as file:
        assert [row["searcher"] for row in csv.DictReader(file)] == ["random"]
    assert not (out / "replay-models.csv").exists()
    wrong = CliRunner().invoke(app, ["--searcher", "no-such", "--data", str(tmp_path)])
    assert isinstance(wrong.exception, UnknownSearcher)


def outcome(toy: Recording, searcher: str, chosen_by: float, judged_by: float) -> JudgedRuns:
    """P of two seeds, the first of which chooses."""
    curves = np.full((2, 4), toy.optimum)
    values = np.repeat([[chosen_by], [judged_by]], 4, axis=1)
    return JudgedRuns(toy, Method(searcher, False), Runs(curves, np.ones(2), np.ones(2)), values)


def test_the_portfolio_is_held_against_the_best_of_each_space(toys: list[Recording]) -> None:
    first = [("random", 0.1, 0.9), ("genetic", 0.5, 0.2), ("portfolio", 0.0, 0.4)]
    second = [("random", 0.3, 0.1), ("genetic", 0.2, 0.8), ("portfolio", 0.9, 0.6)]
    found = [outcome(toy, *each) for toy, group in zip(toys, (first, second), strict=False) for each in group]
    rows = [row for row in best.report(found, {}).rows if row[2] == "without a cost model"]
    assert [(*row[3:7], row[9]) for row in rows] == [
        ("genetic", 0.2, 0.4, -0.2, -0.2),
        ("random", 0.1, 0.6, -0.5, 0.2),
        ("genetic", 0.5, 0.5, 0.0, 0.0),
        ("each space's own", 0.15, 0.5, -0.35, 0.0),
    ]
    assert all(row[7] <= row[6] <= row[8] for row in rows)
    assert [row[1] for row in rows] == ["tuning", "held out", None, None]


def test_without_a_portfolio_nothing_is_behind(toys: list[Recording]) -> None:
    rows = best.report([outcome(toys[0], "random", 0.1, 0.9)], {}).rows
    assert all(row[4:] == (0.9, None, None, None, None, None) for row in rows)


def test_the_clock_of_a_searcher_leaves_the_scores_out(toys: list[Recording]) -> None:
    toy, slow = toys[0], 0.0

    def score(batch: PointBatch) -> Scores:
        nonlocal slow
        started = time.process_time()
        while time.process_time() - started < 0.05:
            pass
        slow += time.process_time() - started
        return toy.validity(batch)

    plain, clocked = (make_searcher("genetic", toy.space, 0) for _ in range(2))
    watched = Clocked(clocked, toy.space)
    started = time.process_time()
    asked = watched.ask(8, score=score)
    whole = time.process_time() - started
    assert asked == plain.ask(8, score=toy.validity)
    assert watched.proposed == 8 <= len(watched.scored) <= toy.space.size
    assert 0 < watched.seconds <= whole - slow


def test_no_recording_is_said(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="collect"):
        load_all(tmp_path)


def test_workloads_are_operators_with_files_of_their_own(tmp_path: Path) -> None:
    assert len({file_of(spec, tmp_path) for spec in WORKLOADS}) == len(WORKLOADS)
    for spec in WORKLOADS:
        parse_operator(spec)


def test_shipped_recordings_are_small_and_sound() -> None:
    paths = sorted(DATA.glob("*.npz"))
    assert sum(path.stat().st_size for path in paths) <= 1_000_000
    for path in paths:
        shipped = Recording.load(path)
        assert shipped.name in WORKLOADS
        assert path == file_of(shipped.name, DATA)
        assert shipped.facts["complete"]
        assert shipped.missing == 0
        assert len(shipped.points) >= 100
        assert searchers.budget_of(shipped) >= 2 * BATCH
