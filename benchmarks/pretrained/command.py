"""``tunesmith bench pretrained``."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.harness.progress import progress_of
from benchmarks.harness.report import check, setup, write
from benchmarks.operators.command import threads_of

TRIALS, SEEDS = 32, 2
SLICE, PASSES = 0.5, 2


def run(
    operators: Annotated[
        list[str] | None, typer.Option("--operator", help="An operator spec; repeatable (default: eight).")
    ] = None,
    trials: Annotated[int, typer.Option(min=2, help="Candidates that a job may measure.")] = TRIALS,
    seeds: Annotated[int, typer.Option(min=1, help="Jobs of each kind for an operator.")] = SEEDS,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads per run (default: all cores).")] = None,
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("bench-out"),
    docs: Annotated[Path | None, typer.Option(help="Markdown page whose sections to replace.")] = None,
) -> None:
    """Tune operators for a few trials, with the shipped models and without them, and time what both found in turn."""
    from benchmarks.operators.cases import Case
    from benchmarks.pretrained import study
    from benchmarks.tuners.plan import OPERATORS
    from tunesmith.operators import parse_operator

    if docs:
        check(study.NAME, docs)
    cores = threads_of(threads, len(os.sched_getaffinity(0)))
    cases = [Case(parse_operator(text).canonical, cores) for text in operators or OPERATORS]
    details = {**setup("lightgbm"), "threads": str(cores), "trials": str(trials)}
    found: list[study.Pair] = []
    paths: list[Path] = []
    for seed in range(seeds):
        for case in cases:
            with tempfile.TemporaryDirectory(prefix="tunesmith-pretrained-") as folder:
                plan = study.TrialPlan(trials, SLICE, PASSES)
                found.append(study.run(case, seed, plan, Path(folder), progress_of(case.name)))
            typer.echo(study.line(found[-1]), err=True)
            # After each operator: all of them take a quarter of an hour for each seed.
            paths = write(study.report(found, details), out, docs=docs)
    for path in paths:
        typer.echo(path)
