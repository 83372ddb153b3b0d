from __future__ import annotations

import hashlib
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from marked_nests import MEASURED

from tunesmith.dataset import again
from tunesmith.dataset.again import Again, Processor
from tunesmith.errors import InvalidInput
from tunesmith.targets import Target

KEYS = [hashlib.sha256(bytes([n])).hexdigest() for n in range(3)]
THERE = Processor(Target({"kind": "llvm", "mcpu": "znver4", "num-cores": 2}), MEASURED)


def test_latencies_come_back(tmp_path: Path) -> None:
    wanted = dict(zip(KEYS, (1e-6, 2.5e-3, 1.0), strict=True))
    again.write(Again(wanted), tmp_path / "second.parquet")
    found = again.read(tmp_path / "second.parquet")
    assert found.latencies == pytest.approx(wanted, rel=1e-6)
    assert found.processor is None


def test_a_file_says_for_which_processor_programs_were_built(tmp_path: Path) -> None:
    again.write(Again({KEYS[0]: 1.0}, THERE), tmp_path / "there.parquet")
    assert again.read(tmp_path / "there.parquet").processor == THERE


@pytest.mark.parametrize(
    "marks",
    [
        {again.TARGET: b"{}"},
        {again.TARGET: b"no JSON"},
        {again.TARGET: THERE.target.canonical.encode()},
        {again.TARGET: THERE.target.canonical.encode(), again.CALIBRATION: b'{"peak_flops": "fast"}'},
    ],
)
def test_a_processor_that_is_not_described_is_refused(marks: dict[bytes, bytes], tmp_path: Path) -> None:
    again.write(Again({KEYS[0]: 1.0}), tmp_path / "x.parquet")
    table = pyarrow.parquet.read_table(tmp_path / "x.parquet").replace_schema_metadata(marks)
    pyarrow.parquet.write_table(table, tmp_path / "x.parquet")
    with pytest.raises(InvalidInput, match=r"x\.parquet holds no latencies"):
        again.read(tmp_path / "x.parquet")


@pytest.mark.parametrize("content", [b"", b"no parquet", b"PAR1" + bytes(64) + b"PAR1"])
def test_other_files_are_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_bytes(content)
    with pytest.raises(InvalidInput, match=r"x\.parquet holds no latencies of a second measurement"):
        again.read(tmp_path / "x.parquet")


def test_a_file_without_the_columns_is_refused(tmp_path: Path) -> None:
    pyarrow.parquet.write_table(pyarrow.table({"hash": ["aa"], "latency": [1.0]}), tmp_path / "x.parquet")
    with pytest.raises(InvalidInput, match="holds no latencies"):
        again.read(tmp_path / "x.parquet")


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), float("inf")])
def test_what_is_no_latency_is_refused(seconds: float, tmp_path: Path) -> None:
    again.write(Again({KEYS[0]: seconds}), tmp_path / "x.parquet")
    with pytest.raises(InvalidInput, match="a latency that is no positive number"):
        again.read(tmp_path / "x.parquet")
