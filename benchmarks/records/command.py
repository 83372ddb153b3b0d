"""``tunesmith bench records``."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Annotated

import typer


class Database(str, enum.Enum):
    """Where records are stored."""

    SQLITE = "sqlite"
    POSTGRESQL = "postgresql"


def run(
    records: Annotated[int, typer.Option(min=1000, help="Records in each database.")] = 1_000_000,
    among: Annotated[
        int, typer.Option(min=0, help="Ask PostgreSQL once there are so many, copies of those stored; 0: those stored.")
    ] = 0,
    database: Annotated[
        list[Database] | None, typer.Option(help="Only this database, sqlite or postgresql; may be repeated.")
    ] = None,
    looks: Annotated[int, typer.Option(min=2, help="Times that each question is asked.")] = 50,
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("bench-out"),
    docs: Annotated[Path | None, typer.Option(help="Markdown page whose sections to replace.")] = None,
) -> None:
    """Time how records are stored and found among many, on SQLite and on PostgreSQL."""
    import tempfile
    from contextlib import ExitStack

    from benchmarks.faults.servers import postgres
    from benchmarks.harness.report import check, setup, write
    from benchmarks.records.figures import NAME, report
    from benchmarks.records.measure import measure
    from services.coordinator.main import settle

    if docs:
        check(NAME, docs)
    settle()  # as the coordinator, which asks in real life, does
    found, facts = {}, {**setup(), "looks": str(looks)}
    with ExitStack() as stack:
        for each in database or list(Database):
            if each is Database.SQLITE:
                folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="tunesmith-records-"))
                name, url = "SQLite", f"sqlite:///{folder}/records.db"
            else:
                server = stack.enter_context(postgres())
                name, url, facts["PostgreSQL"] = "PostgreSQL", server.url(), server.version()
            typer.echo(f"{name}: {records} records", err=True)
            found[name] = measure(url, records, looks, 0 if each is Database.SQLITE else among)
    for path in write(report(found, records, facts), out, docs=docs):
        typer.echo(path)
