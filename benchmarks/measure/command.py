"""``tunesmith bench measure``: what measurements are worth, and what the rules save."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

OPERATORS = (
    "gemm:1024x1024x1024",
    "conv2d:1x64x56x56,64x64x3x3,s1,p1",
    "depthwise:1x128x28x28,k3,s1,p1",
    "softmax:12x128x128",
)
QUICK = ("gemm:256x256x256", "softmax:12x128x128")


def run(
    quick: Annotated[bool, typer.Option("--quick", help="Two small operators, about two minutes.")] = False,
    operator: Annotated[list[str] | None, typer.Option(help="An operator spec, such as gemm:512x512x512.")] = None,
    schedules: Annotated[int | None, typer.Option(min=2, help="Schedules per operator to measure again.")] = None,
    passes: Annotated[int, typer.Option(min=2, help="Passes over the schedules, each in random order.")] = 3,
    rounds: Annotated[int | None, typer.Option(min=1, help="Rounds of 16 candidates to record, per operator.")] = None,
    samples: Annotated[int, typer.Option(min=10, help="Samples of each recorded candidate.")] = 30,
    recording: Annotated[
        Path | None, typer.Option(help="Judge this record of an earlier run instead of measuring.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the search, the order and the draws.")] = 0,
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("bench-out"),
    docs: Annotated[Path | None, typer.Option(help="Markdown page whose sections to replace.")] = None,
) -> None:
    """Measure schedules again in random order, and try racing and adaptive stop on recorded measurements."""
    from benchmarks.harness.measurer import open_measurer
    from benchmarks.harness.report import setup, write
    from benchmarks.measure import reporting
    from benchmarks.measure.collecting import MeasurePlan, collect
    from benchmarks.measure.recording import Recording
    from tunesmith.messages import MeasureLimits

    limits = MeasureLimits()
    if recording is not None:
        found = Recording.load(recording)
    else:
        plan = MeasurePlan(
            tuple(operator or (QUICK if quick else OPERATORS)),
            rounds=rounds or (2 if quick else 4),
            samples=samples,
            schedules=schedules or (10 if quick else 20),
            passes=passes,
            seed=seed,
        )
        with open_measurer() as measurer:
            found = collect(measurer, plan, limits, setup("scipy"), typer.echo)
        found.save(out / "measure.json")
    for report, draw in reporting.reports(found, limits, draws=20 if quick else 100, seed=seed):
        for path in write(report, out, draw, docs):
            typer.echo(path)
        typer.echo(report.summary)
