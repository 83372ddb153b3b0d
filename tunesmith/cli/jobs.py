"""``tunesmith jobs``: list, show, watch, cancel, pause, resume, set, delete."""

from __future__ import annotations

import enum
from typing import Annotated

import typer

from tunesmith.cli import labels
from tunesmith.cli.headline import against
from tunesmith.cli.options import Cursor, JobId, Json, Key, Limit, Server, chosen, connect
from tunesmith.cli.output import INVENTED, duration, emit, seconds, speed_up, table
from tunesmith.cli.progress import follow, shown, waits_for
from tunesmith.cli.summary import outputs
from tunesmith.client import Client, Forecast, Job
from tunesmith.dataset.collecting import JobKind
from tunesmith.errors import InvalidInput, JobFailed, NotFound, from_problem
from tunesmith.names import DEFAULT_PRECISION, DEFAULT_SPACE
from tunesmith.states import JobState

app = typer.Typer(
    help="Jobs: list, show, watch, cancel, pause, resume, set, delete.", no_args_is_help=True, add_completion=False
)


class Order(str, enum.Enum):
    """Orders of a list of jobs; a minus sign for descending."""

    NEWEST = "-created_at"
    OLDEST = "created_at"
    URGENT = "-priority"
    PATIENT = "priority"


COLUMNS = ("id", "state", "trials", "latency", "speed-up", "name")


@app.command("list")
def list_(
    state: Annotated[str | None, typer.Option(help="Only jobs in this state.")] = None,
    target: Annotated[str | None, typer.Option(help="Only jobs for this target: as submitted, or its hash.")] = None,
    find: Annotated[str | None, typer.Option(help="Only jobs with this in the id, the name or the model's.")] = None,
    tag: Annotated[str | None, typer.Option(help="Only jobs with this tag.")] = None,
    owner: Annotated[str | None, typer.Option(help="Only jobs of this owner; for operators.")] = None,
    sort: Annotated[Order, typer.Option(help="Sort order; a minus sign means descending.")] = Order.NEWEST,
    limit: Limit = 50,
    cursor: Cursor = None,
    as_json: Json = False,
    server: Server = None,
    key: Key = None,
) -> None:
    """List jobs, newest first."""
    with connect(server, key) as client:
        wanted = {"state": state, "target": target, "sort": sort.value, "q": find, "tag": tag, "owner": owner}
        page = client.jobs(**wanted, limit=limit, cursor=cursor)
    rows = [
        (job.id, job.state.value, _trials(job), _latency(job), speed_up(job.latency), job.name) for job in page.items
    ]
    emit(page.model_dump(mode="json"), table(COLUMNS, rows, give="name", whole=COLUMNS), as_json)
    if not as_json and any(job.simulated for job in page.items):
        print(f"* {INVENTED}")


def _latency(job: Job) -> str:
    """With a mark where it was invented; until there is one, how many tasks were measured."""
    if job.latency.current is None:
        return f"{_tasks(job)} tasks" if job.progress.tasks_measured else "-"
    return seconds(job.latency.current) + ("*" if job.simulated else "")


@app.command()
def show(job: JobId, as_json: Json = False, server: Server = None, key: Key = None) -> None:
    """Show one job."""
    with connect(server, key) as client:
        job = chosen(client, job)
        found = client.job(job)
        _show(found, as_json, None if as_json or found.done else _forecast(client, job))


@app.command()
def watch(job: JobId, as_json: Json = False, server: Server = None, key: Key = None) -> None:
    """Follow a job until it ends: a progress bar, or with --json one event a line."""
    with connect(server, key) as client:
        job = chosen(client, job)
        if as_json:
            for event in client.follow(job):
                emit(event.model_dump(mode="json"), "", as_json)
            ended = client.job(job)
        else:
            with shown("asking", keep=True) as display:
                ended = follow(client, job, display)
                display.job(ended)
    if ended.state is JobState.FAILED:
        raise failure(ended)
    if not as_json:
        _show(ended, as_json)


@app.command()
def cancel(job: JobId, as_json: Json = False, server: Server = None, key: Key = None) -> None:
    """Cancel a job; its measurements are kept."""
    with connect(server, key) as client:
        _show(client.cancel(chosen(client, job)), as_json)


@app.command()
def pause(job: JobId, as_json: Json = False, server: Server = None, key: Key = None) -> None:
    """Pause a job."""
    with connect(server, key) as client:
        _show(client.pause(chosen(client, job)), as_json)


@app.command()
def resume(job: JobId, as_json: Json = False, server: Server = None, key: Key = None) -> None:
    """Resume a paused job."""
    with connect(server, key) as client:
        _show(client.resume(chosen(client, job)), as_json)


