"""Records as a file: out of one service, into an empty one and out of that again; files that nobody should believe."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import core_flow
import pytest
import sqlalchemy as sa
from api_driver import Api, problem
from fake_fleet import Folder

from db.engine import migrate
from db.models import Device, Record, RecordImport, Schedule, SketchRow, WorkloadRow
from db.models.base import utcnow
from db.queries import devices, measured, records
from tunesmith.dataset.manifest import Manifest, Tally
from tunesmith.dataset.parquet import DatasetReader, DatasetWriter
from tunesmith.dataset.rows import About, Definition, Kind, RecordRow
from tunesmith.messages import ImportRecords, IngestModel
from workers.core import import_records, ingest
from workers.core.context import Context

pytestmark = pytest.mark.parallel
ENVIRONMENT = {"cpu": "EPYC", "tvm": "0.27.0", "host": "secret-host", "device": "secret-host/0", "noise_floor": 0.01}
Row = Definition | RecordRow


@dataclass
class Service:
    """A coordinator and a core worker on one data folder."""

    api: Api
    core: Context

    def export(self, path: Path, **wanted: Any) -> DatasetReader:
        answer = self.api.client.post("/v1/records/export", json={"licence": "CC0-1.0", **wanted})
        assert answer.status_code == 200, answer.text
        path.write_bytes(answer.content)
        return DatasetReader(path)

    def imports(self, path: Path) -> dict[str, Any]:
        """What became of a file that was sent and that a worker read."""
        sent = self.api.client.post("/v1/records/import", files={"file": (path.name, path.read_bytes())})
        assert sent.status_code == 202, sent.text
        self.api.loop.step()
        (message,) = [each.message for each in self.api.broker.take() if isinstance(each.message, ImportRecords)]
        assert import_records.import_records(self.core, message)
        found: dict[str, Any] = self.api.client.get(sent.headers["location"]).json()
        return found

    def count(self, kind: type) -> int:
        return self.api.count(kind)


def service(folder: Path) -> Service:
    folder.mkdir()
    url = f"sqlite:///{folder / 'tunesmith.db'}"
    migrate(url)
    return Service(Api(Folder(folder, url)), core_flow.core_context(folder, url))


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service whose job measured some hundred candidates of a gemm."""
    made = service(tmp_path_factory.mktemp("exchange") / "first")
    core_flow.import_and_prepare(made.core, search="random", cost_model="none")
    core_flow.report(made.core, core_flow.propose(made.core, size=120), environment=ENVIRONMENT)
    yield made
    made.api.close()


