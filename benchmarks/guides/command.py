"""``tunesmith bench guides``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

SEED = 0
COUNT = 63


def run(
    count: Annotated[int, typer.Option(min=2, help="Operators that are drawn, of each family as many.")] = COUNT,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draw.")] = SEED,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads per run (default: all cores).")] = None,
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("bench-out"),
    docs: Annotated[Path | None, typer.Option(help="Markdown page whose sections to replace.")] = None,
) -> None:
    """Measure the first candidates of drawn operators: those of the static model, and those of a job."""
    from benchmarks.harness.report import check, write

    _, details = on_cores(threads, seed)
    from benchmarks.guides import study

    if docs:
        check(study.NAME, docs)
    found: list[study.Measured] = []
    paths: list[Path] = []
    for each in study.measured(count, seed):
        found.append(each)
        typer.echo(study.line(each), err=True)
        paths = write(study.report(found, details), out, docs=docs)
    for path in paths:
        typer.echo(path)


def on_cores(threads: int | None, seed: int) -> tuple[int, dict[str, str]]:
    """Load TVM on so many cores, all where nothing is said.

    Returns:
        how many, and the set-up for the report.

    Raises:
        InvalidInput: there are not so many.
    """
    from benchmarks.harness.child import leave_cores
    from benchmarks.harness.report import setup
    from benchmarks.operators.command import threads_of

    cores = threads_of(threads, len(os.sched_getaffinity(0)))
    details = {**setup("lightgbm"), "threads": str(cores), "seed": str(seed)}
    leave_cores(cores)
    return cores, details
