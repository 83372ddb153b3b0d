"""A small chain, compiled in two types without a job, beside PyTorch: libraries, kernels and the table."""

from __future__ import annotations

import csv

import pytest

from benchmarks.chains import command
from benchmarks.peak import machine
from benchmarks.peak.machine import Limits, Rates
from tunesmith.cli.main import run_command_line

pytestmark = pytest.mark.servers


def test_a_chain_beside_another_runtime(monkeypatch, tmp_path):
    limits = Limits(1, Rates((1e11,)), {}, {1 << 20: Rates((1e11,))}, {"bf16": Rates((2e11,))})
    monkeypatch.setattr(machine, "measure", lambda threads: limits)
    monkeypatch.setattr(command, "PASSES", 2)
    monkeypatch.setattr(command, "SLICE", 0.05)
    status = run_command_line(
        [
            "bench",
            "chains",
            "--operator",
            "gemm:32x64x128+gemm:32x128x64",
            "--with",
            "tunesmith-bf16-unmeasured,torch-bf16",
            "--races",
            "1",
            "--out",
            str(tmp_path),
        ]
    )
    assert status == 0
    with (tmp_path / "chains.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["operator"], row["type"]) for row in rows] == [
        ("gemm:32x64x128", "bf16"),
        ("gemm:32x128x64", "bf16"),
    ]
    for row in rows:
        assert row["fastest other"] == "torch-bf16"
        assert float(row["kernel µs"]) > 0
        assert float(row["ratio"]) > 0
        assert row["note"] == ""
