"""``tunesmith records``: the performance dataset over all jobs."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Annotated

import typer

from tunesmith.answers.records import RecordImportResult, RecordStats
from tunesmith.cli.options import Cursor, Json, Key, Limit, RecordOrder, Server, connect
from tunesmith.cli.output import emit, place, rows, seconds, table
from tunesmith.cli.progress import shown
from tunesmith.cli.record_options import Filters, with_record_options
from tunesmith.dataset.card import SECTIONS, card
from tunesmith.dataset.manifest import UNSTATED
from tunesmith.full_disk import writing

app = typer.Typer(help="Records of all jobs: list, stats, export, import.", no_args_is_help=True, add_completion=False)
Licence = Annotated[str, typer.Option(help="Licence of the records, such as CC-BY-4.0.")]


class Form(str, enum.Enum):
    """Forms of an export."""

    PARQUET = "parquet"
    METASCHEDULE = "metaschedule"


@app.command("list")
@with_record_options
def list_(
    wanted: Filters,
    sort: Annotated[
        RecordOrder, typer.Option(help="Order; latency is for the records of one workload.")
    ] = RecordOrder.NEWEST,
    limit: Limit = 50,
    cursor: Cursor = None,
    as_json: Json = False,
    server: Server = None,
    key: Key = None,
) -> None:
    """List measured candidates of all jobs, newest first."""
    with connect(server, key) as client:
        page = client.records(sort=sort.value, limit=limit, cursor=cursor, **wanted)
    lines = [
        (
            str(row.id),
            row.family,
            row.workload,
            row.device_class,
            row.precision,
            row.failure.value if row.failure else seconds(row.latency),
        )
        for row in page.items
    ]
    head = ("id", "operator", "workload", "device class", "precision", "latency")
    emit(page.model_dump(mode="json"), table(head, lines, whole=head), as_json)


@app.command()
@with_record_options
def stats(
    wanted: Filters,
    as_json: Json = False,
    server: Server = None,
    key: Key = None,
) -> None:
    """Count records by operator, target, processor, precision and failure."""
    with connect(server, key) as client:
        found = client.records_stats(**wanted)
    emit(found.model_dump(mode="json"), rows(_lines(found)), as_json)


def _lines(summary: RecordStats) -> list[tuple[str, str]]:
    lines = [("records", f"{summary.records}, {summary.failed} failed, {summary.simulated} simulated")]
    if summary.first is not None and summary.last is not None:
        lines.append(("stored", f"{summary.first.date()} to {summary.last.date()}"))
    for _, name in SECTIONS:
        counts: dict[str, int] = getattr(summary, name)
        if counts:
            lines.append((name, ", ".join(f"{value} {number}" for value, number in counts.items())))
    if summary.quarantined:
        lines.append(("quarantine", ", ".join(f"{value} {number}" for value, number in summary.quarantined.items())))
    return lines


@app.command()
@with_record_options
def export(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="File to write, such as r.parquet; its card is r.md.")],
    wanted: Filters,
    form: Annotated[Form, typer.Option("--format", help="metaschedule: best schedules of one target, as a folder.")] = (
        Form.PARQUET
    ),
    licence: Licence = UNSTATED,
    as_json: Json = False,
    server: Server = None,
    key: Key = None,
) -> None:
    """Write records and all that rebuilds their schedules to a Parquet file, and a card that describes it."""
    if form is Form.METASCHEDULE:
        with connect(server, key) as client:
            client.export_schedules(path, **wanted)
        emit({"folder": str(path)}, f"wrote a MetaSchedule database to {place(path)}", as_json)
        return
    about = path.with_suffix(".md")
    with connect(server, key) as client:
        found = client.records_stats(**wanted)
        client.export_records(path, licence=licence, **wanted)
    with writing(about):
        about.write_text(card(found, licence, found.quarantined), encoding="utf-8")
    said = {"file": str(path), "card": str(about), "records": found.records}
    emit(said, f"wrote about {found.records} records to {place(path)}, described in {place(about)}", as_json)


@app.command("import")
def import_(
    path: Annotated[
        Path, typer.Argument(metavar="FILE", help="A file of records export, a JSON log, or a MetaSchedule database.")
    ],
    as_json: Json = False,
    server: Server = None,
    key: Key = None,
) -> None:
    """Import records and wait for the result; they are claims until they are measured here."""
    with connect(server, key) as client, shown("importing", as_json):
        found = client.wait_import(client.import_records(path).id)
    assert found.result is not None, "an import that is done has a result"
    emit(found.model_dump(mode="json"), rows(_outcome(found.result)), as_json)


def _outcome(result: RecordImportResult) -> list[tuple[str, str]]:
    if result.rows and result.known == result.rows:
        return [("records", f"nothing is new: all {result.rows} were there already")]
    lines = [("added", f"{result.added} records, {result.failures} of them failures; {result.known} were there")]
    lines += [
        ("quarantined", f"{number} for {reason}, such as {result.examples.get(reason, '')}")
        for reason, number in result.quarantined.items()
    ]
    return [*lines, ("new", f"{result.workloads} workloads, {result.sketches} sketches, {result.targets} targets")]
