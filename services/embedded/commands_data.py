"""``tunesmith prune``, ``tunesmith backup`` and ``tunesmith restore``."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from services.coordinator.settings import Settings

DataDir = Annotated[Path, typer.Option(help="Database and blobs.", envvar="TUNESMITH_DATA_DIR")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
DATA_DIR = Path(".tunesmith")


def prune(
    data_dir: DataDir = DATA_DIR,
    job_days: Annotated[
        float | None,
        typer.Option(min=0, help="Remove jobs that ended this many days ago; 0 keeps all. [TUNESMITH_KEEP_JOB_DAYS]"),
    ] = None,
    event_days: Annotated[
        float | None,
        typer.Option(
            min=0, help="Remove events of finished jobs older than this; 0 keeps all. [TUNESMITH_KEEP_EVENT_DAYS]"
        ),
    ] = None,
    blob_hours: Annotated[
        float | None, typer.Option(min=0, help="Remove unused blobs older than this. [TUNESMITH_KEEP_BLOB_HOURS]")
    ] = None,
    records: Annotated[
        bool, typer.Option("--records", help="Also remove the records of those jobs; champions stay.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count; remove nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Remove old jobs and events, and unused blobs, while the service runs. Records stay."""
    from db.blobs import BlobStore
    from services.coordinator.housekeeping import prune as run
    from services.coordinator.settings import Settings

    settings = Settings(data_dir=data_dir)
    keep = settings.retention(job_days=job_days, event_days=event_days, blob_hours=blob_hours, records=records)
    with _database(settings) as (sessions, readers, _):
        found = run(sessions, readers, BlobStore(settings.blobs()), keep, dry_run=dry_run)
    does = "would remove" if dry_run else "removed"
    _print(
        asdict(found),
        f"{does} {found.jobs} jobs, {found.records} records, {found.events} events, "
        f"{found.blobs} blobs ({found.bytes} bytes)",
        as_json,
    )


def backup(
    file: Annotated[Path, typer.Argument(help="The archive to write.")],
    data_dir: DataDir = DATA_DIR,
    as_json: AsJson = False,
) -> None:
    """Back up database and blobs to one file, from one moment, while the service runs."""
    from db.archive.backup import backup as run
    from db.blobs import BlobStore
    from services.coordinator.settings import Settings

    settings = Settings(data_dir=data_dir)
    with _database(settings) as (_, _, engine), _file_errors(file):
        manifest = run(engine, BlobStore(settings.blobs()), file.absolute())
    rows = {name: facts.rows for name, facts in manifest.tables.items()}
    body = {
        "file": str(file),
        "bytes": file.stat().st_size,
        "revision": manifest.revision,
        "rows": rows,
        "blobs": len(manifest.blobs),
        "missing": manifest.missing,
    }
    text = f"{file}: {sum(rows.values())} rows, {len(manifest.blobs)} blobs, {body['bytes']} bytes"
    if manifest.missing:
        text += f"\n{len(manifest.missing)} blobs that rows name are missing, such as {manifest.missing[0]}"
    _print(body, text, as_json)


def restore(
    file: Annotated[Path, typer.Argument(help="An archive made by `tunesmith backup`.")],
    data_dir: DataDir = DATA_DIR,
    replace: Annotated[bool, typer.Option("--replace", help="Remove the existing data first.")] = False,
    as_json: AsJson = False,
) -> None:
    """Restore an archive into an empty place while the service is stopped; SQLite and PostgreSQL both work."""
    from db.archive.restore import restore as run
    from db.blobs import BlobStore
    from services.coordinator.settings import Settings
    from services.embedded.lock import data_dir_lock
    from tunesmith.data_folder import prepare

    settings = Settings(data_dir=data_dir)
    with _file_errors(file):
        file.open("rb").close()
        with data_dir_lock(prepare(settings.data_dir, settings.umask), "restore"):
            manifest = run(file.absolute(), settings.url(), BlobStore(settings.blobs()), replace=replace)
    rows = sum(facts.rows for facts in manifest.tables.values())
    body = {"rows": rows, "blobs": len(manifest.blobs), "missing": manifest.missing, "created_at": manifest.created_at}
    _print(body, f"restored {rows} rows and {len(manifest.blobs)} blobs of {manifest.created_at}", as_json)


@contextlib.contextmanager
def _database(settings: Settings) -> Iterator[tuple[Any, Any, Any]]:
    """Sessions that write, sessions that read, and the engine. Raises NotFound when there is no database."""
    from db.engine import create_engine, parsed, session_factory
    from tunesmith.errors import NotFound

    url = parsed(settings.url())
    if url.get_backend_name() == "sqlite" and not Path(url.database or "").is_file():
        raise NotFound(
            f"there is no database {url.database}: give --data-dir or TUNESMITH_DATABASE_URL",
            field="data_dir",
            value=str(settings.data_dir),
        )
    engine = create_engine(settings.url())
    try:
        yield session_factory(engine), session_factory(engine, read_only=True), engine
    finally:
        engine.dispose()


@contextlib.contextmanager
def _file_errors(file: Path) -> Iterator[None]:
    from tunesmith.errors import InvalidInput

    try:
        yield
    except OSError as error:
        raise InvalidInput(f"cannot use {file}: {error.strerror or error}", field="file", value=str(file)) from error


def _print(body: dict[str, Any], text: str, as_json: bool) -> None:
    print(json.dumps(body) if as_json else text)