@pytest.fixture(scope="module")
def second(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    made = service(tmp_path_factory.mktemp("exchange") / "second")
    yield made
    made.api.close()


def rows_of(reader: DatasetReader) -> list[Row]:
    return [row for group in range(reader.groups) for row in reader.group(group)]


def contents(reader: DatasetReader) -> list[str]:
    return [row.content for row in rows_of(reader) if isinstance(row, RecordRow)]


def rewritten(path: Path, reader: DatasetReader, change: Callable[[Row], Row]) -> Path:
    """A file of changed rows with an honest manifest."""
    with path.open("wb") as file:
        writer = DatasetWriter(file)
        for row in rows_of(reader):
            row = change(row)
            if isinstance(row, Definition):
                writer.define(row)
            else:
                writer.record(row, "", About("", "", "", "warm", False))
        writer.close(utcnow(), "CC0-1.0")
    return path


def test_what_one_service_exports_another_has_after_an_import(first: Service, second: Service, tmp_path: Path) -> None:
    reader = first.export(tmp_path / "a.parquet")
    total = first.count(Record)
    failed = first.api.client.get("/v1/records/stats").json()["failed"]
    assert (reader.manifest.summary.records, reader.manifest.summary.failed) == (total, failed)
    assert failed > 0
    assert total >= 100
    assert b"secret-host" not in (tmp_path / "a.parquet").read_bytes()
    assert not any("secret" in str(row) for row in rows_of(reader))

    done = second.imports(tmp_path / "a.parquet")
    assert (done["state"], done["error"], done["manifest"]["licence"]) == ("done", None, "CC0-1.0")
    counts = {name: done["result"][name] for name in ("rows", "added", "failures", "known", "quarantined")}
    assert counts == {"rows": total, "added": total, "failures": failed, "known": 0, "quarantined": {}}
    assert second.count(SketchRow) == len(
        {row.sketch for row in rows_of(reader) if isinstance(row, RecordRow)} - {None}
    )
    again = second.export(tmp_path / "b.parquet")
    assert contents(again) == contents(reader)
    assert again.manifest.rows == reader.manifest.rows
    assert again.manifest.summary == reader.manifest.summary

    for service in (second, first):  # to whoever has the records already they are nothing new
        before = service.count(Record)
        known = service.imports(tmp_path / "a.parquet")["result"]
        assert (known["added"], known["known"], service.count(Record)) == (0, total, before)


def test_a_sketch_of_two_workloads_travels_with_each(second: Service, tmp_path: Path) -> None:
    both, empty = service(tmp_path / "both"), service(tmp_path / "empty")
    for number, shape in enumerate(("64x96", "32x96")):
        job, model = f"j{number}", f"m{number}"
        core_flow.add_operator(both.core, model, f"softmax:{shape}:float32")
        assert ingest.import_model(both.core, IngestModel(model_id=model, attempt=1))
        core_flow.import_and_prepare(both.core, job, model, search="random", cost_model="none")
        core_flow.report(both.core, core_flow.propose(both.core, job, size=16), environment=ENVIRONMENT)
    reader = both.export(tmp_path / "both.parquet")
    rows = [row for row in rows_of(reader) if isinstance(row, RecordRow)]
    one, other = dict.fromkeys(row.workload for row in rows)
    sketches = [{row.sketch for row in rows if row.workload == workload} - {None} for workload in (one, other)]
    assert sketches[0] & sketches[1], "the schedule without tiles names no extent"

    both.export(tmp_path / "other.parquet", workload=other)
    alone = second.imports(tmp_path / "other.parquet")["result"]
    assert (alone["added"], alone["quarantined"]) == (sum(row.workload == other for row in rows), {})
    whole = empty.imports(tmp_path / "both.parquet")["result"]
    assert (whole["added"], whole["quarantined"]) == (len(rows), {})
    assert whole["sketches"] == empty.count(SketchRow) == len(sketches[0] | sketches[1])
    assert empty.export(tmp_path / "again.parquet").manifest.rows == reader.manifest.rows
    for made in (both, empty):
        made.api.close()


def test_imported_records_are_claims(first: Service, second: Service, tmp_path: Path) -> None:
    first.export(tmp_path / "a.parquet")
    second.imports(tmp_path / "a.parquet")
    claims = second.api.client.get("/v1/records", params={"origin": "imported", "limit": 1}).json()["items"]
    assert (claims[0]["origin"], claims[0]["processor"]) == ("imported", "EPYC")
    assert second.count(Schedule) == 0, "a claim is no champion"
    workload, target = claims[0]["workload"], claims[0]["target"]
    problem(second.api.client.get(f"/v1/workloads/{workload}/best"), 404, "not_found")
    device = Device(
        name="d", worker="w", host="h", device_classes=["llvm-x86-64-v3-2"], target={}, cores=2, seen_at=utcnow()
    )
    with second.core.sessions.begin() as session:
        device.environment = ENVIRONMENT
        session.add(device)
    with second.core.readers() as session:
        sketches = session.scalars(sa.select(SketchRow.hash)).all()
        makes = devices.makes(session, "llvm-x86-64-v3-2")

        def seeds(claims: records.Claims | None) -> int:
            return len(records.best_elsewhere(session, workload, target, sketches, "j", 9, claims=claims))

        assert seeds(records.Claims("float32", makes)) == 9
        others = (None, records.Claims("bf16", makes), records.Claims("float32", {("EPYC", "0.28.0")}))
        assert [seeds(claims) for claims in others] == [0, 0, 0]
        assert measured.candidates(session, target, "float32", 9) == []
        assert measured.richest_target(session) is None
        learned = measured.candidates(session, target, "float32", 9, imported=True)
        assert {each.workload for each in learned} == {workload}
        assert len(learned) == 9
        assert measured.richest_target(session, imported=True) == target
        assert records.of_workload_since(session, workload, target, sketches, 0, "j") == []
        assert records.latest_baseline(session, workload, target, records.CacheState.WARM) is None


def test_rows_that_cannot_be_true_are_quarantined(first: Service, second: Service, tmp_path: Path) -> None:
    reader = first.export(tmp_path / "a.parquet")
    good = next(row for row in rows_of(reader) if isinstance(row, RecordRow) and row.sketch and not row.failure)
    later = utcnow() + dt.timedelta(days=9)
    bad: tuple[tuple[str, dict[str, Any]], ...] = (
        ("number", {"samples": [math.nan], "latency": math.nan}),
        ("number", {"samples": [-1.0], "latency": -1.0}),
        ("number", {"samples": [0.0], "latency": 0.0}),
        ("number", {"samples": [math.inf], "latency": math.inf}),
        ("number", {"run_seconds": math.nan}),
        ("too_fast", {"samples": [2e-9], "latency": 2e-9}),
        ("median", {"latency": good.latency and good.latency * 1.01}),
        ("outcome", {"failure": "bored", "samples": [], "latency": None}),
        ("outcome", {"failure": "timeout"}),
        ("outcome", {"precision": "float8"}),
        ("unknown_target", {"target": "f" * 64}),
        ("unknown_workload", {"workload": "7"}),
        ("unknown_sketch", {"sketch": "s" * 64}),
        ("unknown_environment", {"environment": "e" * 64}),
        ("decisions", {"decisions": [*good.decisions[:-1], 10**6]}),
        ("decisions", {"decisions": good.decisions[1:]}),
        ("oversized", {"samples": [1.0] * 1001, "latency": 1.0}),
        ("time", {"measured_at": later}),
    )
    changes = iter(bad)

    def change(row: Row) -> Row:
        if isinstance(row, Definition):
            return row
        _, values = next(changes, ("", {}))
        return replace(good, **values) if values else replace(row, run_seconds=row.run_seconds + 1.0)

    before = second.count(Record)
    done = second.imports(rewritten(tmp_path / "bad.parquet", reader, change))
    expected = {name: sum(reason == name for reason, _ in bad) for name, _ in bad}
    assert done["result"]["quarantined"] == expected, done["result"]["examples"]
    assert set(done["result"]["examples"]) == set(expected)
    assert second.api.client.get("/v1/records/stats").json()["quarantined"] == expected
    assert second.count(Record) - before == done["result"]["added"] == done["result"]["rows"] - len(bad)


def test_best_schedules_travel_as_a_metaschedule_database_and_as_a_log(
    first: Service, second: Service, tmp_path: Path
) -> None:
    with first.core.readers() as session:
        champion = session.scalars(sa.select(Schedule)).one()
        record = session.get_one(Record, champion.record_id)
        body = session.get_one(SketchRow, record.sketch_hash).body
    request = {"format": "metaschedule", "target": champion.target_hash}
    answer = first.api.client.post("/v1/records/export", json=request)
    (tmp_path / "db.zip").write_bytes(answer.content)
    log = first.api.client.get("/v1/jobs/j1/best")
    (tmp_path / "best.jsonl").write_bytes(log.content)
    done = second.imports(tmp_path / "db.zip")
    assert done["error"] is None
    counts = {key: done["result"][key] for key in ("rows", "added", "quarantined")}
    assert counts == {"rows": 1, "added": 1, "quarantined": {}}
    with second.core.readers() as session:
        found = session.scalars(sa.select(Record).where(Record.import_id == done["id"])).one()
        sketch = session.get_one(SketchRow, found.sketch_hash).body
    assert (found.workload_hash, found.decisions) == (record.workload_hash, record.decisions)
    assert sketch["trace"] == body["trace"]
    for name in ("db.zip", "best.jsonl"):  # the log says the same of the same schedule
        assert second.imports(tmp_path / name)["result"]["known"] == 1
    for wanted, status in (({"family": "conv2d"}, 404), ({"failure": "any"}, 422)):
        assert first.api.client.post("/v1/records/export", json={**request, **wanted}).status_code == status
    (tmp_path / "broken.zip").write_bytes(answer.content[:-30])
    assert second.imports(tmp_path / "broken.zip")["error"]["code"] == "invalid_input"


def test_files_that_were_changed_are_refused_in_one_sentence(second: Service, first: Service, tmp_path: Path) -> None:
    reader = first.export(tmp_path / "a.parquet")
    whole = (tmp_path / "a.parquet").read_bytes()
    before = second.count(Record), second.count(WorkloadRow)

    def module(row: Row) -> Row:  # another program under the workload's name
        if isinstance(row, Definition) and row.kind is Kind.WORKLOAD:
            return replace(row, hash="1", body={**row.body, "module": "{}"})
        return row if isinstance(row, Definition) else replace(row, workload="1")

    forged = second.imports(rewritten(tmp_path / "forged.parquet", reader, module))
    assert set(forged["result"]["quarantined"]) == {"unknown_workload"}
    assert forged["result"]["added"] == 0

    def manifest(**values: Any) -> bytes:
        text = reader.manifest.text()
        changed = Manifest.model_validate_json(text).model_copy(update=values)
        return whole.replace(text.encode(), changed.text().encode())

    class Wrong(DatasetWriter):
        """A writer whose rows are not those of its manifest."""

        def close(self, created: dt.datetime, licence: str) -> Manifest:
            self._tally = Tally()
            return super().close(created, licence)

    with (tmp_path / "rows.parquet").open("wb") as file:
        writer = Wrong(file)
        writer.define(Definition(Kind.TARGET, "t", {}))
        writer.close(utcnow(), "x")
    files = {
        "no Parquet file": b"PAR1 but nothing else PAR1",
        "no Parquet file that": whole[: len(whole) // 2],
        "its schema is": manifest(schema_="tunesmith.dataset/9"),
        "its manifest was changed": manifest(licence="CC9-1.0"),
        "its rows were changed": (tmp_path / "rows.parquet").read_bytes(),
    }
    for said, data in files.items():
        (tmp_path / "x.parquet").write_bytes(data)
        done = second.imports(tmp_path / "x.parquet")
        assert (done["state"], done["error"]["code"]) == ("failed", "invalid_input")
        assert said in done["error"]["detail"]
        assert "\n" not in done["error"]["detail"]
    assert (second.count(Record), second.count(WorkloadRow)) == before
    with second.core.readers() as session:
        assert session.scalars(sa.select(RecordImport.blob).where(RecordImport.blob.is_not(None))).all() == []
