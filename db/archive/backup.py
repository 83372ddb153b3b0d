"""A copy of database and blobs in one file, made while the service runs.

The database is read in one transaction, so that the copy is of one moment: everything that was committed before it
began is there, and of a later transaction nothing is. Rows are written as JSON, which either kind of database takes in.
"""

from __future__ import annotations

import datetime as dt
import gzip
import io
import json
import os
import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, cast

from sqlalchemy import Connection, Engine
from sqlalchemy.orm import Session

from db.archive import rows
from db.blobs import BlobStore
from db.engine import READ_ONLY, current_revision, head_revision
from db.queries import blob_references
from tunesmith import __version__
from tunesmith.errors import Conflict

FORMAT = 1
MANIFEST, TABLE, BLOB = "manifest.json", "tables/{}.jsonl", "blobs/{}"
COMPRESSION = 1
"""Level of gzip. Parameters of models hardly shrink, so a higher level only takes time."""


@dataclass(frozen=True)
class TableFacts:
    """What an archive holds of a table: its columns and how their values are written, and the number of its rows."""

    columns: dict[str, str]
    rows: int


@dataclass(frozen=True)
class Manifest:
    """What an archive holds.

    Attributes:
        format: format of the archive.
        version: version of Tunesmith that wrote it.
        revision: revision of the database's schema.
        created_at: ISO time.
        tables: in the order in which they are loaded.
        last_ids: the last id that each table with numbered rows has given out.
        blobs: their SHA-256, in order.
        missing: blobs that rows name and that were not there.
    """

    version: str
    revision: str
    created_at: str
    tables: dict[str, TableFacts]
    last_ids: dict[str, int]
    blobs: list[str]
    missing: list[str] = field(default_factory=list)
    format: int = FORMAT

    def to_json(self) -> bytes:
        """As it is in the archive."""
        return json.dumps(asdict(self), indent=1).encode()

    @classmethod
    def from_json(cls, text: bytes) -> Manifest:
        """Inverse of :meth:`to_json`. Raises ValueError, TypeError, KeyError."""
        found: dict[str, Any] = json.loads(text)
        tables = {name: TableFacts(**facts) for name, facts in found.pop("tables").items()}
        return cls(tables=tables, **found)


def backup(engine: Engine, blobs: BlobStore, path: Path, after_rows: Callable[[], None] = lambda: None) -> Manifest:
    """Write database and blobs to ``path``, which only this user may read; an older file is replaced at the end.

    Args:
        after_rows: called when the rows were read and before blobs are, for tests.

    Raises:
        Conflict: the database is at another schema than this version's.
        OSError: the file cannot be written.
    """
    found, wanted = current_revision(engine), head_revision()
    if found != wanted:
        raise Conflict(
            f"the database is at schema {found}, this version backs up {wanted}: use the version that wrote it"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".backup-", dir=path.parent) as folder, blobs.no_pruning():
        spool = Path(folder)
        with _snapshot(engine) as connection:
            tables = {table.name: _spool(connection, table, spool) for table in rows.tables()}
            last_ids = rows.last_ids(connection)
            named = sorted(blob_references.named(Session(connection)))
        after_rows()
        there = [sha for sha in named if blobs.exists(sha)]
        missing = sorted(set(named) - set(there))
        now = dt.datetime.now(dt.timezone.utc).isoformat()
        manifest = Manifest(__version__, wanted, now, tables, last_ids, there, missing)
        partial = spool / "archive"
        pack(manifest, spool, blobs, partial)
        partial.replace(path)
    return manifest


def _snapshot(engine: Engine) -> Connection:
    """A connection on which everything that is read is of one moment; nobody waits for it."""
    options: dict[str, Any] = {READ_ONLY: True}
    if engine.dialect.name == "postgresql":
        options = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
    return engine.connect().execution_options(**options)


def _spool(connection: Connection, table: Any, folder: Path) -> TableFacts:
    with (folder / table.name).open("wb") as file:
        return TableFacts(rows.kinds(table), rows.write(connection, table, file))


def pack(manifest: Manifest, spool: Path, blobs: BlobStore, path: Path) -> None:
    """Write the archive; ``spool`` holds a file of rows for each table."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as raw:
        with gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=COMPRESSION, filename="") as packed:
            with tarfile.open(fileobj=cast(BinaryIO, packed), mode="w|", format=tarfile.PAX_FORMAT) as archive:
                text = manifest.to_json()
                _add(archive, MANIFEST, len(text), io.BytesIO(text))
                for name in manifest.tables:
                    with (spool / name).open("rb") as file:
                        _add(archive, TABLE.format(name), os.fstat(file.fileno()).st_size, file)
                for sha in manifest.blobs:
                    with blobs.open(sha) as file:
                        _add(archive, BLOB.format(sha), os.fstat(file.fileno()).st_size, file)
        raw.flush()
        os.fsync(raw.fileno())


def _add(archive: tarfile.TarFile, name: str, size: int, file: Any) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = size, 0o600
    archive.addfile(member, file)
