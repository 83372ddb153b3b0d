"""``tunesmith bench dashboard``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def run(
    records: Annotated[int, typer.Option(min=100, help="Records of all jobs.")] = 1_000_000,
    jobs: Annotated[int, typer.Option(min=6, help="Jobs.")] = 1000,
    trials: Annotated[int, typer.Option(min=320, help="Trials of one of the jobs.")] = 100_000,
    tasks: Annotated[int, typer.Option(min=10, help="Tasks of another one.")] = 10_000,
    loads: Annotated[int, typer.Option(min=1, help="Times that each page is opened.")] = 3,
    looks: Annotated[int, typer.Option(min=1, help="Requests per route, after one that does not count.")] = 60,
    database_url: Annotated[str | None, typer.Option(help="An empty PostgreSQL database; by default SQLite.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("bench-out"),
    docs: Annotated[Path | None, typer.Option(help="Markdown page whose sections to replace.")] = None,
) -> None:
    """Time the dashboard's pages in a browser, and the routes behind them, with many records."""
    import tempfile

    from benchmarks.dashboard import figures
    from benchmarks.dashboard.plan import Sizes
    from benchmarks.dashboard.run import measure
    from benchmarks.harness.report import check, setup, write

    database = "postgresql" if database_url else "sqlite"
    for name in (figures.PAGES, figures.ROUTES) if docs else ():
        check(figures.named(name, database), docs)
    sizes = Sizes(records, jobs, trials, tasks)
    with tempfile.TemporaryDirectory(prefix="tunesmith-dashboard-") as folder:
        found = measure(sizes, Path(folder), loads, looks, database_url)
    facts = {**setup("nicegui", "fastapi", "sqlalchemy"), **found.facts}
    reports = (figures.pages(found.pages, found.empty, sizes, facts), figures.routes(found.routes, sizes, facts))
    for report in reports:
        for path in write(report, out, docs=docs):
            typer.echo(path)
    for late in [*figures.late_pages(found.pages), *figures.late_routes(found.routes)]:
        typer.echo(f"late: {late}")
