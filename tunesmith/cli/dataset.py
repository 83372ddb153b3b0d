"""``tunesmith dataset``: fill the performance dataset with labelled programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tunesmith.cli.checks import check_content, check_limits, check_model, check_target_is_here
from tunesmith.cli.collecting import CollectPlan, report, run, summarise
from tunesmith.cli.options import Json, Key, Server
from tunesmith.cli.output import INDENT, emit, lay_out
from tunesmith.cli.progress import shown
from tunesmith.cli.tune import connection, reachable
from tunesmith.dataset.collecting import MAX_PER_TASK, Collecting, parse_shard
from tunesmith.dataset.workloads import read_workloads
from tunesmith.errors import InvalidInput
from tunesmith.names import DEFAULT_SAMPLER, FLOAT32, SAMPLERS
from tunesmith.options import JobOptions
from tunesmith.targets import parse_target

app = typer.Typer(help="The performance dataset: collect.", no_args_is_help=True, add_completion=False)
COUNT = 20


@app.callback()
def _group() -> None:
    """The performance dataset: collect."""


@app.command()
def collect(
    workloads: Annotated[Path | None, typer.Option(help="A file with one operator spec a line.")] = None,
    models: Annotated[
        list[str] | None,
        typer.Option(help="An .onnx or .pt2 file or TVM JSON, whose tasks are labelled; may be repeated."),
    ] = None,
    families: Annotated[
        str | None, typer.Option(help="Families of operators to draw shapes of, such as conv2d,gemm; 'all' for each.")
    ] = None,
    count: Annotated[int, typer.Option(min=1, max=1000, help="How many operators to draw from the families.")] = COUNT,
    precision: Annotated[
        list[str] | None,
        typer.Option(help="Precision of drawn operators; may be repeated (default: those the device is made for)."),
    ] = None,
    per_task: Annotated[
        int, typer.Option(min=1, max=MAX_PER_TASK, help="Labels that each task is to have, earlier runs included.")
    ] = 64,
    sampler: Annotated[
        str, typer.Option(help=f"What to label: {', '.join(SAMPLERS)}, or any other search.")
    ] = DEFAULT_SAMPLER,
    time_: Annotated[float | None, typer.Option("--time", help="Seconds after which to stop (default: none).")] = None,
    seed: Annotated[int, typer.Option(help="Seed of shapes and samples.")] = 0,
    shard: Annotated[
        str, typer.Option(help="Part of each space, such as 2/4: parts on several machines share no program.")
    ] = "1/1",
    target: Annotated[str, typer.Option(help="cpu, cpu:N, cuda, a TVM tag or target JSON.")] = "cpu",
    data_dir: Annotated[
        Path, typer.Option(help="Data folder of the embedded stack.", envvar="TUNESMITH_DATA_DIR")
    ] = Path(".tunesmith"),
    embedded: Annotated[bool, typer.Option("--embedded", help="Start a stack even if a server is running.")] = False,
    as_json: Json = False,
    server: Server = None,
    key: Key = None,
) -> None:
    """Label programs of many tasks; interrupted, the same command continues."""
    parse_target(target)
    check_limits(None, time_, seed)
    JobOptions.model_construct(search=sampler).check_values()
    collecting = Collecting(per_task, *parse_shard(shard))
    collecting.check()
    _check_sources(workloads, models, families)
    for model in models or []:
        check_model(model)
        check_content(model)
    plan = CollectPlan(
        operators=tuple(read_workloads(workloads)) if workloads is not None else (),
        models=tuple(models or ()),
        families=_listed(families),
        count=count,
        precisions=tuple(precision or ()),
        collecting=collecting,
        sampler=sampler,
        seconds=time_,
        seed=seed,
        target=target,
    )
    plan.drawn(precision or [FLOAT32])  # what cannot be drawn is refused before anything is started
    with shown("starting", as_json, keep=True) as display:
        chosen = None if embedded else server or reachable(key)
        if chosen is None:
            check_target_is_here(target)
        with connection(target, chosen, key, data_dir, display) as (client, own):
            summary = summarise(client, run(client, plan, own, display))
    emit(summary, lay_out(report(summary), INDENT), as_json)


def _check_sources(workloads: Path | None, models: list[str] | None, families: str | None) -> None:
    given = [name for name, value in (("workloads", workloads), ("models", models), ("families", families)) if value]
    if not given:
        raise InvalidInput(
            "nothing to collect: give --workloads FILE, --models FILE or --families conv2d,gemm",
            field="workloads",
            value=None,
        )


def _listed(families: str | None) -> tuple[str, ...]:
    from tunesmith.dataset.families import FAMILIES  # NumPy, which other commands do without

    names = tuple(name.strip() for name in (families or "").split(",") if name.strip())
    return tuple(FAMILIES) if names == ("all",) else names
