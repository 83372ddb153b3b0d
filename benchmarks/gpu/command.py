"""``tunesmith bench gpu``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

OPERATORS = ("gemm:1024x1024x1024:float32", "gemm:1024x1024x1024:float16")


def run(
    operators: Annotated[
        list[str] | None,
        typer.Option("--operator", help=f"What to tune; repeatable (default: {', '.join(OPERATORS)})."),
    ] = None,
    trials: Annotated[int, typer.Option(min=1, help="Candidates per operator.")] = 128,
    seconds: Annotated[float, typer.Option(min=1, help="Time limit per operator.")] = 150.0,
    target: Annotated[str | None, typer.Option(help="A TVM tag or target JSON (default: this GPU's).")] = None,
    simulate: Annotated[bool, typer.Option(help="Invent latencies, to rehearse --target without a GPU.")] = False,
    out: Annotated[Path, typer.Option(help="Folder for the results and the stack's logs.")] = Path("bench-out"),
    docs: Annotated[Path | None, typer.Option(help="Markdown page whose section to replace.")] = None,
) -> None:
    """Tune gemms on this machine's GPU with an embedded stack. Exits with 1 unless all are correct.

    Nothing is asked of the machine but a GPU, its driver and the extra `cuda`. The first product is of float32, the
    second of float16, for tensor cores.
    """
    from benchmarks.gpu.figures import NAME, gpu, wrong
    from benchmarks.gpu.jobs import GpuPlan, tune
    from benchmarks.gpu.machine import find
    from benchmarks.harness.report import check, setup, write
    from tunesmith.errors import InvalidInput

    if simulate and docs:
        raise InvalidInput("invented figures belong on no page", field="docs", value=str(docs))
    if docs:
        check(NAME, docs)
    machine = find(target, simulate)
    typer.echo(f"{machine.name}: {machine.target.name}", err=True)
    plan = GpuPlan(tuple(operators or OPERATORS), trials, seconds)
    found = tune(machine, plan, out, lambda text: typer.echo(text, err=True))
    facts = {**setup(), **machine.facts, "trials": str(trials), "seconds": f"{seconds:g}"}
    for path in write(gpu(found, facts, simulate), out, docs=docs):
        typer.echo(path)
    problems = [f"{tuned.operator}: {problem}" for tuned in found if (problem := wrong(tuned, simulate))]
    for problem in problems:
        typer.echo(problem, err=True)
    if problems:
        raise typer.Exit(1)
