"""``tunesmith bench fleet``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def run(
    quick: Annotated[bool, typer.Option("--quick", help="50 devices, 500 tasks, half a minute.")] = False,
    devices: Annotated[int | None, typer.Option(min=1, help="Simulated devices (default: 1000, quick 50).")] = None,
    tasks: Annotated[
        int | None, typer.Option(min=10, help="Tasks in all jobs together (default: 10000, quick 500).")
    ] = None,
    seconds: Annotated[float | None, typer.Option(min=1.0, help="Simulated time (default: 120, quick 30).")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Number of simulations.")] = 2,
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("bench-out"),
    docs: Annotated[Path | None, typer.Option(help="Markdown page whose sections to replace.")] = None,
) -> None:
    """Let ten jobs of three users share a simulated fleet, with the service's own scheduling.

    And time what each allocator takes for a decision among that many tasks.
    """
    from benchmarks.fleet import figures
    from benchmarks.fleet.decisions import decide
    from benchmarks.fleet.simulation import WARM_UP, Fleet, ten_jobs
    from benchmarks.harness.report import check, setup, write
    from services.coordinator.main import settle

    for name in figures.NAMES if docs else ():
        check(name, docs)
    size, count, time = (
        devices or (50 if quick else 1000),
        tasks or (500 if quick else 10_000),
        seconds or (30.0 if quick else 120.0),
    )
    settle()  # as the coordinator does when it starts
    outcomes = [Fleet(size, ten_jobs(count), seed).run(WARM_UP, time) for seed in range(seeds)]
    facts = {**setup(), "devices": f"{size}, simulated", "seconds": f"{time:g}, simulated"}
    for report in (figures.fleet(outcomes, count, facts), figures.decisions(decide(count), setup())):
        for path in write(report, out, docs=docs):
            typer.echo(path)
