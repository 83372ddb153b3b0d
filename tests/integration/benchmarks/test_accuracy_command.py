from __future__ import annotations

import csv
from pathlib import Path

import pytest

from benchmarks.accuracy import figures, networks
from benchmarks.accuracy.reading import Reading
from tunesmith.cli.main import run_command_line

pytestmark = pytest.mark.parallel
DENSE = "dense layers"


def test_a_trained_network_reads_digits_in_every_precision(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(networks, "NETWORKS", {DENSE: networks.NETWORKS[DENSE]})
    monkeypatch.setattr("benchmarks.accuracy.reading.NETWORKS", networks.NETWORKS)
    assert run_command_line(["bench", "accuracy", "--seeds", "1", "--epochs", "6", "--out", str(tmp_path)]) == 0
    with (tmp_path / "accuracy.csv").open(newline="") as file:
        rows = {row["precision"]: row for row in csv.DictReader(file)}
    assert list(rows) == ["float32", "bf16", "int8"]
    assert all(float(row["top-1, %"]) > 80 for row in rows.values())
    assert [float(row["rms error, %"]) > 0 for row in rows.values()] == [False, True, True]
    assert float(rows["bf16"]["rms error, %"]) < 1
    assert float(rows["int8"]["rms error, %"]) < 5
    assert rows["float32"]["top-1, %"] == rows["float32"]["onnxruntime's top-1, %"]


def test_points_are_lost_seed_by_seed() -> None:
    def read(seed: int, precision: str, right: float) -> Reading:
        return Reading("n", seed, precision, right, 0.25, 0.01, None)

    readings = [read(0, "float32", 0.9), read(0, "bf16", 0.8), read(1, "float32", 0.7), read(1, "bf16", 0.9)]
    made = figures.report(readings, {})
    rows = {row[1]: dict(zip(made.columns, row, strict=True)) for row in made.rows}
    assert rows["bf16"]["points lost"] == pytest.approx(-5)
    assert rows["bf16"]["most lost"] == pytest.approx(10)
    assert rows["float32"]["points lost"] == 0
    assert rows["bf16"]["onnxruntime's top-1, %"] is None
