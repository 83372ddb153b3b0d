"""``tunesmith bench measure`` with the real engine, tiny; and from a record, without one."""

from __future__ import annotations

import csv
from pathlib import Path

from typer.testing import CliRunner

from benchmarks.commands import app
from benchmarks.harness.measurer import open_measurer
from benchmarks.measure.collecting import MeasurePlan, collect
from benchmarks.measure.recording import Recording
from tunesmith.messages import MeasureLimits

GEMM = "gemm:64x64x64"
PLAN = MeasurePlan((GEMM,), rounds=1, size=4, samples=6, seconds=0.1, schedules=2, passes=2)


def test_the_engine_records_and_the_command_judges(tmp_path: Path) -> None:
    said: list[str] = []
    with open_measurer() as measurer:
        found = collect(
            measurer, PLAN, MeasureLimits(repeats=4, min_repeat_seconds=0.002), {"CPU": "this"}, said.append
        )
        folder = measurer.folder
    assert not folder.exists()
    assert found.noise_floor > 0
    (stream,) = found.streams
    assert 1 <= len(stream.timed) <= 4
    assert all(len(timed.samples) == 6 for timed in stream.timed)
    assert [repeat.operator for repeat in found.repeats] == [GEMM] * min(2, len(stream.timed))
    assert all(len(repeat.passes) == 2 and 3 <= len(repeat.passes[0]) <= 4 for repeat in found.repeats)
    assert len(said) == 3

    found.save(tmp_path / "record.json")
    assert len(Recording.load(tmp_path / "record.json").streams[0].timed) == len(stream.timed)
    arguments = ["measure", "--recording", str(tmp_path / "record.json"), "--quick", "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    for name in ("measure", "racing"):
        rows = list(csv.reader((tmp_path / "out" / f"{name}.csv").read_text().splitlines()))
        assert rows[1][0] == GEMM
        assert (tmp_path / "out" / f"{name}.svg").stat().st_size > 1000
