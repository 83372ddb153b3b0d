"""``tunesmith bench records``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def run(
    records: Annotated[int, typer.Option(min=1000, help="Records in each database.")] = 1_000_000,
    looks: Annotated[int, typer.Option(min=2, help="Times that each question is asked.")] = 50,
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("bench-out"),
    docs: Annotated[Path | None, typer.Option(help="Markdown page whose sections to replace.")] = None,
) -> None:
    """Time how records are stored and found among many, on SQLite and on PostgreSQL."""
    import tempfile

    from benchmarks.faults.servers import postgres
    from benchmarks.harness.report import check, setup, write
    from benchmarks.records.figures import NAME, report
    from benchmarks.records.measure import measure

    if docs:
        check(NAME, docs)
    found = {}
    with tempfile.TemporaryDirectory(prefix="tunesmith-records-") as folder, postgres() as server:
        for name, url in (("SQLite", f"sqlite:///{folder}/records.db"), ("PostgreSQL", server.url())):
            typer.echo(f"{name}: {records} records", err=True)
            found[name] = measure(url, records, looks)
        facts = {**setup(), "PostgreSQL": server.version(), "looks": str(looks)}
    for path in write(report(found, records, facts), out, docs=docs):
        typer.echo(path)
