"""``tunesmith bench search``."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from benchmarks.harness.progress import progress_of
from benchmarks.harness.report import sections, setup, table, write, write_rows
from benchmarks.operators.command import RUNS, threads_of
from tunesmith.names import DEFAULT_SEARCHER

if TYPE_CHECKING:
    from benchmarks.search.comparison import SearchOutcome

SLICE, QUICK_SLICE = 0.5, 0.3
PASSES = 2
SEEDS, QUICK_SEEDS = 2, 1


def run(
    operators: Annotated[
        list[str] | None, typer.Option("--operator", help="An operator spec; repeatable (default: eight).")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Two operators, one seed, only recorded runs of MetaSchedule.")
    ] = False,
    search: Annotated[
        list[str] | None, typer.Option(help=f"One of Tunesmith's searchers; repeatable (default: {DEFAULT_SEARCHER}).")
    ] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Searches per tuner (default: 2, quick 1).")] = None,
    seconds: Annotated[
        float | None,
        typer.Option(min=10.0, help="Wall time in Tunesmith's own space (default: MetaSchedule's longest run)."),
    ] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads per run (default: all cores).")] = None,
    runs: Annotated[Path, typer.Option(help="Folder of MetaSchedule's recorded runs.")] = RUNS,
    record: Annotated[
        bool | None,
        typer.Option("--record/--no-record", help="Make and keep missing runs (default: yes, unless --quick)."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for CSV files, tables and the plot.")] = Path("bench-out"),
    docs: Annotated[Path | None, typer.Option(help="Markdown page; its sections of these tables are replaced.")] = None,
) -> None:
    """Compare the search alone with MetaSchedule's, trial by trial, in TVM's design space.

    And how soon Tunesmith with everything on is as fast as MetaSchedule after all its trials. Several searchers are
    also compared with the first of them; that, with --seconds, needs no run of MetaSchedule.
    """
    from benchmarks.operators.cases import Case
    from benchmarks.search import comparison, figures
    from benchmarks.tuners.plan import OPERATORS, QUICK_OPERATORS
    from tunesmith.operators import parse_operator
    from tunesmith.search.registry import SEARCHERS

    searchers = SEARCHERS.check(*(search or (DEFAULT_SEARCHER,)))
    cores = threads_of(threads, len(os.sched_getaffinity(0)))
    wanted = operators or (QUICK_OPERATORS if quick else OPERATORS)
    made = not quick if record is None else record
    cases = [Case(parse_operator(text).canonical, cores, record_missing=made) for text in wanted]
    pages = dict.fromkeys(sections(figures.NAMES, docs), docs) if docs else {}
    plan = comparison.SearchPlan(searchers, seconds, QUICK_SLICE if quick else SLICE, PASSES, runs)
    details = {"threads": str(cores), "searchers": ", ".join(searchers)}
    if seconds is not None:
        details["seconds with everything on"] = f"{seconds:g}"
    outcomes: list[SearchOutcome] = []
    paths: list[Path] = []
    for seed in range(seeds or (QUICK_SEEDS if quick else SEEDS)):
        for case in cases:
            with tempfile.TemporaryDirectory(prefix="tunesmith-search-") as folder:
                outcomes.append(comparison.run(case, seed, plan, Path(folder), progress_of(case.name)))
            # After each operator: all of them take an hour for each seed, and may not come to their end.
            paths = _write(outcomes, details, out, pages)
    found = figures.reports(outcomes, {})
    for report in found:
        print(f"{report.title}\n\n{table(report.columns, report.rows)}\n")
    print(figures.verdict(found))
    for path in paths:
        print(f"wrote {path}")


def _write(
    outcomes: list[SearchOutcome], details: Mapping[str, str], out: Path, pages: Mapping[str, Path | None]
) -> list[Path]:
    """Every table as far as it has come; ``pages`` by the name of its section."""
    from benchmarks.search import figures

    seeds = ", ".join(map(str, sorted({outcome.seed for outcome in outcomes})))
    paths: list[Path] = []
    for report in figures.reports(outcomes, {**setup(), **details, "seeds": seeds}):
        draw = (lambda axes: figures.draw(axes, outcomes)) if report.name == figures.SEARCH else None
        paths += write(report, out, draw, pages.get(report.name))
    return [*paths, write_rows(out / "search-latencies.csv", figures.latencies(outcomes))]
