"""``tunesmith jobs``: list, show, watch, cancel, pause, resume, set."""

from __future__ import annotations

from typing import Annotated

import typer

from tunesmith.cli.options import JobId, Json, Key, Server, connect
from tunesmith.cli.output import INVENTED, duration, emit, seconds, table, times
from tunesmith.cli.progress import follow, shown, waits_for
from tunesmith.client import Client, Forecast, Job
from tunesmith.errors import JobFailed, NotFound, from_problem
from tunesmith.names import DEFAULT_SPACE
from tunesmith.states import JobState

app = typer.Typer(help="Jobs: list, show, watch, cancel, pause, resume, set.", no_args_is_help=True)


@app.command("list")
def list_(
    state: Annotated[str | None, typer.Option(help="Only jobs in this state.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=200)] = 50,
    as_json: Json = False,
    server: Server = None,
    key: Key = None,
) -> None:
    """List jobs, newest first."""
    with connect(server, key) as client:
        page = client.jobs(state=state, limit=limit)
    rows = [
        (
            job.id,
            job.state.value,
            job.name,
            _trials(job),
            _tasks(job),
            seconds(job.latency.current),
            times(job.latency.speedup),
        )
        for job in page.items
    ]
    head = ("id", "state", "name", "trials", "tasks", "latency", "speed-up")
    emit(page.model_dump(mode="json"), table(head, rows), as_json)


@app.command()
def show(job: JobId, as_json: Json = False, server: Server = None, key: Key = None) -> None:
    """Show one job."""
    with connect(server, key) as client:
        found = client.job(job)
        _show(found, as_json, None if as_json or found.done else _forecast(client, job))


@app.command()
def watch(job: JobId, as_json: Json = False, server: Server = None, key: Key = None) -> None:
    """Follow a job until it ends: a progress bar, or with --json one event a line."""
    with connect(server, key) as client:
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
    """Cancel a job; what it measured stays."""
    with connect(server, key) as client:
        _show(client.cancel(job), as_json)


@app.command()
def pause(job: JobId, as_json: Json = False, server: Server = None, key: Key = None) -> None:
    """Pause a job."""
    with connect(server, key) as client:
        _show(client.pause(job), as_json)


@app.command()
def resume(job: JobId, as_json: Json = False, server: Server = None, key: Key = None) -> None:
    """Go on with a paused job."""
    with connect(server, key) as client:
        _show(client.resume(job), as_json)


@app.command("set")
def set_(
    job: JobId,
    priority: Annotated[int | None, typer.Option(help="Higher goes first.")] = None,
    trials: Annotated[int | None, typer.Option(help="New budget of trials.")] = None,
    time: Annotated[float | None, typer.Option(help="New budget of seconds.")] = None,
    as_json: Json = False,
    server: Server = None,
    key: Key = None,
) -> None:
    """Change a job's priority or budget."""
    with connect(server, key) as client:
        _show(client.update(job, priority=priority, trials=trials, seconds=time), as_json)


def failure(job: Job) -> Exception:
    """The exception that a failed job stands for; it keeps the problem's code."""
    if job.error and "code" in job.error:
        return from_problem({**job.error, "job": job.id})
    return JobFailed(f"the job {job.id} failed", job=job.id)


def _trials(job: Job) -> str:
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


def _show(job: Job, as_json: bool, forecast: Forecast | None = None) -> None:
    rows = [
        ("job", job.id), ("name", job.name), ("state", job.state.value), ("trials", _trials(job)),
        ("tasks", _tasks(job)), ("time", duration(job.progress.seconds)),
        ("time left", duration(job.progress.eta_seconds)),
        ("untuned", seconds(job.latency.untuned)), ("tuned", seconds(job.latency.current)),
        ("speed-up", times(job.latency.speedup)), *_expected(forecast),
    ]  # fmt: skip
    if not job.fast_math:
        rows.append(("fast math", "off"))
    if not job.winograd:
        rows.append(("winograd", "off"))
    if job.space != DEFAULT_SPACE:
        rows.append(("space", job.space))
    if job.simulated:
        rows.append(("simulated", INVENTED))
    if job.waiting_for:
        rows.append(("waits", waits_for(job.waiting_for)))
    if job.error:
        rows.append(("error", f"[{job.error.get('code')}] {job.error.get('detail')}"))
    emit(job.model_dump(mode="json"), "\n".join(f"{name:12}{value}" for name, value in rows), as_json)
