"""Copies of everything: of one moment, whole, and of use to either kind of database."""

from __future__ import annotations

import gzip
import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from databases import PostgresServer
from rows import SHA, add_batch, add_job, add_task

from db.archive.backup import Manifest, TableFacts, backup, pack
from db.archive.restore import restore
from db.blobs import BlobStore
from db.engine import create_engine, current_revision, head_revision, migrate, session_factory
from db.models import Base, Batch, Event, Job, JobTask, Record, TargetRow
from db.queries import blob_references
from services.embedded.lock import data_dir_lock
from tunesmith.cli.main import run_command_line
from tunesmith.errors import Conflict, InvalidInput

pytestmark = pytest.mark.parallel


class Service:
    """A database and its blobs, into which a thread writes."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.engine, self.blobs = url, create_engine(url), BlobStore(folder / "blobs")
        self.sessions = session_factory(self.engine)
        with self.sessions.begin() as session:
            add_job(session)
            add_task(session)
        self.written = 0

    def write(self) -> None:
        """A batch with features and two records, in one transaction."""
        number = self.written + 1
        blob = self.blobs.put_bytes(b"features %d" % number)
        with self.sessions.begin() as session:
            task = session.scalars(sa.select(JobTask)).one()
            batch = add_batch(session, task, number, size=2)
            batch.features_blob = blob
            session.add_all(
                Record(
                    job_id="j1",
                    job_task_id=task.id,
                    batch_id=batch.id,
                    index=index,
                    workload_hash="w1",
                    target_hash="t" * 64,
                    decisions=[[4, 2], "ü"],
                    samples=[1e-3, float(number)],
                    latency=1e-3,
                    environment={"tvm": "0.27", "number": number},
                )
                for index in (0, 1)
            )
        self.written = number

    def keep_writing(self, until: threading.Event) -> threading.Thread:
        def work() -> None:
            while not until.is_set():
                self.write()

        thread = threading.Thread(target=work)
        thread.start()
        return thread

    def rows(self, kind: type[Base]) -> list[dict[str, object]]:
        table = Base.metadata.tables[kind.__tablename__]
        with self.engine.connect() as connection:
            return [dict(row._mapping) for row in connection.execute(sa.select(table).order_by(*table.primary_key))]

    def close(self) -> None:
        self.engine.dispose()


@pytest.fixture
def service(database_url: str, tmp_path: Path) -> Iterator[Service]:
    made = Service(database_url, tmp_path)
    yield made
    made.close()


@pytest.fixture
def other(service: Service, tmp_path: Path, postgres: PostgresServer) -> Iterator[str]:
    """An empty database of the other kind."""
    if service.engine.dialect.name == "postgresql":
        yield f"sqlite:///{tmp_path / 'other.db'}"
        return
    url = postgres.create()
    yield url
    postgres.drop(url)


def filled(url: str, folder: Path) -> Service:
    """What was restored."""
    made = Service.__new__(Service)
    made.url, made.engine, made.blobs = url, create_engine(url), BlobStore(folder)
    made.sessions = session_factory(made.engine)
    return made


def test_a_copy_while_rows_are_written_is_whole(service: Service, other: str, tmp_path: Path) -> None:
    for _ in range(5):
        service.write()
    stop = threading.Event()
    writer = service.keep_writing(stop)
    try:
        while service.written < 10:
            stop.wait(0.01)
        before = service.written
        begun = service.written

        def until_more() -> None:
            while service.written < begun + 5:
                stop.wait(0.01)

        manifest = backup(service.engine, service.blobs, tmp_path / "copy.tar.gz", after_rows=until_more)
    finally:
        stop.set()
        writer.join()
    assert (tmp_path / "copy.tar.gz").stat().st_mode & 0o777 == 0o600
    assert manifest.missing == [SHA], "the module that the workload's row names was never there"
    assert service.written > before, "it went on meanwhile"
    restore(tmp_path / "copy.tar.gz", other, BlobStore(tmp_path / "blobs-2"))
    copy = filled(other, tmp_path / "blobs-2")
    records, batches = copy.rows(Record), {row["id"]: row for row in copy.rows(Batch)}
    assert len(records) >= 2 * before, "what was committed before is there"
    assert len(records) == 2 * len(batches), "and of a transaction all or nothing"
    for record in records:
        blob = batches[record["batch_id"]]["features_blob"]
        assert copy.blobs.get_bytes(str(blob)).startswith(b"features")
    originals = {row["id"]: row for row in service.rows(Record)}
    assert all(originals[row["id"]] == row for row in records)
    assert copy.rows(Job) == service.rows(Job)
    with copy.sessions.begin() as session:
        fresh = Record(index=0, workload_hash="w1", target_hash="t" * 64, decisions=[], samples=[], environment={})
        session.add(fresh)
        session.flush()
        assert fresh.id > max(int(str(row["id"])) for row in records)
    copy.close()


def test_numbers_of_rows_that_are_gone_are_not_given_again(service: Service, other: str, tmp_path: Path) -> None:
    with service.sessions.begin() as session:
        session.add_all(Event(kind="a", data={}) for _ in range(7))
    with service.sessions.begin() as session:
        session.execute(sa.delete(Event))
    backup(service.engine, service.blobs, tmp_path / "copy")
    restore(tmp_path / "copy", other, BlobStore(tmp_path / "blobs-2"))
    copy = filled(other, tmp_path / "blobs-2")
    with copy.sessions.begin() as session:
        event = Event(kind="b", data={})
        session.add(event)
        session.flush()
        assert event.id == 8
    copy.close()


def cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def flip(data: bytes) -> bytes:
    """Other content of a blob."""
    return gzip.compress(gzip.decompress(data).replace(b"features 2", b"features X"))


def fewer(data: bytes) -> bytes:
    text = gzip.decompress(data)
    at = text.index(b'"rows": 2')
    return gzip.compress(text[:at] + b'"rows": 3' + text[at + 9 :])


def later(data: bytes) -> bytes:
    head = head_revision().encode()
    return gzip.compress(gzip.decompress(data).replace(b'"revision": "' + head, b'"revision": "' + b"9" * len(head)))


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (cut, "damaged"),
        (flip, "another content"),
        (fewer, "should be"),
        (later, "does not know"),
        (lambda data: b"nothing", "no archive"),
        (lambda data: gzip.compress(b"nothing"), "no archive"),
    ],
)
def test_a_damaged_archive_changes_nothing(
    damage: Callable[[bytes], bytes], says: str, sqlite_url: str, tmp_path: Path
) -> None:
    service = Service(sqlite_url, tmp_path)
    service.write()
    service.write()
    backup(service.engine, service.blobs, tmp_path / "copy")
    (tmp_path / "copy").write_bytes(damage((tmp_path / "copy").read_bytes()))
    with pytest.raises(InvalidInput, match=says):
        restore(tmp_path / "copy", sqlite_url, service.blobs, replace=True)
    assert len(service.rows(Record)) == 4
    service.close()


def test_what_is_there_is_replaced_only_when_asked_for(service: Service, tmp_path: Path) -> None:
    service.write()
    backup(service.engine, service.blobs, tmp_path / "copy")
    service.write()
    with pytest.raises(Conflict, match="records"):
        restore(tmp_path / "copy", service.url, service.blobs)
    assert len(service.rows(Record)) == 4
    service.engine.dispose()
    restore(tmp_path / "copy", service.url, service.blobs, replace=True)
    assert len(service.rows(Record)) == 2


def test_an_archive_of_an_earlier_schema_is_brought_forward(tmp_path: Path) -> None:
    line = ["a" * 64, {"kind": "llvm"}, "llvm-x-2", "2026-01-02T03:04:05+00:00"]
    columns = {"hash": "plain", "json": "json", "device_class": "plain", "created_at": "time"}
    (tmp_path / "targets").write_text(json.dumps(line) + "\n")
    old = Manifest("0.0.9", "0001", line[3], {"targets": TableFacts(columns, 1)}, {}, [])
    pack(old, tmp_path, BlobStore(tmp_path / "blobs"), tmp_path / "old")
    url = f"sqlite:///{tmp_path / 'new.db'}"
    restore(tmp_path / "old", url, BlobStore(tmp_path / "blobs"))
    engine = create_engine(url)
    assert current_revision(engine) == head_revision()
    with session_factory(engine)() as session:
        row = session.scalars(sa.select(TargetRow)).one()
        assert (row.json, row.created_at.isoformat()) == ({"kind": "llvm"}, line[3])
    engine.dispose()


def test_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name in [name for name in os.environ if name.startswith("TUNESMITH_")]:
        monkeypatch.delenv(name)
    data, copy, fresh = tmp_path / "data", tmp_path / "copy", tmp_path / "fresh"
    assert run_command_line(["backup", str(copy), "--data-dir", str(data)]) == 1
    assert "there is no database" in capsys.readouterr().err
    data.mkdir()
    migrate(f"sqlite:///{data / 'tunesmith.db'}")
    service = Service(f"sqlite:///{data / 'tunesmith.db'}", data)
    service.write()
    service.close()
    with data_dir_lock(data, "http://127.0.0.1:1"):
        assert run_command_line(["backup", str(copy), "--data-dir", str(data), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["rows"]["records"] == 2
        assert run_command_line(["restore", str(copy), "--data-dir", str(data), "--replace"]) == 1
        assert "is in use" in capsys.readouterr().err
    assert run_command_line(["restore", str(copy), "--data-dir", str(data)]) == 1
    assert run_command_line(["restore", str(copy), "--data-dir", str(fresh), "--json"]) == 0
    assert run_command_line(["restore", str(tmp_path / "none"), "--data-dir", str(fresh)]) == 2
    capsys.readouterr()
    assert run_command_line(["prune", "--data-dir", str(fresh), "--dry-run", "--json", "--blob-hours", "0"]) == 0
    assert json.loads(capsys.readouterr().out) == {"jobs": 0, "records": 0, "events": 0, "blobs": 0, "bytes": 0}


def test_every_column_that_names_a_blob_counts() -> None:
    named = {
        f"{table.name}.{column.name}"
        for table in Base.metadata.sorted_tables
        for column in table.columns
        if "blob" in column.name or column.name == "sha256"
    }
    known = {f"{column.class_.__tablename__}.{column.key}" for column in blob_references.COLUMNS}
    assert named - known == {"api_keys.sha256"}
