"""Reading the JSON log (``tunesmith.schedule/1``): one line per task, its best schedule and how it was found."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tunesmith.errors import InvalidInput
from tunesmith.metaschedule import RECORD_FILE, WORKLOAD_FILE, DatabaseRecord, read_database
from tunesmith.types import TensorSpec

SCHEMA = "tunesmith.schedule/1"


def read_log(path: str | Path) -> list[DatabaseRecord]:
    """The schedules of a JSON log, or of a folder with a MetaSchedule database.

    Tasks that keep the default schedule (``"trace": null``) are left out.

    Raises:
        InvalidInput: naming what is wrong and where.
    """
    path = Path(path)
    try:
        if path.is_dir():
            return _of_one_target(read_database(path), path)
        return _of_one_target(list(_records(path.read_text(encoding="utf-8").splitlines(), path)), path)
    except FileNotFoundError as error:
        expected = f"a JSON log, or a folder with {WORKLOAD_FILE} and {RECORD_FILE}"
        raise InvalidInput(f"there is no {error.filename}; give {expected}", field="log", value=str(path)) from error
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise InvalidInput(f"{path} cannot be read: {error}", field="log", value=str(path)) from error


def _of_one_target(records: list[DatabaseRecord], path: Path) -> list[DatabaseRecord]:
    if any(record.target != records[0].target for record in records):
        raise InvalidInput(f"{path} has schedules of several targets: give one log per target", field="log",
                           value=str(path))  # fmt: skip
    return records


def _records(lines: Iterable[str], path: Path) -> Iterable[DatabaseRecord]:
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        entry = json.loads(line)
        if not isinstance(entry, Mapping) or entry.get("schema") != SCHEMA:
            raise InvalidInput(f"{path}, line {number}: not an entry of schema {SCHEMA}", field="log", value=str(path))
        if entry["trace"] is not None:
            yield _record(entry)


def _record(entry: Mapping[str, Any]) -> DatabaseRecord:
    workload, latency = entry["workload"], entry["latency"]
    key, module = workload["metaschedule"]
    return DatabaseRecord(
        workload=(str(key), str(module)),
        trace=entry["trace"],
        run_seconds=tuple(latency.get("samples") or [latency["median"]]),
        target=entry["target"],
        args=tuple(TensorSpec(str(dtype), tuple(shape)) for dtype, shape in workload["args"]),
    )
