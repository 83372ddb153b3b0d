"""Makes a dataset file of a MetaSchedule database or a JSON log, in a box: traces become sketches and decisions."""

from __future__ import annotations

import base64
import datetime as dt
import json
import statistics
import zipfile
from pathlib import Path
from typing import Any

from tunesmith.dataset.manifest import UNSTATED
from tunesmith.dataset.parquet import DatasetWriter
from tunesmith.dataset.rows import About, Definition, Kind, RecordRow, digest
from tunesmith.errors import InvalidInput
from tunesmith.metaschedule import PREPARATION_FILE, RECORD_FILE, WORKLOAD_FILE, DatabaseRecord
from tunesmith.names import FLOAT32
from tunesmith.schedule_log import read_log
from tunesmith.targets import Target
from tunesmith.types import FailureKind

FOLDER = Path("database")
MEMBERS = (WORKLOAD_FILE, RECORD_FILE, PREPARATION_FILE)
MEMBER_BYTES = 1 << 30
UNKNOWN_TIME = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
"""Such files do not say when they were measured."""
FAILED_SECONDS = 1e9
"""MetaSchedule writes more for a run that failed."""
POSTPROC = "EnterPostproc"


def convert(path: Path, made: Path) -> None:
    """Write the records of a zip with a MetaSchedule database, or of a JSON log, as a dataset file.

    Raises:
        InvalidInput: it is neither.
    """
    if zipfile.is_zipfile(path):
        _unpack(path)
        path = FOLDER
    log = read_log(path)
    with made.open("wb") as file:
        writer = DatasetWriter(file)
        writing = _Writing(writer)
        for record in log.records:
            writing.add(record)
        writer.close(dt.datetime.now(dt.timezone.utc), UNSTATED)


def _unpack(path: Path) -> None:
    FOLDER.mkdir()
    try:
        with zipfile.ZipFile(path) as archive:
            for name in set(MEMBERS) & set(archive.namelist()):
                if archive.getinfo(name).file_size > MEMBER_BYTES:
                    raise InvalidInput(f"{name} in the zip has more than {MEMBER_BYTES} bytes", field="file")
                (FOLDER / name).write_bytes(archive.read(name))
    except (
        zipfile.BadZipFile,
        NotImplementedError,
        RuntimeError,
    ) as error:  # damaged, packed oddly, or with a password
        raise InvalidInput(f"the zip cannot be read: {error}", field="file") from error


class _Writing:
    """Adds records to a file, and what they name before them."""

    def __init__(self, writer: DatasetWriter) -> None:
        self._writer = writer
        self._known: set[tuple[Kind, str]] = set()

    def add(self, record: DatabaseRecord) -> None:
        """One record, and before it what no other named."""
        from tvm.s_tir import Trace

        from workers.tvm_backend.design_space.replay import Replayer
        from workers.tvm_backend.design_space.space import sketch_body

        target = Target(dict(record.target))
        module = _module(record)
        replayer = Replayer(module, target)
        instructions, decided = _before_postprocessing(record.trace)
        sch = replayer.fresh()
        try:
            Trace.apply_json_to_schedule([instructions, decided], sch)
            body = sketch_body(sch, replayer, replayer.postprocs)
        except Exception as error:  # primitives raise several of TVM's classes
            raise InvalidInput(
                f"a trace does not apply to its workload {record.hash}: {str(error).strip()[:300]}", field="file"
            ) from error
        names = "_".join(dict.fromkeys(_blocks(replayer.fresh())))
        workload = {"name": f"fused_{names}"[:200], "module": module.decode()}
        for kind, key, value in (
            (Kind.TARGET, target.hash, dict(target.json)),
            (Kind.WORKLOAD, record.hash, workload),
            (Kind.SKETCH, body.hash, {"workload": record.hash, "body": json.loads(body.to_json())}),
            (Kind.ENVIRONMENT, digest({}), {}),
        ):
            if (kind, key) not in self._known:
                self._writer.define(Definition(kind, key, value))
                self._known.add((kind, key))
        self._writer.record(
            _row(record, target.hash, body.hash, [decision for _, decision in decided]),
            target.device_class,
            About.of("", {}),
        )
        self._writer.flush()


def _module(record: DatabaseRecord) -> bytes:
    try:
        return base64.b64decode(record.workload[1], validate=True)[8:]
    except ValueError as error:
        raise InvalidInput(f"the module of workload {record.hash} is not base 64", field="file") from error


def _before_postprocessing(trace: list[Any]) -> tuple[list[Any], list[Any]]:
    """Instructions and decisions of the part that a search decides."""
    try:
        instructions, decisions = trace
        kinds = [entry[0] for entry in instructions]
        end = kinds.index(POSTPROC) if POSTPROC in kinds else len(kinds)
        return instructions[:end], [entry for entry in decisions if entry[0] < end]
    except (ValueError, TypeError, IndexError, KeyError) as error:
        raise InvalidInput(f"not the JSON of a trace: {error}", field="file") from error


def _blocks(sch: Any) -> list[str]:
    """Names of a workload's blocks, which say what it computes."""
    return [str(sch.get(block).name_hint) for block in sch.get_child_blocks(sch.get_sblock("root"))]


def _row(record: DatabaseRecord, target: str, sketch: str, decisions: list[Any]) -> RecordRow:
    seconds = list(record.run_seconds)
    failed = not seconds or max(seconds) >= FAILED_SECONDS
    return RecordRow(
        workload=record.hash,
        target=target,
        sketch=sketch,
        decisions=decisions,
        samples=[] if failed else seconds,
        latency=None if failed else statistics.median(seconds),
        failure=FailureKind.RUN_ERROR.value if failed else None,
        stopped=None,
        duplicate=False,
        build_seconds=0.0,
        run_seconds=0.0,
        device_seconds=0.0,
        precision=FLOAT32,
        environment=digest({}),
        measured_at=UNKNOWN_TIME,
    )
