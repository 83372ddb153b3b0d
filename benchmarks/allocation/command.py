"""``tunesmith bench allocation``: allocators on learning curves of models; ``collect`` records them, ``live`` tunes."""

from __future__ import annotations

import functools
import os
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from benchmarks.allocation.curves import ModelCurves

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, invoke_without_command=True)
MODELS = ("resnet50", "shufflenet", "mobilenet", "encoder", "squeezenet", "vgg19")
LIVE_MODELS = ("light_resnet50", "encoder")
LIVE = ("bandit", "round-robin")


@app.callback()
def run(
    context: typer.Context,
    seeds: Annotated[int, typer.Option(help="Replays per model and allocator.", min=2)] = 20,
    allocator: Annotated[list[str] | None, typer.Option(help="Only this one; repeatable.")] = None,
    data: Annotated[Path | None, typer.Option(help="Folder of recordings (default: those that are shipped).")] = None,
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("bench-out"),
    docs: Annotated[Path | None, typer.Option(help="Markdown page whose section to replace.")] = None,
) -> None:
    """Compare allocators on recorded learning curves of whole models, without hardware."""
    if context.invoked_subcommand is not None:
        return
    from benchmarks.allocation import figures
    from benchmarks.allocation.curves import DATA, load_all
    from benchmarks.allocation.hindsight import NAME as HINDSIGHT
    from benchmarks.allocation.hindsight import hindsight
    from benchmarks.allocation.replay import mixed, replay
    from benchmarks.harness.report import check, setup, write
    from tunesmith.allocate.registry import ALLOCATORS

    names = ALLOCATORS.check(figures.BASELINE, *(allocator or ALLOCATORS))
    check(figures.NAME, docs)
    runs = load_all(data or DATA)
    courses = {
        (model, name): [replay(mixed(found, seed), name, seed) for seed in range(seeds)]
        for model, found in runs.items()
        for name in names
    }
    courses |= {
        (model, f"{name}, {figures.EQUAL}"): [
            replay(mixed(found, seed), name, seed, equal=True) for seed in range(seeds)
        ]
        for model, found in runs.items()
        for name in names
        if ALLOCATORS[name](seed=0).small_first_rounds
    }
    courses |= {
        (model, HINDSIGHT): [hindsight(mixed(found, seed)) for seed in range(seeds)] for model, found in runs.items()
    }
    recorded = next(iter(runs.values()))[0].facts
    machine = f"{recorded.get('CPU', '?')}, {recorded.get('cores', '?')} cores"
    facts = {
        **setup(),
        "seeds": str(seeds),
        "recorded on": machine,
        "recorded runs of each model, at least": str(min(map(len, runs.values()))),
        "recorded candidates of a task, mean": f"{_candidates(runs):.0f}",
    }
    for path in write(figures.report(courses, facts), out, functools.partial(figures.draw, courses), docs):
        typer.echo(path)


def _candidates(runs: Mapping[str, Sequence[ModelCurves]]) -> float:
    """Of all recorded tasks, the mean."""
    return statistics.fmean(len(task.bests) for found in runs.values() for run in found for task in run.tasks)


@app.command()
def collect(
    model: Annotated[list[str] | None, typer.Option(help="As in 'bench models'; repeatable (default: six).")] = None,
    rounds: Annotated[int, typer.Option(help="Candidates per task.", min=2)] = 10,
    seeds: Annotated[int, typer.Option(help="Runs per model.", min=1)] = 2,
    minutes: Annotated[float, typer.Option(help="Time limit of each run.", min=0.5)] = 30.0,
    out: Annotated[Path | None, typer.Option(help="Folder of recordings (default: the one that is shipped).")] = None,
) -> None:
    """Record learning curves; existing runs are kept. Run nothing else on this machine meanwhile."""
    from benchmarks.allocation.collect import collect as record
    from benchmarks.allocation.curves import DATA, file_of
    from benchmarks.models.zoo import write_model
    from workers.tvm_backend.build.local_model import local_target

    folder, target = out or DATA, local_target(f"cpu:{len(os.sched_getaffinity(0))}")
    for seed in range(seeds):
        for name in model or MODELS:
            if file_of(name, seed, folder).exists():
                continue
            with tempfile.TemporaryDirectory(prefix="tunesmith-allocation-") as scratch:
                file = write_model(name, Path(scratch) / f"{name}.onnx")
                curves = record(name, file, target, rounds, 60 * minutes, seed, Path(scratch))
            typer.echo(curves.save(folder))


@app.command()
def live(
    model: Annotated[
        list[str] | None, typer.Option(help="As in 'bench models'; repeatable (default: light_resnet50, encoder).")
    ] = None,
    allocator: Annotated[
        list[str] | None,
        typer.Option(help="Allocators to compare with gradient; repeatable (default: bandit, round-robin)."),
    ] = None,
    seconds: Annotated[float, typer.Option(min=10.0, help="Wall time per job.")] = 120.0,
    seeds: Annotated[int, typer.Option(help="Jobs for each model and allocator.", min=1)] = 3,
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("bench-out"),
    docs: Annotated[Path | None, typer.Option(help="Markdown page whose section to replace.")] = None,
) -> None:
    """Tune models with several allocators for the same time and compare the results. Run nothing else."""
    from benchmarks.allocation import live as comparison
    from benchmarks.allocation.figures import BASELINE
    from benchmarks.harness.progress import progress_of
    from benchmarks.harness.report import check, setup, write
    from tunesmith.allocate.registry import ALLOCATORS
    from workers.tvm_backend.build.local_model import local_target

    names = ALLOCATORS.check(BASELINE, *(allocator or LIVE))
    check(comparison.NAME, docs)
    plan = comparison.LivePlan(names, local_target(f"cpu:{len(os.sched_getaffinity(0))}"), seconds)
    runs: list[comparison.Run] = []
    paths: list[Path] = []
    for seed in range(seeds):
        for each in model or LIVE_MODELS:
            with tempfile.TemporaryDirectory(prefix="tunesmith-allocation-") as folder:
                runs += comparison.run(each, seed, plan, Path(folder), progress_of(f"{each}, seed {seed}"))
            # After each: all of them take an hour, and may not come to their end.
            facts = {**setup(), "seeds": str(seed + 1), "wall time of each job": f"{seconds:g} s"}
            paths = write(comparison.report(runs, facts), out, None, docs)
    for path in paths:
        typer.echo(path)
