"""``tunesmith bench faults``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

CAPACITY_SECONDS = 10.0


def run(
    scenario: Annotated[list[str] | None, typer.Option(help="A scenario; repeatable (default: all).")] = None,
    seconds: Annotated[float, typer.Option(min=1.0, help="Duration of each of a run's three phases.")] = 15.0,
    runs: Annotated[int, typer.Option(min=1, help="Runs per scenario; the median counts.")] = 3,
    load: Annotated[
        float, typer.Option(min=0.05, max=1.0, help="Load that devices offer, as a share of the capacity.")
    ] = 0.5,
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("bench-out"),
    docs: Annotated[Path | None, typer.Option(help="Markdown page whose section to replace.")] = None,
) -> None:
    """Restart the database and kill connections and workers under load, and check that throughput recovers.

    And whether each candidate has one result.
    """
    from benchmarks.faults import comparison, figures
    from benchmarks.faults.scenarios import SCENARIOS
    from benchmarks.harness.progress import progress_of
    from benchmarks.harness.report import check, markdown, setup, write
    from tunesmith.errors import InvalidInput

    unknown = set(scenario or ()) - set(SCENARIOS)
    if unknown:
        raise InvalidInput(
            f"no scenario {sorted(unknown)[0]!r}: there are {', '.join(SCENARIOS)}",
            field="scenario",
            value=sorted(unknown)[0],
        )
    if docs:
        check(figures.NAME, docs)
    plan = comparison.FaultsPlan(tuple(scenario or SCENARIOS), seconds, runs, load, min(CAPACITY_SECONDS, seconds))
    found, facts = comparison.run(plan, progress_of("faults"))
    report = figures.faults(found, {**setup("sqlalchemy", "celery", "redis", "psycopg"), **facts})
    typer.echo(markdown(report))
    for path in write(report, out, docs=docs):
        typer.echo(path)
