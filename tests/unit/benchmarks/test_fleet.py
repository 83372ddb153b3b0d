"""``tunesmith bench fleet``: its command on a tiny fleet, and its figures on made-up outcomes."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from benchmarks.commands import app
from benchmarks.fleet import figures
from benchmarks.fleet.decisions import decide
from benchmarks.fleet.simulation import FleetRun
from tunesmith.allocate.registry import ALLOCATORS


def test_the_command_writes_both_tables(tmp_path: Path) -> None:
    found = CliRunner().invoke(
        app, ["fleet", "--devices", "4", "--tasks", "20", "--seconds", "20", "--seeds", "1", "--out", str(tmp_path)]
    )
    assert found.exit_code == 0, found.output
    with (tmp_path / "fleet.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert int(row["rounds"]) > 0
    assert 50 < float(row["devices busy, %"]) <= 100
    with (tmp_path / "fleet-decisions.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {(r["allocator"], r["tasks of the job"]) for r in rows} == {(n, s) for n in ALLOCATORS for s in ("2", "20")}


def test_shares_are_told_apart() -> None:
    outcome = FleetRun({"ada": 50.0, "ben": 25.0, "cleo": 20.0}, available=100.0, rounds=9, decisions=[0.001, 0.003])
    (row,) = figures.fleet([outcome], 10, {}).rows
    assert row[:3] == (0, 9, 95.0)
    assert row[3] == "ada 52.6, ben 26.3, cleo 21.1"
    assert row[4] == pytest.approx(100 * (50 / 95 - 1 / 3) * 3, abs=0.01)
    assert row[5] == pytest.approx(2.0)


def test_each_decision_is_timed() -> None:
    found = decide(20, decisions=3)
    assert all(seconds.shape == (3,) and (seconds > 0).all() for seconds in found.values())
    (first, *_) = figures.decisions({("bandit", 7): np.array([0.001, 0.002, 0.009])}, {}).rows
    assert first[:3] == ("bandit", 7, 2.0)
