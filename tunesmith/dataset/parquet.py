"""Dataset files in Parquet: written as a stream of row groups, read one row group at a time. Needs pyarrow.

One table holds every kind of row (:class:`tunesmith.dataset.rows.Kind`), and what records name comes before them. The
manifest is in the file's metadata.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from tunesmith.dataset.manifest import KEY, Manifest, Tally
from tunesmith.dataset.rows import About, Definition, Kind, RecordRow
from tunesmith.errors import InvalidInput, MissingDependency

GROUP_RECORDS = 4096
"""Records of a row group."""
GROUP_BYTES = 256 << 20
"""Most bytes of a row group as it says itself, uncompressed."""
DEFINITION = ("kind", "hash", "body")
RECORD = (
    "workload",
    "target",
    "sketch",
    "decisions",
    "samples",
    "latency",
    "failure",
    "stopped",
    "duplicate",
    "build_seconds",
    "run_seconds",
    "device_seconds",
    "precision",
    "environment",
    "measured_at",
)
"""Members of a record, as columns."""
OPTIONAL = ("sketch", "latency", "failure", "stopped")
"""Those that may be empty."""
ABOUT = ("family", "processor", "build", "cache", "simulated")
"""Columns for whoever queries the file; the import reads them from what the record names."""


def arrow() -> Any:
    """The package pyarrow.

    Raises:
        MissingDependency: it is not installed.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise MissingDependency(
            "Parquet files need pyarrow: install the extra 'dataset', for example with pip install -e '.[dataset]'",
            extra="dataset",
        ) from error
    return pyarrow


def schema() -> Any:
    """The table's columns, as a ``pyarrow.Schema``."""
    pa = arrow()
    kinds = {
        "samples": pa.list_(pa.float64()),
        "duplicate": pa.bool_(),
        "simulated": pa.bool_(),
        "measured_at": pa.timestamp("us", "UTC"),
        **dict.fromkeys(("latency", "build_seconds", "run_seconds", "device_seconds"), pa.float64()),
    }
    return pa.schema([(name, kinds.get(name, pa.string())) for name in (*DEFINITION, *RECORD, *ABOUT)])


class DatasetWriter:
    """Writes a file, or a stream: whatever takes bytes. Call :meth:`close` at the end, which writes the manifest."""

    def __init__(self, sink: IO[bytes]) -> None:
        pa = arrow()
        self._schema, self._tally = schema(), Tally()
        self._writer = pa.parquet.ParquetWriter(
            pa.PythonFile(sink, mode="w"), self._schema, compression="zstd", use_dictionary=True
        )
        self._rows: list[dict[str, Any]] = []

    def define(self, definition: Definition) -> None:
        """Add what later records name."""
        self._tally.define(definition)
        body = json.dumps(definition.body, separators=(",", ":"))
        self._rows.append({"kind": definition.kind.value, "hash": definition.hash, "body": body})

    def record(self, row: RecordRow, device_class: str, about: About) -> None:
        """Add a record."""
        content = row.content
        self._tally.record(row, content, device_class, about)
        values = {name: getattr(row, name) for name in RECORD}
        values["decisions"] = json.dumps(list(row.decisions), separators=(",", ":"))
        others = {name: getattr(about, name) for name in ABOUT}
        self._rows.append({"kind": Kind.RECORD.value, "hash": content, **values, **others})

    def flush(self) -> None:
        """Write the rows so far as a row group."""
        pa = arrow()
        if self._rows:
            self._writer.write_table(pa.Table.from_pylist(self._rows, schema=self._schema))
            self._rows.clear()

    def close(self, created: dt.datetime, licence: str) -> Manifest:
        """Write what is left and the manifest, which is returned."""
        self.flush()
        manifest = self._tally.manifest(created, licence)
        self._writer.add_key_value_metadata({KEY.decode(): manifest.text()})
        self._writer.close()
        return manifest


class DatasetReader:
    """Reads a file one row group at a time. Nothing that it holds is believed: rows are as they stand.

    Raises:
        InvalidInput: not Parquet, no dataset, of another schema, or with a manifest that was changed.
    """

    def __init__(self, path: str | Path) -> None:
        pa = arrow()
        try:
            self._file = pa.parquet.ParquetFile(str(path))
            metadata = self._file.metadata.metadata or {}
        except (pa.ArrowException, OSError) as error:
            raise _corrupt(error) from error
        self.manifest = Manifest.read(metadata.get(KEY))
        expected = schema()
        if not self._file.schema_arrow.equals(expected):
            raise InvalidInput(
                "the file is no dataset that can be read: its columns are not those of the schema", field="file"
            )
        self.groups = int(self._file.num_row_groups)

    def group(self, number: int) -> Iterator[Definition | RecordRow]:
        """The rows of a row group, from 0. Raises InvalidInput where they cannot be decoded."""
        pa = arrow()
        about = self._file.metadata.row_group(number)
        if about.total_byte_size > GROUP_BYTES:
            raise InvalidInput(
                f"row group {number} of the file has {about.total_byte_size} bytes; at most {GROUP_BYTES} are read",
                field="file",
            )
        try:
            rows = self._file.read_row_group(number, columns=[*DEFINITION, *RECORD], use_threads=False).to_pylist()
        except (pa.ArrowException, OSError, ValueError) as error:
            raise _corrupt(error) from error
        for row in rows:
            yield _row(row)

    def check(self) -> None:
        """Raises InvalidInput where the rows do not have the manifest's hash. Reads the whole file."""
        tally = Tally()
        nothing = About("", "", "", "", False)
        for number in range(self.groups):
            for row in self.group(number):
                if isinstance(row, Definition):
                    tally.define(row)
                else:
                    tally.record(row, row.content, "", nothing)
        self.manifest.check(tally.rows)


def _row(values: dict[str, Any]) -> Definition | RecordRow:
    try:
        kind = Kind(values["kind"])
        if kind is not Kind.RECORD:
            return Definition(kind, str(values["hash"]), json.loads(values["body"]))
        lacking = [name for name in RECORD if values[name] is None and name not in OPTIONAL]
        if lacking:
            raise ValueError(f"a record has no {lacking[0]}")
        if None in values["samples"]:
            raise ValueError("a record has a sample that is none")
        decisions = json.loads(values["decisions"])
        return RecordRow(**{**{name: values[name] for name in RECORD}, "decisions": _list(decisions)})
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise _corrupt(error) from error


def _list(value: Any) -> Sequence[Any]:
    if not isinstance(value, list):
        raise ValueError("decisions are no list")
    return value


def _corrupt(error: Exception) -> InvalidInput:
    said = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
    return InvalidInput(f"the file is no Parquet file that can be read: {said}", field="file")
