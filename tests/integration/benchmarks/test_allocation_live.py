"""``tunesmith bench allocation live``: made-up jobs, real compiled models."""

from __future__ import annotations

import csv

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from typer.testing import CliRunner

from benchmarks.allocation import live
from benchmarks.allocation.live import Run
from benchmarks.commands import app
from benchmarks.harness import jobs
from benchmarks.harness.jobs import Point, Tuned
from tunesmith.preparation import PLAIN

pytestmark = pytest.mark.servers


@pytest.fixture
def model(tmp_path):
    """One product."""
    weights = np.random.default_rng(0).standard_normal((64, 32)).astype("float32")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "a"], ["y"])],
        "product",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 32])],
        [helper.make_tensor("a", TensorProto.FLOAT, weights.shape, weights.tobytes(), raw=True)],
    )
    path = tmp_path / "product.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.mark.thorough
def test_every_allocator_has_a_job_and_its_model_is_timed(monkeypatch, model, tmp_path):
    asked = []

    def tune(file, request, folder):
        asked.append((request.seed, request.allocator, request.seconds))
        return Tuned([], PLAIN, 16, 10.0, (), (Point(4.0, 2e-3), Point(8.0, 1e-3)))

    monkeypatch.setattr(jobs, "tune_warm", tune)
    monkeypatch.setattr(live, "SLICE", 0.05)
    monkeypatch.setattr(live, "PASSES", 2)
    done = CliRunner().invoke(
        app,
        [
            "allocation",
            "live",
            "--model",
            str(model),
            "--allocator",
            "bandit",
            "--seconds",
            "10",
            "--seeds",
            "1",
            "--out",
            str(tmp_path),
        ],
    )
    assert done.exit_code == 0, done.output
    assert asked == [(0, "gradient", 10.0), (0, "bandit", 10.0)]
    with (tmp_path / "allocation-live.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["allocator"] for row in rows] == ["gradient", "bandit"]
    assert all(float(row["latency ms"]) > 0 and row["candidates"] == "16" for row in rows)


def test_each_seed_begins_with_another_allocator():
    names = ("gradient", "bandit", "random")
    assert [live.in_turn(names, seed)[0] for seed in range(4)] == ["gradient", "bandit", "random", "gradient"]
    assert live.in_turn(names, 1) == ("bandit", "random", "gradient")


def made(allocator, latency, *points):
    return Run("m", 0, allocator, latency, 11.0, 16, tuple(Point(*point) for point in points), 60.0)


def test_when_a_share_of_the_gain_was_there():
    slow, fast = made("gradient", 2.0, (5.0, 8.0), (50.0, 1.0)), made("bandit", 1.0, (5.0, 2.0), (20.0, 1.0))
    rows = {row[2]: row[3:] for row in live.report([slow, fast], {}).rows}
    # The gain is 10: 95 % of it are there at 1.5, 99 % at 1.1. The kernels of the slow one are half of its model.
    assert rows["gradient"] == (2000.0, 16, 60.0, 60.0, 50.0)
    assert rows["bandit"] == (1000.0, 16, 20.0, 20.0, 5.0)
    text = live.report([slow, fast], {}).summary
    assert "models 2 (2 to 2) times as fast" in text
    assert "3 (3 to 3), 3 (3 to 3), 10 (10 to 10) times sooner" in text


def test_every_pair_of_allocators_is_compared():
    runs = [made(name, 1.0, (seconds, 1.0)) for name, seconds in (("gradient", 8.0), ("bandit", 2.0), ("random", 6.0))]
    lines = live.report(runs, {}).summary.splitlines()
    verdicts = {line[: line.index(",")]: line[line.index("gain, and") :] for line in lines if line.startswith("**")}
    assert list(verdicts) == [
        "**bandit** compared with `random`",
        "**bandit** compared with `gradient`",
        "**random** compared with `gradient`",
    ]
    assert verdicts["**bandit** compared with `random`"].count("3 (3 to 3)") == 3
    assert verdicts["**bandit** compared with `gradient`"].count("4 (4 to 4)") == 3
