"""Reads users' files of records, in a box: rows out as lines of JSON, and what TVM says of the workloads.

A dataset file is read as it is; a MetaSchedule database and a JSON log become one first.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tunesmith.dataset.parquet import DatasetReader
from tunesmith.dataset.rows import Definition, canonical
from workers.tvm_backend.build import schedule_records

FILE, CONVERTED, ROWS = "model", "converted.parquet", "rows.jsonl"
"""Files in the box's folder: the user's, what is made of it where it is no dataset, and the rows asked for last."""
MAGIC = b"PAR1"


NOTHING: dict[str, Any] = {"hash": "", "args": [], "flops": 0.0, "family": ""}
"""What is said of a module that is none, or has no fixed shapes."""


class RecordFile:
    """The user's file, read one group of rows at a time."""

    def __init__(self) -> None:
        path = Path(FILE)
        with path.open("rb") as file:
            parquet = file.read(len(MAGIC)) == MAGIC
        if not parquet:
            schedule_records.convert(path, Path(CONVERTED))
            path = Path(CONVERTED)
        self._reader = DatasetReader(path)

    def about(self) -> dict[str, Any]:
        """Number of groups, and the manifest once the rows are known to be its own."""
        self._reader.check()
        return {"groups": self._reader.groups, "manifest": json.loads(self._reader.manifest.text())}

    def group(self, number: int) -> int:
        """Write a group's rows to ``ROWS``; how many there are."""
        count = 0
        with open(ROWS, "w", encoding="utf-8") as file:
            for row in self._reader.group(number):
                if isinstance(row, Definition):
                    value: dict[str, Any] = {"kind": row.kind.value, "hash": row.hash, "body": row.body}
                else:
                    value = {**vars(row), "measured_at": row.measured_at.isoformat()}
                file.write(canonical(value) + "\n")
                count += 1
        return count


def workload_file(index: int, kind: str) -> str:
    """The file of a workload's ``module``, or of its ``metaschedule`` form."""
    return f"workload-{index}.{kind}"


def describe(names: list[str]) -> list[dict[str, Any]]:
    """What TVM says of the modules of workloads, which lie in the folder; their MetaSchedule forms become files.

    Args:
        names: names of the workloads, as the file has them.
    """
    found = []
    for index, name in enumerate(names):
        try:
            found.append(_describe(index, name))
        except Exception:  # TVM's reader raises several classes; each means that this is no module
            found.append(NOTHING)
    return found


def _describe(index: int, name: str) -> dict[str, Any]:
    from workers.tvm_backend import tir
    from workers.tvm_backend.passes import extract_tasks

    mod = tir.load_module(Path(workload_file(index, "module")).read_bytes())
    args = extract_tasks.arguments(mod)
    if args is None:
        return NOTHING
    task = extract_tasks.describe(mod, name, args)
    Path(workload_file(index, "module")).write_bytes(task.module)
    Path(workload_file(index, "metaschedule")).write_bytes(task.metaschedule)
    work = task.workload
    return {
        "hash": work.hash,
        "args": [[each.dtype, list(each.shape)] for each in work.args],
        "flops": work.flops,
        "family": work.family,
    }
