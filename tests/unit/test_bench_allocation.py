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
from benchmarks.allocation.replay import Course, mixed, replay
from benchmarks.commands import app
from tunesmith.errors import InvalidInput


def curve(name: str, *bests: float | None, weight: float = 1.0, **values: Any) -> TaskCurve:
    return TaskCurve(**{
        "name": name, "family": name[:1], "weight": weight, "flops": 1e9, "untuned": 10.0, "alternative_of": None,
        "bests": bests, "seconds": (2.0,) * len(bests), "sizes": (16,) * len(bests), **values,
    })  # fmt: skip


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


def test_a_pair_counts_as_the_service_counts_it() -> None:
    direct, alternative = curve("conv", 5.0, 4.5, 4.0, 4.0), curve("winograd", 3.0, 2.0, 2.0, 2.0, alternative_of=0)
    course = replay((direct, alternative), "gradient", 0)
    assert (course.untuned, course.first, course.best) == (10.0, 3.0, 2.0)
    assert len(course.seconds) < 8, "the direct task was given up"


def test_hindsight_takes_what_saves_most_for_a_second_and_nothing_else() -> None:
    late = curve("late", 9.0, 9.0, 1.0, 1.0, seconds=(1.0,) * 4)
    course = hindsight((FLAT, late))
    # The flat one saves 6 in 2 s, the other 8 in 3 s, and one round of it alone 1 in 1 s.
    assert course.seconds.tolist() == [2.0, 3.0, 4.0, 5.0]
    assert course.latency.tolist() == [14.0, 13.0, 13.0, 5.0]
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
        return {"id": key, "name": f"t{key}", "family": "f", "weight": 2, "flops": 1e6, "untuned_latency": 1.0,
                "workload": f"w{key}", "alternative_of": None, "tunable": True, **values}

    def ended(number: int, task_id: int, second: int, best: float | None, **values: Any) -> dict[str, Any]:
        return {"number": number, "task": task_id, "state": "done", "size": 8, "best_after": best,
                "created_at": "2026-01-01T00:00:00Z", "finished_at": f"2026-01-01T00:00:{second:02d}Z", **values}

    tasks = [task(7, tunable=False), task(8), task(9, alternative_of="w8")]
    rounds = [ended(2, 9, 9, None), ended(1, 8, 4, 0.5), ended(3, 8, 10, 0.25), ended(4, 9, 11, 1.0, state="cancelled")]
    found = curves_of("m", 0, tasks, rounds, {})
    assert [t.name for t in found.tasks] == ["t8", "t9"]
    assert found.tasks[0].bests == (0.5, 0.25)
    assert found.tasks[0].seconds == (4.0, 1.0)
    assert (found.tasks[1].bests, found.tasks[1].seconds, found.tasks[1].alternative_of) == ((None,), (5.0,), 0)


def test_how_many_times_as_fast() -> None:
    def course(at: float, last: float = 100.0) -> Course:
        return Course(np.array([at, last]), np.array([1.2, 1.0]), 101.0, 2.0, 1.0)

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
        assert {row["allocator"] for row in csv.DictReader(file)} == {"gradient", "bandit", "hindsight"}
