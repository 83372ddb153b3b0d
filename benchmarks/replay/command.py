"""``tunesmith bench replay``: tuning methods compared on recorded data, and ``collect``, which records it."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, invoke_without_command=True)


@app.callback()
def run(
    context: typer.Context,
    quick: Annotated[bool, typer.Option("--quick", help="Use only two seeds.")] = False,
    seeds: Annotated[
        int, typer.Option(help="Runs of each searcher on each space; the published tables have 20.", min=2)
    ] = 8,
    searcher: Annotated[
        list[str] | None, typer.Option(help="Only this searcher, without forecasts and cost models; repeatable.")
    ] = None,
    batch: Annotated[int, typer.Option(help="Candidates per round.", min=1)] = 8,
    jobs: Annotated[int, typer.Option(help="Processes; 0 means one per core.", min=0)] = 0,
    data: Annotated[Path | None, typer.Option(help="Folder of recordings (default: those that are shipped).")] = None,
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("bench-out"),
    docs: Annotated[Path | None, typer.Option(help="Markdown page whose sections to replace.")] = None,
) -> None:
    """Compare searchers, forecasts and cost models on recorded data, without hardware."""
    if context.invoked_subcommand is not None:
        return
    from benchmarks.harness.report import write
    from benchmarks.replay.studies import ReplayPlan, study
    from benchmarks.replay.workloads import DATA

    plan = ReplayPlan(
        data or DATA,
        tuple(range(2 if quick else seeds)),
        batch,
        jobs or len(os.sched_getaffinity(0)),
        tuple(searcher or ()),
    )
    for report, draw, published in study(plan):
        for path in write(report, out, draw, docs if published else None):
            typer.echo(path)


@app.command()
def collect(
    minutes: Annotated[float, typer.Option(help="Stop after this many minutes; a later run resumes.", min=0.1)] = 20.0,
    points: Annotated[int, typer.Option(help="Approximate number of points per space.", min=8)] = 480,
    operator: Annotated[
        list[str] | None, typer.Option(help="Only this operator, of the set or your own; repeatable.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of recordings (default: the one that is shipped).")] = None,
) -> None:
    """Measure small design spaces completely. Run nothing else on this machine meanwhile."""
    from benchmarks.harness.measurer import open_measurer
    from benchmarks.replay.workloads import DATA, WORKLOADS
    from workers.tvm_backend.warm import warm

    warm("llvm")
    from benchmarks.replay.collect import Collector, Rules

    deadline = time.monotonic() + 60 * minutes
    folder = out or DATA
    folder.mkdir(parents=True, exist_ok=True)
    with open_measurer() as measurer:
        collector = Collector(measurer, folder, deadline, typer.echo, Rules(points=points))
        found = [collector.collect(spec, WORKLOADS.get(spec, 1.0)) for spec in operator or WORKLOADS]
    whole = sum(recording is not None and bool(recording.facts.get("complete")) for recording in found)
    rest = "" if whole == len(found) else ": run it again to go on"
    typer.echo(f"{whole} of {len(found)} recordings complete{rest}")


@app.command()
def tune(
    searcher: Annotated[str, typer.Argument(help="Name of the searcher.")],
    trials: Annotated[int, typer.Option(help="Settings to try.", min=2)] = 40,
    seeds: Annotated[int, typer.Option(help="Runs of each searcher on each space.", min=2)] = 8,
    batch: Annotated[int, typer.Option(help="Candidates per round.", min=1)] = 8,
    jobs: Annotated[int, typer.Option(help="Processes; 0 means one per core.", min=0)] = 0,
    data: Annotated[Path | None, typer.Option(help="Folder of recordings (default: those that are shipped).")] = None,
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("bench-out"),
    docs: Annotated[Path | None, typer.Option(help="Markdown page whose section to replace.")] = None,
) -> None:
    """Tune a searcher's own settings on one half of the recorded spaces and judge them on the other one."""
    from benchmarks.harness.report import check, setup, write
    from benchmarks.replay import tuning
    from benchmarks.replay.studies import workers
    from benchmarks.replay.workloads import DATA, load_all

    plan = tuning.TuningPlan(searcher, trials, seeds, batch)
    check(tuning.name_of(searcher), docs)
    with workers(jobs or len(os.sched_getaffinity(0))) as pool:
        tuned = tuning.tune(plan, load_all(data or DATA), pool, typer.echo)
    report = tuning.report(plan, tuned, setup("lightgbm", "optuna"))
    settings = out / f"{report.name}.json"
    tuned.save(settings)
    for path in (*write(report, out, docs=docs), settings):
        typer.echo(path)


@app.command()
def rates(
    operator: Annotated[list[str] | None, typer.Option(help="Only this operator; repeatable.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("bench-out"),
) -> None:
    """State how many candidates a second the ranker scores, by operator. Run nothing else meanwhile."""
    from benchmarks.harness.report import setup, write
    from tunesmith.targets import Target
    from workers.tvm_backend.warm import warm

    warm("llvm")
    from benchmarks.replay.rates import CLASSES, forest, rate, report

    target, model = Target({"kind": "llvm", "mcpu": "skylake-avx512", "num-cores": 2}), forest()
    found = [rate(spec, target, model) for spec in operator or CLASSES]
    for path in write(report(found, setup("lightgbm")), out):
        typer.echo(path)


@app.command()
def static(
    data: Annotated[Path | None, typer.Option(help="Folder of recordings (default: those that are shipped).")] = None,
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("bench-out"),
) -> None:
    """Judge the static model by recorded latencies. Needs TVM, but no quiet machine.

    And what it is worth to a cost model that has it among its features.
    """
    from benchmarks.harness.report import setup, write
    from benchmarks.replay.workloads import DATA, load_all
    from workers.tvm_backend.warm import warm

    warm("llvm")
    from benchmarks.replay.static import judge, learned, report, report_learned

    judged = [found for recording in load_all(data or DATA) if (found := judge(recording)) is not None]
    for made in (report(judged, setup()), report_learned(learned(judged), setup("xgboost-cpu"))):
        for path in write(made, out):
            typer.echo(path)


@app.command()
def guides(
    ranker: Annotated[Path, typer.Argument(metavar="FILE", help="A ranker that learned from other workloads.")],
    searcher: Annotated[
        list[str] | None, typer.Option(help="Searcher; repeatable (default: genetic, portfolio).")
    ] = None,
    seeds: Annotated[int, typer.Option(help="Runs of each searcher on each space.", min=2)] = 20,
    batch: Annotated[int, typer.Option(help="Candidates per round.", min=1)] = 8,
    data: Annotated[Path | None, typer.Option(help="Folder of recordings (default: those that are shipped).")] = None,
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("bench-out"),
) -> None:
    """Compare searchers that a ranker guides with those that the static model guides.

    ``python -m tools.pretrain`` makes a ranker of a data folder's records.
    """
    from benchmarks.harness.report import setup, write
    from benchmarks.replay.workloads import DATA, load_all
    from tunesmith.search.registry import SEARCHERS
    from workers.tvm_backend.warm import warm

    SEARCHERS.check(*(searcher or ()))
    warm("llvm")
    from benchmarks.replay import guides as study

    model = study.ranker_in(ranker)
    recordings = load_all(data or DATA)
    spaces = [found for each in recordings if (found := study.guided(each, model)) is not None]
    names = searcher or ["genetic", "portfolio"]
    runs = [study.run(space, name, range(seeds), batch) for name in names for space in spaces]
    for path in write(study.report(runs, setup("lightgbm")), out):
        typer.echo(path)
