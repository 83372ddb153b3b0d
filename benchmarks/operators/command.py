"""``tunesmith bench operators``."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from benchmarks.harness.progress import progress_of
from benchmarks.harness.report import check, setup, table, write, write_rows
from tunesmith.errors import InvalidInput

if TYPE_CHECKING:
    from benchmarks.harness.limits import Peak
    from benchmarks.operators.cases import Case
    from benchmarks.operators.comparison import OperatorOutcome, OperatorsPlan

SECONDS, QUICK_SECONDS = 120.0, 90.0
SLICE, QUICK_SLICE = 1.0, 0.5
PASSES, QUICK_PASSES = 4, 2
SEEDS, QUICK_SEEDS = 2, 1
RUNS = Path("benchmarks/operators/runs")


def run(
    operators: Annotated[
        list[str] | None, typer.Option("--operator", help="An operator spec; repeatable (default: thirteen).")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Two operators, one seed; within ten minutes.")] = False,
    seeds: Annotated[int | None, typer.Option(min=1, help="Searches per tuner (default: 2, quick 1).")] = None,
    seconds: Annotated[
        float | None,
        typer.Option(min=10.0, help="Tunesmith's wall time (default: that of MetaSchedule's shorter run)."),
    ] = None,
    with_: Annotated[str | None, typer.Option("--with", help="Runtimes, separated by commas (default: all).")] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads per run (default: all cores, and the first operator on one).")
    ] = None,
    runs: Annotated[
        Path, typer.Option(help="Folder of MetaSchedule's recorded runs; missing ones are made and kept there.")
    ] = RUNS,
    out: Annotated[Path, typer.Option(help="Folder for CSV files, tables and the plot.")] = Path("bench-out"),
    docs: Annotated[Path | None, typer.Option(help="Markdown page whose sections to replace.")] = None,
) -> None:
    """Compare Tunesmith, MetaSchedule and other runtimes on single operators, and with the machine's limit.

    Tunesmith has the wall time of MetaSchedule's sooner run. Those runs take minutes each and are recorded; with
    --quick only those that are there take part.
    """
    from benchmarks.harness.contenders import chosen_names
    from benchmarks.operators import cases, figures
    from benchmarks.operators.comparison import OperatorsPlan

    cores = len(os.sched_getaffinity(0))
    threads_of(threads, cores)
    todo = cases.chosen(operators, quick, threads, cores)
    for name in figures.NAMES:
        check(name, docs)
    plan = OperatorsPlan(
        chosen_names(with_),
        tuple(range(seeds or (QUICK_SEEDS if quick else SEEDS))),
        seconds,
        QUICK_SECONDS if quick else SECONDS,
        QUICK_SLICE if quick else SLICE,
        QUICK_PASSES if quick else PASSES,
        runs,
    )
    outcomes: list[OperatorOutcome] = []
    peaks: dict[int, Peak] = {}
    paths: list[Path] = []
    for case in todo:
        outcomes.append(_run(case, plan, peaks))
        # After each operator: all of them take hours, and may not come to their end.
        paths = _write(outcomes, peaks, out, docs)
    for report in figures.reports(outcomes, {}):
        print(f"{report.title}\n\n{table(report.columns, report.rows)}\n")
    if verdict := figures.verdict(outcomes):
        print(verdict)
    for path in paths:
        print(f"wrote {path}")


def _run(case: Case, plan: OperatorsPlan, peaks: dict[int, Peak]) -> OperatorOutcome:
    """One case; the machine's limits are looked at before and after it."""
    from benchmarks.operators import comparison
    from benchmarks.peak.machine import measure

    before = measure(case.threads).peak
    with tempfile.TemporaryDirectory(prefix="tunesmith-operators-") as folder:
        outcome = comparison.run(case, plan, Path(folder), progress_of(case.name))
    best = before.at_best(measure(case.threads).peak)
    peaks[case.threads] = peaks[case.threads].at_best(best) if case.threads in peaks else best
    return outcome


def _write(outcomes: list[OperatorOutcome], peaks: dict[int, Peak], out: Path, docs: Path | None) -> list[Path]:
    """Every table as far as it has come; the shares are those of the best limits so far."""
    from dataclasses import replace

    from benchmarks.operators import figures

    outcomes[:] = [replace(o, peak=peaks[o.case.threads].of(o.case.precision)) for o in outcomes]
    seeds = sorted({entry.seed for outcome in outcomes for entry in outcome.entries if entry.seed is not None})
    details = setup("onnxruntime", "openvino", "torch") | {
        "threads": ", ".join(map(str, sorted(peaks))),
        "seeds": ", ".join(map(str, seeds)),
    }
    paths: list[Path] = []
    for report in figures.reports(outcomes, details):
        draw = (lambda axes: figures.draw(axes, outcomes)) if report.name == figures.NAMES[0] else None
        paths += write(report, out, draw, docs)
    return [*paths, write_rows(out / "operators-latencies.csv", figures.latencies(outcomes))]


def threads_of(given: int | None, cores: int) -> int:
    """As many threads as are asked for, all ``cores`` where nothing is said.

    Raises:
        InvalidInput: there are not so many.
    """
    if given and given > cores:
        raise InvalidInput(f"there are {cores} cores here, not {given}", field="threads", value=given)
    return given or cores