@app.command("set")
def set_(
    job: JobId,
    priority: Annotated[int | None, typer.Option(help="Higher runs first.")] = None,
    trials: Annotated[int | None, typer.Option(help="New budget of trials.")] = None,
    time: Annotated[float | None, typer.Option(help="New budget of seconds.")] = None,
    name: Annotated[str | None, typer.Option(help="New name.")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="Tags in place of the old ones; may be repeated.")] = None,
    no_tags: Annotated[bool, typer.Option("--no-tags", help="Take away every tag.")] = False,
    comment: Annotated[str | None, typer.Option(help="New comment.")] = None,
    as_json: Json = False,
    server: Server = None,
    key: Key = None,
) -> None:
    """Change a job's name, tags or comment; before its end priority and budget, too."""
    if tag and no_tags:
        raise InvalidInput("--tag gives the job tags and --no-tags takes them away: leave one out", field="no_tags")
    values = {"priority": priority, "trials": trials, "seconds": time, "name": name, "comment": comment}
    with connect(server, key) as client:
        job = chosen(client, job)
        _show(client.update(job, **values, tags=[] if no_tags else tag or None), as_json)  # type: ignore[arg-type]


@app.command()
def delete(job: JobId, as_json: Json = False, server: Server = None, key: Key = None) -> None:
    """Delete a finished job; its measurements are kept."""
    with connect(server, key) as client:
        job = chosen(client, job)
        client.delete_job(job)
    emit({"id": job, "deleted": True}, f"deleted {job}", as_json)


def failure(job: Job) -> Exception:
    """The exception that a failed job stands for; it keeps the problem's code."""
    if job.error and "code" in job.error:
        return from_problem({**job.error, "job": job.id})
    return JobFailed(f"the job {job.id} failed", job=job.id)


def _trials(job: Job) -> str:
    """Trials of the budget; a collecting job shows its labels, with those that earlier ones left."""
    if job.kind is JobKind.COLLECT:
        return labels.count(job)
    budget = job.progress.trials_budget
    return str(job.progress.trials) if budget is None else f"{job.progress.trials}/{budget}"


def _tasks(job: Job) -> str:
    """How many of the tunable tasks have a latency."""
    tunable = job.progress.tasks_tunable
    return f"{job.progress.tasks_measured}/{tunable}" if tunable else "-"


def _forecast(client: Client, job: str) -> Forecast | None:
    """None from a server of a version that makes none."""
    try:
        return client.forecast(job)
    except NotFound:
        return None


def _expected(forecast: Forecast | None) -> list[tuple[str, str]]:
    """A line on the latency at the end, where something is expected."""
    if forecast is None or forecast.expected is None:
        return []
    bounds = f"{seconds(forecast.low)} to {seconds(forecast.high)} ({forecast.level:.0%})" if forecast.level else ""
    return [("at the end", f"{seconds(forecast.expected)}, {bounds}")]


def _came_to(job: Job) -> list[tuple[str, str]]:
    """Lines of a job whose model was checked: against which runtime, and whether its outputs are right."""
    found = []
    if job.reference is not None:
        found.append(("reference", against(job.reference.model_dump(mode="json"))))
    if job.check is not None:
        latency = job.latency.model_dump(mode="json")
        found.append(("outputs", outputs({**latency, "check": job.check.model_dump(mode="json")})))
    return found


def _show(job: Job, as_json: bool, forecast: Forecast | None = None) -> None:
    rows = [
        ("job", job.id),
        ("name", job.name),
        ("state", job.state.value),
        *([("tags", ", ".join(job.tags))] if job.tags else []),
        *([("comment", job.comment)] if job.comment else []),
        ("labels" if job.kind is JobKind.COLLECT else "trials", _trials(job)),
        ("tasks", _tasks(job)),
        ("time", duration(job.progress.seconds)),
        ("time left", duration(job.progress.eta_seconds)),
        ("untuned", seconds(job.latency.untuned)),
        ("tuned", seconds(job.latency.current)),
        ("speed-up", speed_up(job.latency)),
        *_came_to(job),
        *_expected(forecast),
    ]
    if not job.fast_math:
        rows.append(("fast math", "off"))
    if not job.winograd:
        rows.append(("winograd", "off"))
    if job.space != DEFAULT_SPACE:
        rows.append(("space", job.space))
    if job.precision != DEFAULT_PRECISION:
        rows.append(("precision", job.precision))
    rows += [("note", note) for note in job.notes]
    if job.simulated:
        rows.append(("simulated", INVENTED))
    if job.waiting_for:
        rows.append(("waits", waits_for(job.waiting_for)))
    if job.error:
        rows.append(("error", f"[{job.error.get('code')}] {job.error.get('detail')}"))
    emit(job.model_dump(mode="json"), "\n".join(f"{name:12}{value}" for name, value in rows), as_json)
