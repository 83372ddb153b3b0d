"""``tunesmith tune``: submit, follow, write the result."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from tunesmith.cli.checks import check_model, check_names, check_target_is_here, parse_inputs
from tunesmith.cli.jobs import failure
from tunesmith.cli.options import Json, Key, Server
from tunesmith.cli.output import duration, emit, seconds, times
from tunesmith.cli.progress import follow
from tunesmith.client import DEFAULT_URL, Client, EmbeddedStack, Job
from tunesmith.errors import InvalidBudget, JobFailed
from tunesmith.operators import looks_like_operator
from tunesmith.states import JobState
from tunesmith.targets import parse_target

DEFAULT_SECONDS = 300.0
LEAST_SECONDS = 1.0


@dataclass(frozen=True)
class Request:
    """What the user asked for."""

    model: str
    target: str
    trials: int | None
    seconds: float | None
    inputs: dict[str, tuple[int, ...]]
    options: dict[str, Any]


def tune(
    model: Annotated[
        str, typer.Argument(help="An .onnx or .pt2 file, or an operator such as gemm:1024x1024x1024:float32.")
    ],
    inputs: Annotated[
        list[str] | None, typer.Option("--input", help="Shape of a dynamic input: name=1,3,224,224.")
    ] = None,
    target: Annotated[str, typer.Option(help="cpu, cpu:N, cuda, a TVM tag or target JSON.")] = "cpu",
    trials: Annotated[int | None, typer.Option(help="How many candidates to measure.")] = None,
    time_: Annotated[
        float | None, typer.Option("--time", help="Seconds for the whole run [default: 300 without --trials].")
    ] = None,
    search: Annotated[str | None, typer.Option(help="Search strategy.")] = None,
    cost_model: Annotated[str | None, typer.Option(help="Cost model.")] = None,
    allocator: Annotated[str | None, typer.Option(help="How the budget is shared between tasks.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the search.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for best.jsonl, metaschedule/ and summary.json.")] = None,
    data_dir: Annotated[Path, typer.Option(help="Data of an embedded stack.", envvar="TUNESMITH_DATA_DIR")] = Path(
        ".tunesmith"
    ),
    as_json: Json = False,
    server: Server = None,
    key: Key = None,
) -> None:
    """Tune a model or an operator, on a running server or with a stack of its own."""
    options = {"search": search, "cost_model": cost_model, "allocator": allocator, "seed": seed}
    request = _checked(model, target, trials, time_, inputs or [], options)
    with _connection(request, server, key, data_dir, as_json) as (client, own):
        job, spent = _run(client, request, own, as_json)
        summary = _summary(client, request, job, spent)
        if out is not None:
            _write(client, job, out, summary)
    emit(summary, _report(summary, out), as_json)


def _checked(
    model: str, target: str, trials: int | None, time_: float | None, inputs: list[str], options: dict[str, Any]
) -> Request:
    parse_target(target)
    check_model(model)
    if trials is not None and trials < 1:
        raise InvalidBudget(f"--trials must be at least 1, not {trials}", field="budget.trials", value=trials)
    if time_ is not None and not time_ >= LEAST_SECONDS:
        raise InvalidBudget(
            f"--time must be at least {LEAST_SECONDS:g} second, not {time_:g}", field="budget.seconds", value=time_
        )
    check_names(options)
    if trials is None and time_ is None:
        time_ = DEFAULT_SECONDS
    return Request(model, target, trials, time_, parse_inputs(inputs), options)


@contextmanager
def _connection(
    request: Request, server: str | None, key: str | None, data_dir: Path, as_json: bool
) -> Iterator[tuple[Client, bool]]:
    """A client, and whether the server behind it was started for this run."""
    with Client(server or DEFAULT_URL, key) as client:
        if server is not None or client.ready():
            yield client, False
            return
    check_target_is_here(request.target)
    if not as_json:
        print("starting an embedded stack ...", file=sys.stderr, flush=True)
    with EmbeddedStack(data_dir) as stack, Client(stack.url, key) as client:
        yield client, True


def _run(client: Client, request: Request, own: bool, as_json: bool) -> tuple[Job, float]:
    start = time.monotonic()
    model_id = None
    if not looks_like_operator(request.model):
        if not as_json:
            print(f"importing {request.model} ...", file=sys.stderr, flush=True)
        uploaded = client.upload_model(request.model, inputs=request.inputs)
        model_id = client.wait_model(uploaded.id).id
    budget = request.seconds
    if budget is not None:
        budget = max(LEAST_SECONDS, budget - (time.monotonic() - start))
    submitted = client.submit(
        target=request.target,
        model_id=model_id,
        operator=None if model_id else request.model,
        trials=request.trials,
        seconds=budget,
        **request.options,
    )
    if not as_json:
        print(f"job {submitted.id} (dashboard: {client.url})", file=sys.stderr, flush=True)
    try:
        job = follow(client, submitted.id, quiet=as_json, seconds_budget=budget)
    except KeyboardInterrupt:
        if own:
            client.cancel(submitted.id)
        else:
            print(f"the job goes on: tunesmith jobs watch {submitted.id}", file=sys.stderr)
        raise
    if job.state is JobState.CANCELLED:
        raise JobFailed(f"the job {job.id} was cancelled", job=job.id)
    if job.state is not JobState.SUCCEEDED:
        raise failure(job)
    return job, time.monotonic() - start


def _summary(client: Client, request: Request, job: Job, spent: float) -> dict[str, Any]:
    return {
        "job": job.id,
        "model": request.model,
        "target": request.target,
        "target_json": job.target_json,
        "trials": job.progress.trials,
        "seconds": round(spent, 3),
        "untuned_seconds": job.latency.untuned,
        "tuned_seconds": job.latency.current,
        "speedup": job.latency.speedup,
        "tasks": [task.model_dump(mode="json") for task in client.tasks(job.id)],
    }


def _write(client: Client, job: Job, out: Path, summary: dict[str, Any]) -> None:
    out.mkdir(parents=True, exist_ok=True)
    client.download_best(job.id, out / "best.jsonl")
    client.download_metaschedule(job.id, out / "metaschedule")
    (out / "summary.json").write_text(json.dumps(summary, indent=2) + "\n")


def _report(summary: dict[str, Any], out: Path | None) -> str:
    lines = [
        f"untuned  {seconds(summary['untuned_seconds'])}",
        f"tuned    {seconds(summary['tuned_seconds'])}",
        f"speed-up {times(summary['speedup'])}",
        f"{summary['trials']} trials in {duration(summary['seconds'])}, {len(summary['tasks'])} tasks",
        f"job      {summary['job']}",
    ]
    if out is not None:
        lines.append(f"log      {out / 'best.jsonl'} (MetaSchedule database: {out / 'metaschedule'})")
    return "\n".join(lines)
