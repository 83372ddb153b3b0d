"""``tunesmith bench allocation`` on made-up learning curves whose outcome is known."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from benchmarks.allocation import figures
from benchmarks.allocation.curves import ModelCurves, TaskCurve, curves_of, load_all
from benchmarks.allocation.hindsight import hindsight
from benchmarks.allocation.replay import ReplayedRun, mixed, replay
from benchmarks.commands import app
from tunesmith.errors import InvalidInput


def curve(name: str, *rounds: float | None, weight: float = 1.0, overhead: float = 1.0, **values: Any) -> TaskCurve:
    """Rounds of 16 whose first candidate already brings what the round does, of 2 s each."""
    return TaskCurve(
        **{
            "name": name,
            "family": name[:1],
            "weight": weight,
            "flops": 1e9,
            "untuned": 10.0,
            "alternative_of": None,
            "bests": tuple(best for best in rounds for _ in range(16)),
            "seconds": (1 / 16,) * 16 * len(rounds),
            "sizes": (16,) * len(rounds),
            "overheads": (overhead,) * len(rounds),
            **values,
        }
    )


FLAT = curve("flat", *(4.0,) * 6)
STEEP = curve("steep", 8.0, 6.0, 4.0, 2.0, 1.0, 1.0, weight=5.0)


def test_rounds_follow_the_allocator_and_time_is_theirs() -> None:
    course = replay((FLAT, STEEP), "gradient", 0)
    assert (course.untuned, course.first, course.best) == (60.0, 4.0 + 5 * 8.0, 9.0)
    assert course.seconds.tolist() == [2.0 * n for n in range(1, 13)]
    assert course.latency[0] == 10.0 + 5 * 8.0, "the other task still runs with its default schedule"
    assert course.latency[1] == course.first
    assert course.latency[-1] == course.best
    assert course.reached(11.55) == 12.0, "every round but the first of the flat task went to the steep one"
    assert course.reached(8.0) == course.seconds[-1]
    even = replay((FLAT, STEEP), "round-robin", 0)
    assert even.reached(11.55) == 18.0
    assert replay((FLAT, STEEP), "bandit", 0).reached(11.55) < 18.0


def test_small_first_rounds_pay_for_each_round() -> None:
    even = replay((FLAT, STEEP), "bandit", 0, equal=True)
    small = replay((FLAT, STEEP), "bandit", 0)
    assert even.seconds[:2].tolist() == [2.0, 4.0]
    # Three candidates of a sixteenth of a second; the last task's has eight. What a round takes besides is a second.
    assert small.seconds[:2].tolist() == [1.1875, 2.6875]
    assert small.latency[1] == small.first
    rounds = len(small.seconds)
    assert small.seconds[-1] == pytest.approx(rounds * 1.0 + 12 * 1.0), "all candidates, and rounds cut anew"
    assert rounds == 14


def test_a_round_cut_anew_takes_what_the_next_one_took_besides() -> None:
    task = curve("a", 3.0, 2.0, overheads=(5.0, 1.0))
    assert task.took(0, 4) == 5.25
    assert task.took(4, 20) == 2.0
    assert task.took(20, 32) == 1.75


def test_a_pair_counts_as_the_service_counts_it() -> None:
    direct, alternative = curve("conv", 5.0, 4.5, 4.0, 4.0), curve("winograd", 3.0, 2.0, 2.0, 2.0, alternative_of=0)
    course = replay((direct, alternative), "gradient", 0)
    assert (course.untuned, course.first, course.best) == (10.0, 3.0, 2.0)
    assert len(course.seconds) < 8, "the direct task was given up"


def test_hindsight_takes_what_saves_most_for_a_second_and_nothing_else() -> None:
    late = curve("late", 9.0, 9.0, 1.0, 1.0, overhead=0.0)
    course = hindsight((FLAT, late))
    # The late one's first candidate saves 1 in 1/16 s, the flat one's 6 in 17/16 s with what its round takes besides,
    # and the late one's next 32 save 8 in 2 s.
    assert course.seconds.tolist() == [0.0625, 1.125, 3.125]
    assert course.latency.tolist() == [19.0, 13.0, 5.0]
    pair = hindsight((curve("conv", 5.0, 4.0), curve("winograd", 3.0, 2.0, alternative_of=0)))
    assert pair.latency.tolist() == [3.0, 2.0]


def test_each_seed_takes_the_curves_of_other_runs() -> None:
    runs = [ModelCurves("m", seed, (curve("a", float(seed)), curve("b", float(seed)))) for seed in range(2)]
    seen = {tuple(task.bests[0] for task in mixed(runs, seed)) for seed in range(20)}
    assert seen == {(0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (1.0, 1.0)}


def test_curves_are_kept_and_what_is_none_is_refused(tmp_path: Path) -> None:
    run = ModelCurves("m", 1, (curve("a", None, 2.0), STEEP), {"CPU": "x"})
    run.save(tmp_path)
    assert load_all(tmp_path) == {"m": [run]}
    (tmp_path / "n-0.json").write_text(json.dumps({"format": 99}))
    with pytest.raises(InvalidInput, match="another version"):
        load_all(tmp_path)
    (tmp_path / "n-0.json").write_text("[]")
    with pytest.raises(InvalidInput, match="no learning curves"):
        load_all(tmp_path)
    with pytest.raises(InvalidInput, match="record some"):
        load_all(tmp_path / "nowhere")


def test_a_job_becomes_curves() -> None:
    def task(key: int, **values: Any) -> dict[str, Any]:
        return {
            "id": key,
            "name": f"t{key}",
            "family": "f",
            "weight": 2,
            "flops": 1e6,
            "untuned_latency": 1.0,
            "workload": f"w{key}",
            "alternative_of": None,
            "tunable": True,
            **values,
        }

    def ended(number: int, task_id: int, second: int, best: float | None, **values: Any) -> dict[str, Any]:
        return {
            "number": number,
            "task": task_id,
            "state": "done",
            "size": 8,
            "best_after": best,
            "created_at": "2026-01-01T00:00:00Z",
            "finished_at": f"2026-01-01T00:00:{second:02d}Z",
            **values,
        }

    def trial(task_id: int, second: int, index: int, latency: float | None, **values: Any) -> dict[str, Any]:
        return {
            "task": task_id,
            "index": index,
            "latency": latency,
            "sketch": "s",
            "build_seconds": 1.0,
            "run_seconds": 0.25,
            "created_at": f"2026-01-01T00:00:{second:02d}Z",
            **values,
        }

    tasks = [task(7, tunable=False), task(8), task(9, alternative_of="w8")]
    rounds = [ended(2, 9, 9, None), ended(1, 8, 4, 0.5), ended(3, 8, 10, 0.25), ended(4, 9, 11, 1.0, state="cancelled")]
    rounds.append(ended(5, 8, 12, 0.25))
    trials = [
        trial(8, 3, 1, 0.4),
        trial(8, 3, 0, 0.75),
        trial(8, 3, 2, None),
        trial(8, 2, 3, 9.0, sketch=None),
        trial(7, 3, 0, 0.1),
        trial(9, 8, 0, None),
        trial(8, 9, 0, 0.6),
        trial(8, 9, 1, 0.2),
    ]
    found = curves_of("m", 0, tasks, rounds, trials, {})
    assert [t.name for t in found.tasks] == ["t8", "t9"]
    first, other = found.tasks
    assert first.bests == (0.75, 0.5, 0.5, 0.5, 0.25), "0.4 was not confirmed; none of a later round is worse"
    assert first.sizes == (3, 2)
    assert first.seconds == pytest.approx((1.5, 0.75, 0.75, 0.5, 0.5)), "the default schedule's run is the first one's"
    assert first.overheads == pytest.approx((1.0, 0.0)), "two candidates of 0.75 s in a second overlapped"
    assert (other.bests, other.sizes, other.overheads, other.alternative_of) == ((None,), (1,), (4.25,), 0)


def test_how_many_times_as_fast() -> None:
    def course(at: float, last: float = 100.0) -> ReplayedRun:
        return ReplayedRun(np.array([at, last]), np.array([1.2, 1.0]), 101.0, 2.0, 1.0)

    courses = {("m", "gradient"): [course(4.0), course(8.0)], ("m", "bandit"): [course(2.0, 50.0), course(2.0, 50.0)]}
    rows = {(row[0], row[1]): row for row in figures.report(courses, {}).rows}
    assert rows["95% from untuned", "bandit"][2] == pytest.approx(np.sqrt(2 * 4), abs=1e-3)
    assert rows["99% from untuned", "gradient"][2:6] == (1.0, 1.0, 1.0, 6.0)
    assert rows["50% from first rounds", "bandit"][5] == 2.0
    assert rows["95% from first rounds", "bandit"][2:6] == (2.0, 2.0, 2.0, 50.0)
    spread = rows["95% from untuned", "bandit"]
    assert 2.0 <= spread[3] <= spread[2] <= spread[4] <= 4.0


def test_the_command_writes_its_table(tmp_path: Path) -> None:
    for seed in range(2):
        ModelCurves("m", seed, (FLAT, STEEP)).save(tmp_path / "data")
    arguments = ["allocation", "--seeds", "2", "--allocator", "bandit", "--data", str(tmp_path / "data")]
    done = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    with (tmp_path / "allocation.csv").open() as file:
        shown = {row["allocator"] for row in csv.DictReader(file)}
    assert shown == {"gradient", "bandit", "bandit, rounds of 16", "hindsight"}
