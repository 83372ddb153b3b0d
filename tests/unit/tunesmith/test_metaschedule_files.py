from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from tunesmith import metaschedule
from tunesmith.metaschedule import DatabaseRecord
from tunesmith.types import TensorSpec

TARGET = {"kind": "llvm", "mcpu": "znver4", "num-cores": 2}
ARGS = (TensorSpec("float32", (4, 8)), TensorSpec("float32", (4, 8)))


def record(name: str, seconds: float, target: dict[str, object] = TARGET) -> DatabaseRecord:
    return DatabaseRecord((name, f"module of {name}"), [[["EnterPostproc", [], [], []]], []], (seconds,), target, ARGS)


def test_round_trip_shares_workloads(tmp_path: Path) -> None:
    records = [record("1", 0.5), record("2", 0.25), record("1", 0.125)]
    metaschedule.write_database(tmp_path / "new" / "folder", records)
    assert metaschedule.read_database(tmp_path / "new" / "folder") == records
    lines = (tmp_path / "new" / "folder" / metaschedule.WORKLOAD_FILE).read_text().splitlines()
    assert len(lines) == 2


def test_two_targets_are_refused() -> None:
    other = {**TARGET, "num-cores": 4}
    with pytest.raises(ValueError, match="one target"):
        metaschedule.database_texts([record("1", 0.5), record("1", 0.5, other)])


@pytest.mark.parametrize(
    ("workloads", "records", "message"),
    [
        ("nonsense\n", "", "line 1: not JSON"),
        ('["1"]\n', "", "not a list of 2"),
        ('["1", "m"]\n', "[3, [[], [], {}, []]]\n", "does not refer to a workload"),
        ('["1", "m"]\n', "[0, [[]]]\n", "does not refer to a workload"),
    ],
)
def test_other_formats_are_refused(tmp_path: Path, workloads: str, records: str, message: str) -> None:
    (tmp_path / metaschedule.WORKLOAD_FILE).write_text(workloads)
    (tmp_path / metaschedule.RECORD_FILE).write_text(records)
    with pytest.raises(ValueError, match=message):
        metaschedule.read_database(tmp_path)


def test_folder_explains_itself() -> None:
    inputs = (TensorSpec("float32", (1, 3, 8, 8), "data"), TensorSpec("int64", (1, 4), "ids"))
    records = [record("1", 0.5)]
    texts = metaschedule.folder_texts(
        model="net",
        target=TARGET,
        inputs=inputs,
        records=records,
        preparation="tunesmith.prepare/1+blocked",
        tvm="0.27.0",
    )
    database = {metaschedule.WORKLOAD_FILE, metaschedule.RECORD_FILE}
    scripts = {"compile.py", "prefetch.py"}
    assert set(texts) == database | scripts | {"target.json", "README.md", metaschedule.PREPARATION_FILE}
    assert texts[metaschedule.PREPARATION_FILE] == "tunesmith.prepare/1+blocked\n"
    readme = texts["README.md"]
    parts = (
        "# Tuned schedules of net",
        "znver4",
        "0.27.0",
        '(1, 3, 8, 8), "float32"',
        'vm["main"](x0, x1)',
        "`ids`",
        "by `tunesmith.prepare/1+blocked`",
    )
    for part in parts:
        assert part in readme
    assert not any("{" in line and "}" in line for line in readme.splitlines())


def test_scripts_need_tvm_and_numpy_alone() -> None:
    imported = set()
    for node in (each for script in metaschedule.SCRIPTS for each in ast.walk(ast.parse(script.read_text()))):
        if isinstance(node, ast.Import):
            imported |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(str(node.module).split(".")[0])
    assert imported - set(sys.stdlib_module_names) == {"tvm", "tvm_ffi", "numpy"}, "tvm_ffi comes with TVM"
