"""``tunesmith bench answers``."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer

COUNT, TRIALS, SEED = 42, 48, 0


def run(
    count: Annotated[int, typer.Option(min=2, help="Operators that are answered, of each family as many.")] = COUNT,
    trials: Annotated[int, typer.Option(min=2, help="Candidates that each search measures.")] = TRIALS,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draw and of the searches.")] = SEED,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads per run (default: all cores).")] = None,
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("bench-out"),
    docs: Annotated[Path | None, typer.Option(help="Markdown page whose sections to replace.")] = None,
) -> None:
    """Tune drawn operators, and compare what is chosen without a measurement with what the searches found."""
    from benchmarks.guides.command import on_cores
    from benchmarks.harness.progress import progress_of
    from benchmarks.harness.report import check, write

    cores, details = on_cores(threads, seed)
    from benchmarks.answers import study

    if docs:
        check(study.NAME, docs)
    draw, found, paths = study.Draw(count, seed, trials), list[study.Answered](), list[Path]()
    with tempfile.TemporaryDirectory(prefix="tunesmith-answers-") as folder:
        for each in study.answered(draw, cores, Path(folder), progress_of("search")):
            found.append(each)
            typer.echo(study.line(each), err=True)
            paths = write(study.report(found, draw, details), out, docs=docs)
    for path in paths:
        typer.echo(path)
