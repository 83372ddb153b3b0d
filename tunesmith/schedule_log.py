"""Reading the JSON log (``tunesmith.schedule/1``): one line per task, its best schedule and how it was found."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tunesmith.errors import InvalidInput
from tunesmith.metaschedule import PREPARATION_FILE, RECORD_FILE, WORKLOAD_FILE, DatabaseRecord, encoded, read_database
from tunesmith.preparation import PLAIN, Preparation
from tunesmith.types import TensorSpec

SCHEMA = "tunesmith.schedule/1"


@dataclass(frozen=True)
class ScheduleLog:
    """The schedules of one job.

    Attributes:
        records: records for one target, without the tasks that keep the default schedule.
        preparation: how the model was prepared for which they were found. They apply to no other module.
        kept: hashes of the workloads that keep the default schedule, where the log names them.
        names: names of the tasks by workload, where the log has them.
    """

    records: list[DatabaseRecord]
    preparation: Preparation
    kept: frozenset[str] = frozenset()
    names: Mapping[str, str] = field(default_factory=dict)


def read_log(path: str | Path) -> ScheduleLog:
    """Read a JSON log, or a folder with a MetaSchedule database.

    Where neither says how the model was prepared, it is older than that choice, or TVM's own: it was prepared plainly.

    Raises:
        InvalidInput: naming what is wrong and where.
    """
    path = Path(path)
    try:
        return _of_folder(path) if path.is_dir() else _of_file(path)
    except FileNotFoundError as error:
        expected = f"a JSON log, or a folder with {WORKLOAD_FILE} and {RECORD_FILE}"
        raise InvalidInput(f"there is no {error.filename}; give {expected}", field="log", value=str(path)) from error
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}", field="log", value=str(path)) from error
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise _no_log(path, f"{type(error).__name__}: {error}") from error


def _of_folder(path: Path) -> ScheduleLog:
    note = path / PREPARATION_FILE
    key = note.read_text(encoding="utf-8").strip() if note.exists() else PLAIN.key
    return ScheduleLog(_of_one_target(read_database(path), path), Preparation.parse(key))


def _of_file(path: Path) -> ScheduleLog:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise _no_log(path, "it is not text") from error
    entries = list(_entries(lines, path))
    if not entries:
        raise _no_log(path, "it is empty")
    keys = {entry.get("provenance", {}).get("preparation", PLAIN.key) for entry in entries}
    if len(keys) > 1:
        raise _mixed(path, "of models that were prepared differently", "job")
    tuned = [entry for entry in entries if entry["trace"] is not None]
    records = [_record(entry) for entry in tuned]
    names = {record.hash: str(entry.get("task", "")) for record, entry in zip(records, tuned, strict=True)}
    named = [entry.get("workload") or {} for entry in entries if entry["trace"] is None]
    kept = frozenset(str(workload["hash"]) for workload in named if "hash" in workload)
    return ScheduleLog(_of_one_target(records, path), Preparation.parse(keys.pop()) if keys else PLAIN, kept, names)


def _of_one_target(records: list[DatabaseRecord], path: Path) -> list[DatabaseRecord]:
    if any(record.target != records[0].target for record in records):
        raise _mixed(path, "of several targets", "target")
    return records


def _no_log(path: Path, why: str) -> InvalidInput:
    return InvalidInput(
        f"{path} is no log of schedules: {why}; give the file that 'tunesmith best JOB -o best.jsonl' writes, or a "
        "folder with a MetaSchedule database",
        field="log",
        value=str(path),
    )


def _mixed(path: Path, what: str, per: str) -> InvalidInput:
    return InvalidInput(f"{path} has schedules {what}: give one log per {per}", field="log", value=str(path))


def _entries(lines: Iterable[str], path: Path) -> Iterable[Mapping[str, Any]]:
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
        except ValueError as error:
            raise _no_log(path, f"line {number} is not JSON") from error
        if not isinstance(entry, Mapping) or entry.get("schema") != SCHEMA:
            raise _no_log(path, f"line {number} is not an entry of schema {SCHEMA}")
        yield entry


def _record(entry: Mapping[str, Any]) -> DatabaseRecord:
    workload, latency = entry["workload"], entry["latency"]
    # Logs of earlier versions hold the module a second time, in MetaSchedule's form.
    key, module = workload.get("metaschedule") or (workload["hash"], encoded(workload["module"]))
    return DatabaseRecord(
        workload=(str(key), str(module)),
        trace=entry["trace"],
        run_seconds=_seconds(latency, entry.get("estimated_latency")),
        target=entry["target"],
        args=tuple(TensorSpec(str(dtype), tuple(shape)) for dtype, shape in workload["args"]),
    )


def _seconds(latency: Mapping[str, Any] | None, estimate: Mapping[str, Any] | None) -> tuple[float, ...]:
    """Latencies as measured, else the estimate of a schedule that was not."""
    if latency is None:
        return (float((estimate or {})["seconds"]),)
    return tuple(latency.get("samples") or [latency["median"]])
