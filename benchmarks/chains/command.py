"""``tunesmith bench chains``."""

from __future__ import annotations

import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from benchmarks.harness.progress import progress_of
from benchmarks.harness.report import check, setup, table, write

if TYPE_CHECKING:
    from benchmarks.chains.comparison import ChainOutcome

NARROW_CONTENDERS = "tunesmith-bf16,openvino-default,tunesmith-int8,openvino-int8,onnxruntime-int8"
SECONDS, SLICE, PASSES, RACES = 60.0, 0.5, 4, 3


def run(
    operators: Annotated[
        list[str] | None,
        typer.Option(
            "--operator",
            help="A product in float32, or several that take turns, such as gemm:8x64x32+gemm:8x32x64; repeatable "
            "(default: six chains).",
        ),
    ] = None,
    seconds: Annotated[float, typer.Option(min=10.0, help="Tunesmith's wall time for each chain and type.")] = SECONDS,
    with_: Annotated[str, typer.Option("--with", help="Runtimes, separated by commas.")] = NARROW_CONTENDERS,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads per run (default: all cores).")] = None,
    races: Annotated[int, typer.Option(min=1, help="How often the libraries are timed, once they are made.")] = RACES,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random weights and the searches.")] = 0,
    out: Annotated[Path, typer.Option(help="Folder for the CSV file and the table.")] = Path("bench-out"),
    docs: Annotated[Path | None, typer.Option(help="Markdown page whose section to replace.")] = None,
) -> None:
    """Compare products in narrow types with the peak of their instruction, and with other runtimes.

    Each chain has six products with bias and rectifier: every runtime chooses layouts and hands narrow values on.
    """
    from benchmarks.chains import cases, comparison, figures
    from benchmarks.harness.contenders import chosen_names
    from benchmarks.models.comparison import ModelsPlan
    from benchmarks.operators.command import threads_of
    from benchmarks.peak.machine import measure
    from workers.tvm_backend.build.local_model import local_target

    cores = threads_of(threads, len(os.sched_getaffinity(0)))
    check(figures.NAME, docs)
    todo, names = cases.chosen(operators), chosen_names(with_)
    plan = ModelsPlan(names, local_target(f"cpu:{cores}"), seconds, SLICE, PASSES, seed, races)
    details = setup("onnxruntime", "openvino") | {
        "threads": str(cores),
        "wall time of each job": f"{seconds:g} s",
        "seed": str(seed),
        "races": str(races),
    }
    peak = measure(cores).peak
    outcomes: list[ChainOutcome] = []
    paths: list[Path] = []
    for chain in todo:
        with tempfile.TemporaryDirectory(prefix="tunesmith-chains-") as folder:
            outcomes.append(comparison.run(chain, plan, Path(folder), progress_of(chain.name)))
        peak = peak.at_best(measure(cores).peak)
        outcomes = [replace(outcome, peak=peak) for outcome in outcomes]
        # After each chain: all of them take half an hour, and may not come to their end.
        report = figures.build(outcomes, details)
        paths = write(report, out, None, docs)
    print(table(report.columns, report.rows))
    for path in paths:
        print(f"wrote {path}")
