"""Takes an archive of :mod:`db.archive.backup` in again, into either kind of database."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import sqlalchemy as sa
from sqlalchemy import Connection

from db.archive import rows
from db.archive.backup import BLOB, FORMAT, MANIFEST, TABLE, Manifest
from db.blobs import BlobStore
from db.engine import create_engine, upgrade_connection
from db.revision import known
from tunesmith.errors import Conflict, InvalidInput

MAX_MANIFEST = 1 << 28
"""Bytes; a manifest names every blob."""


def restore(path: Path, url: str, blobs: BlobStore, *, replace: bool = False) -> Manifest:
    """Fill database and blob store from an archive: all of it or, after an error, nothing of the database.

    Args:
        url: URL of the database, which is brought to this version's schema.
        replace: whether what the database holds may be removed. Blobs that are there stay.

    Raises:
        Conflict: there are rows or blobs already, and ``replace`` is False.
        InvalidInput: this is no archive, it is damaged, or a later version wrote it.
        OSError: the file cannot be read, or a blob cannot be written.
    """
    engine = create_engine(url, foreign_keys=False)
    try:
        with _opened(path) as archive, engine.begin() as connection:
            members = _members(archive, path)
            manifest = _manifest(archive, next(members, None), path)
            if not replace:
                _check_empty(connection, blobs)
            _drop_all(connection)
            upgrade_connection(connection, manifest.revision)
            _load(connection, manifest, archive, members, path)
            _store(blobs, manifest, archive, members, path)
            upgrade_connection(connection)
            connection.exec_driver_sql("ANALYZE")  # else PostgreSQL plans as if every table were empty for a minute
            return manifest
    finally:
        engine.dispose()


@contextmanager
def _opened(path: Path) -> Iterator[tarfile.TarFile]:
    try:
        with tarfile.open(path, mode="r|gz") as archive:
            yield archive
    except (tarfile.TarError, EOFError) as error:
        raise _damaged(path, str(error)) from error


def _damaged(path: Path, why: str) -> InvalidInput:
    return InvalidInput(
        f"{path.name} is no archive of 'tunesmith backup', or it is damaged: {why}", field="file", value=path.name
    )


def _members(archive: tarfile.TarFile, path: Path) -> Iterator[tarfile.TarInfo]:
    for member in archive:
        if not member.isfile():
            raise _damaged(path, f"{member.name[:80]!r} is no file")
        yield member


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo | None, name: str, path: Path) -> BinaryIO:
    if member is None or member.name != name:
        raise _damaged(path, f"{name} is missing")
    file = archive.extractfile(member)
    assert file is not None
    return file  # type: ignore[return-value]


def _manifest(archive: tarfile.TarFile, member: tarfile.TarInfo | None, path: Path) -> Manifest:
    file = _content(archive, member, MANIFEST, path)
    try:
        manifest = Manifest.from_json(file.read(MAX_MANIFEST))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise _damaged(path, f"its manifest cannot be read ({error})") from error
    if manifest.format != FORMAT or manifest.revision not in known():
        raise InvalidInput(
            f"{path.name} was written by Tunesmith {manifest.version} with schema {manifest.revision}, "
            "which this version does not know: restore with that version or a later one",
            field="file",
            value=path.name,
        )
    unknown = sorted(set(manifest.tables) - {table.name for table in rows.tables()})
    if unknown:
        raise _damaged(path, f"it holds tables that there are not: {', '.join(unknown)[:200]}")
    return manifest


def _check_empty(connection: Connection, blobs: BlobStore) -> None:
    present = set(sa.inspect(connection).get_table_names())
    first = {table.name: sa.select(sa.literal(1)).select_from(table).limit(1) for table in rows.tables()}
    filled = [name for name, query in first.items() if name in present and connection.execute(query).first()]
    if filled or next(iter(blobs.all()), None) is not None:
        what = f"rows in {', '.join(filled)}" if filled else "blobs"
        raise Conflict(f"the destination is not empty ({what}): restore into an empty place, or pass --replace")


def _drop_all(connection: Connection) -> None:
    present = sa.MetaData()
    present.reflect(connection)
    present.drop_all(connection)


def _load(
    connection: Connection, manifest: Manifest, archive: tarfile.TarFile, members: Iterator[tarfile.TarInfo], path: Path
) -> None:
    for name, facts in manifest.tables.items():
        file = _content(archive, next(members, None), TABLE.format(name), path)
        try:
            count = rows.load(connection, name, facts.columns, file)
        except (ValueError, TypeError) as error:
            raise _damaged(path, f"rows of {name} cannot be read ({error})") from error
        if count != facts.rows:
            raise _damaged(path, f"{count} rows of {name} are there, and {facts.rows} should be")
    rows.go_on_after(connection, manifest.last_ids)


def _store(
    blobs: BlobStore, manifest: Manifest, archive: tarfile.TarFile, members: Iterator[tarfile.TarInfo], path: Path
) -> None:
    for sha in manifest.blobs:
        file = _content(archive, next(members, None), BLOB.format(sha), path)
        with blobs.writer() as writer:
            while chunk := file.read(1 << 20):
                writer.write(chunk)
            if writer.sha != sha:
                raise _damaged(path, f"the blob {sha} has another content")
