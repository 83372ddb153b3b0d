"""``tunesmith bench starts``."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer

MODELS = ("squeezenet", "mobilenet", "encoder")
SECONDS, SEEDS = 120.0, 2


def run(
    model: Annotated[
        list[str] | None,
        typer.Option(help="An .onnx or .pt2 file, or a model of `bench models`; repeatable (default: three)."),
    ] = None,
    seconds: Annotated[float, typer.Option(min=1.0, help="Budget of each job.")] = SECONDS,
    seeds: Annotated[int, typer.Option(min=1, help="Pairs of jobs for a model.")] = SEEDS,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads per run (default: all cores).")] = None,
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("bench-out"),
    docs: Annotated[Path | None, typer.Option(help="Markdown page whose sections to replace.")] = None,
) -> None:
    """Tune models with what is shipped and without it, and compare when their schedules were near the end's."""
    from benchmarks.guides.command import on_cores
    from benchmarks.harness.report import check, write

    cores, details = on_cores(threads, 0)
    from benchmarks.models.zoo import model_file
    from benchmarks.starts import study
    from workers.tvm_backend.build.local_model import local_target

    if docs:
        check(study.NAME, docs)
    details = {**details, "seconds of a job": f"{seconds:g}"}
    target, found, paths = local_target(f"cpu:{cores}"), list[study.Pair](), list[Path]()
    for seed in range(seeds):
        for name in model or MODELS:
            with tempfile.TemporaryDirectory(prefix="tunesmith-starts-") as place:
                folder = Path(place)
                found.append(study.run(name, model_file(name, folder, 0), target, seed, seconds, folder))
            typer.echo(study.line(found[-1]), err=True)
            # After each pair: all of them take forty minutes.
            paths = write(study.report(found, details), out, docs=docs)
    for path in paths:
        typer.echo(path)
