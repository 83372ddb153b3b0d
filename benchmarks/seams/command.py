"""``tunesmith bench seams``."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer

SIZES = (64, 256, 1024, 4096, 8192, 16384, 65536)
WRITTEN = 128 << 10
MARGIN = 120.0
"""Seconds for what comes before the first turn."""


def run(
    seconds: Annotated[float, typer.Option(min=1.0, help="How long to time.")] = 60.0,
    threads: Annotated[int | None, typer.Option(min=2, help="Threads per run (default: all cores).")] = None,
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("bench-out"),
    docs: Annotated[Path | None, typer.Option(help="Markdown page whose sections to replace.")] = None,
) -> None:
    """Measure what it costs cores that others write next to them, by the size of the pieces."""
    from benchmarks.guides.command import on_cores
    from benchmarks.harness.processes import ask
    from benchmarks.harness.report import check, write
    from benchmarks.seams import figures
    from benchmarks.seams.probe import Job
    from tunesmith.errors import InvalidInput

    if docs:
        check(figures.NAME, docs)
    cores, details = on_cores(threads, 0)
    del details["seed"]  # nothing is drawn
    if cores < 2:
        raise InvalidInput("one core writes next to nobody", field="threads", value=cores)
    with tempfile.TemporaryDirectory(prefix="tunesmith-seams-") as folder:
        job = Job(cores, SIZES, WRITTEN, seconds)
        found = ask("benchmarks.seams.probe", job, Path(folder), seconds + MARGIN, "seams could not be timed")
    for path in write(figures.report(SIZES, WRITTEN, found, details), out, docs=docs):
        typer.echo(path)
