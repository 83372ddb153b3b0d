"""``tunesmith bench pages``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def run(
    tasks: Annotated[int, typer.Option(min=10, help="Tasks of the job.")] = 10_000,
    rounds: Annotated[int, typer.Option(min=10, help="Finished rounds of the job.")] = 12_000,
    looks: Annotated[int, typer.Option(min=2, help="Requests per page, after one that does not count.")] = 100,
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("bench-out"),
    docs: Annotated[Path | None, typer.Option(help="Markdown page whose sections to replace.")] = None,
) -> None:
    """Time the pages of a job with many tasks, on SQLite and on PostgreSQL."""
    import tempfile

    from benchmarks.faults.servers import ROLE, postgres
    from benchmarks.harness.report import check, setup, write
    from benchmarks.pages.figures import NAME, pages
    from benchmarks.pages.measure import look_at

    if docs:
        check(NAME, docs)
    found = {}
    with tempfile.TemporaryDirectory(prefix="tunesmith-pages-") as folder, postgres() as server:
        server.execute(f"CREATE DATABASE young OWNER {ROLE}")
        server.execute("ALTER SYSTEM SET autovacuum = off")
        server.execute("SELECT pg_reload_conf()")
        for name, url, analyze in (
            ("SQLite", f"sqlite:///{folder}/pages.db", True),
            ("PostgreSQL", server.url(), True),
            ("PostgreSQL, old statistics", server.url(database="young"), False),
        ):
            typer.echo(f"{name}: {tasks} tasks, {rounds} rounds", err=True)
            found[name] = look_at(url, Path(folder), tasks, rounds, looks, analyze=analyze)
        facts = {**setup(), "PostgreSQL": server.version(), "looks": str(looks)}
    for path in write(pages(found, tasks, rounds, facts), out, docs=docs):
        typer.echo(path)
