from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest

from tunesmith.analysis.machine_code import COLUMNS
from tunesmith.dataset import code
from tunesmith.errors import InvalidInput

KEYS = [code.key(hashlib.sha256(bytes([n])).hexdigest()) for n in range(3)]


def counts() -> dict[str, np.ndarray]:
    values = np.random.default_rng(0).integers(0, 5000, (len(KEYS), len(COLUMNS))).astype(np.float32)
    values[1] = np.nan  # code of another processor
    return dict(zip(KEYS, values, strict=True))


def test_counts_come_back(tmp_path: Path) -> None:
    wanted = counts()
    code.write(wanted, tmp_path / "code.parquet")
    found = code.read(tmp_path / "code.parquet")
    assert found.keys() == wanted.keys()
    for key, row in wanted.items():
        np.testing.assert_array_equal(found[key], row)
    code.write({}, tmp_path / "none.parquet")
    assert code.read(tmp_path / "none.parquet") == {}


@pytest.mark.parametrize("content", [b"", b"no parquet", b"PAR1" + bytes(64) + b"PAR1"])
def test_other_files_are_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_bytes(content)
    with pytest.raises(InvalidInput, match=r"x\.parquet holds no counts of machine code"):
        code.read(tmp_path / "x.parquet")


def test_counts_of_another_version_are_refused(tmp_path: Path) -> None:
    code.write(counts(), tmp_path / "x.parquet")
    table = pyarrow.parquet.read_table(tmp_path / "x.parquet")
    for metadata, said in (({code.MARK: b"code/0"}, "they are of code/0, not of code/"), (None, "of no version")):
        pyarrow.parquet.write_table(table.replace_schema_metadata(metadata), tmp_path / "x.parquet")
        with pytest.raises(InvalidInput, match=said):
            code.read(tmp_path / "x.parquet")


def test_negative_counts_are_refused(tmp_path: Path) -> None:
    wrong = counts()
    wrong[KEYS[0]][3] = -1
    code.write(wrong, tmp_path / "x.parquet")
    with pytest.raises(InvalidInput, match="a negative count"):
        code.read(tmp_path / "x.parquet")
