"""``tunesmith trials``: what a job measured, one by one, and what its tasks' trials tell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.table import Table

from tunesmith.cli.options import Cursor, JobId, Json, Key, Limit, RecordOrder, Server, chosen, connect
from tunesmith.cli.output import emit, seconds, table
from tunesmith.client import Analysis, Proposal, TrialDetail

app = typer.Typer(
    help="Trials of a job, and what was proposed for its tasks.", no_args_is_help=True, add_completion=False
)
TrialId = Annotated[int, typer.Argument(metavar="TRIAL", help="A trial's id.", min=0)]


@app.command("list")
def list_(
    job: JobId,
    task: Annotated[int | None, typer.Option(help="Only those of the task with this id.", min=0)] = None,
    failure: Annotated[str | None, typer.Option(help="Only failures of this kind; 'none' for what ran.")] = None,
    sort: Annotated[RecordOrder, typer.Option(help="Order; latency leaves out failures.")] = RecordOrder.FASTEST,
    limit: Limit = 50,
    cursor: Cursor = None,
    as_json: Json = False,
    server: Server = None,
    key: Key = None,
) -> None:
    """List what a job measured, the fastest first."""
    with connect(server, key) as client:
        wanted = {"task": task, "failure": failure, "sort": sort.value, "limit": limit, "cursor": cursor}
        page = client.trials_page(chosen(client, job), **wanted)  # type: ignore[arg-type]
    rows = [
        (str(row.id), str(row.task or "-"), row.failure or seconds(row.latency), (row.sketch or "default")[:12])
        for row in page.items
    ]
    head = ("id", "task", "latency", "sketch")
    emit(page.model_dump(mode="json"), table(head, rows, whole=head), as_json)


@app.command()
def show(job: JobId, trial: TrialId, as_json: Json = False, server: Server = None, key: Key = None) -> None:
    """Show one trial: latency, knobs by name, and its place in its batch."""
    with connect(server, key) as client:
        found = client.trial(chosen(client, job), trial)
    emit(found.model_dump(mode="json"), _lines(found), as_json)


@app.command()
def knobs(
    job: JobId,
    task: Annotated[int, typer.Argument(metavar="TASK", help="A task's id.", min=0)],
    sketch: Annotated[str | None, typer.Option(help="Hash of a sketch (default: the one with most trials).")] = None,
    as_json: Json = False,
    server: Server = None,
    key: Key = None,
) -> None:
    """Show which knobs of a task matter, and how well the cost model ranked its rounds."""
    with connect(server, key) as client:
        found = client.analysis(chosen(client, job), task, sketch)
    rows = [(f"{knob.importance:.0%}", knob.name, knob.about) for knob in found.knobs]
    emit(found.model_dump(mode="json"), table(("explains", "knob", "decides"), rows, give="decides"), as_json)
    if not as_json:
        print(f"{found.trials} trials of {found.name}{ranked(found)}")


def ranked(found: Analysis) -> str:
    """How much of the rounds' pairs the cost model had in the right order; empty without one."""
    pairs = [(each.programs, each.pairwise) for each in found.rounds if each.pairwise is not None]
    right = sum(programs * pairwise for programs, pairwise in pairs) / max(1, sum(programs for programs, _ in pairs))
    return f"; the cost model ordered {right:.0%} of the pairs of its rounds right" if pairs else ""


@app.command()
def proposals(
    job: JobId,
    task: Annotated[int, typer.Argument(metavar="TASK", help="A task's id.", min=0)],
    limit: Limit = 50,
    cursor: Cursor = None,
    as_json: Json = False,
    server: Server = None,
    key: Key = None,
) -> None:
    """List what was proposed for a task (see tunesmith propose), and what became of it."""
    with connect(server, key) as client:
        page = client.proposals_page(chosen(client, job), task, limit=limit, cursor=cursor)
    emit(page.model_dump(mode="json"), listed(page.items), as_json)


def listed(found: Sequence[Proposal]) -> Table:
    """Proposals as a table."""
    rows = [
        (
            str(each.id),
            each.author or each.source.value,
            each.state.value,
            each.failure or seconds(each.latency),
            seconds(each.estimate),
            each.reason or "",
        )
        for each in found
    ]
    head = ("id", "by", "state", "latency", "estimate", "reason")
    return table(head, rows, whole=head[:5], give="reason")


@app.command()
def program(
    job: JobId,
    trial: TrialId,
    diff: Annotated[bool, typer.Option("--diff", help="As a difference to the program without a schedule.")] = False,
    as_json: Json = False,
    server: Server = None,
    key: Key = None,
) -> None:
    """Print a trial's program in TVMScript."""
    with connect(server, key) as client:
        found = client.program(chosen(client, job), trial)
    emit(found.model_dump(mode="json"), found.difference() if diff else found.scheduled or "", as_json)


def score(found: TrialDetail) -> str:
    """What the cost model expected, and how unsure it was."""
    if found.predicted_score is None:
        return "-"
    return f"{found.predicted_score:.3g}" + (f" ± {found.uncertainty:.2g}" if found.uncertainty is not None else "")


def _lines(found: TrialDetail) -> str:
    low, high = found.interval or (None, None)
    sure = f", {seconds(low)} to {seconds(high)}" if low is not None else ""
    rows = [
        ("trial", str(found.id)),
        ("task", f"{found.task_name} ({found.task})"),
        ("latency", found.failure or f"{seconds(found.latency)}{sure}"),
        ("best", seconds(found.best_latency)),
        ("untuned", seconds(found.untuned_latency)),
        ("speed", f"{found.gflops:.3g} GFLOP/s" if found.gflops else "-"),
        ("score", score(found)),
        ("place", f"{found.measured_place or '-'} of {found.batch_size}, {found.predicted_place or '-'} predicted"),
        ("sketch", found.sketch or "default schedule"),
        *((knob.name, str(knob.value)) for knob in found.knobs),
    ]
    if found.message:
        rows.append(("message", found.message))
    width = max(len(name) for name, _ in rows) + 2
    return "\n".join(f"{name:{width}}{value}" for name, value in rows)
