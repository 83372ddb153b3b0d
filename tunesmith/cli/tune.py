"""``tunesmith tune``: submit, follow, write the result."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

import typer

from tunesmith.cli.checks import (
    LEAST_SECONDS,
    check_class_is_here,
    check_content,
    check_extras,
    check_limits,
    check_model,
    check_out,
    check_target_is_here,
    parse_inputs,
)
from tunesmith.cli.job_options import with_job_options
from tunesmith.cli.jobs import failure
from tunesmith.cli.options import Inputs, Json, Key, Server
from tunesmith.cli.output import INDENT, emit, lay_out
from tunesmith.cli.progress import Display, follow, shown
from tunesmith.cli.resumed import resumed
from tunesmith.cli.summary import report, summarise, write
from tunesmith.client import DEFAULT_URL, Client, EmbeddedStack, Job
from tunesmith.errors import InvalidInput, JobFailed, TunesmithError
from tunesmith.event_kinds import EventKind
from tunesmith.job_tags import checked_tags
from tunesmith.names import AUTO, INT8
from tunesmith.operators import looks_like_operator
from tunesmith.options import JobOptions
from tunesmith.states import JobState
from tunesmith.targets import parse_target

DEFAULT_SECONDS = 300.0
QUANTISED = "quantized.onnx"


@dataclass(frozen=True)
class Request:
    """What the user asked for."""

    model: str
    target: str
    trials: int | None
    seconds: float | None
    until_converged: bool
    name: str | None
    options: JobOptions
    inputs: dict[str, tuple[int, ...]] = field(default_factory=dict)
    wide: str | None = None
    """The float32 model that is tuned instead, where precision auto does not choose int8 for ``model``."""
    tags: tuple[str, ...] = ()
    comment: str | None = None


@with_job_options
def tune(
    model: Annotated[
        str, typer.Argument(help="An .onnx or .pt2 file, TVM JSON, or an operator such as gemm:1024x1024x1024:float32.")
    ],
    inputs: Inputs = None,
    target: Annotated[str, typer.Option(help="cpu, cpu:N, cuda, a TVM tag or target JSON.")] = "cpu",
    trials: Annotated[
        int | None,
        typer.Option(help="How many candidates to measure; 0 answers at once (default: as many as --time allows)."),
    ] = None,
    time_: Annotated[
        float | None,
        typer.Option(
            "--time",
            help="Seconds for the whole run, without the start of an embedded stack "
            f"(default: {DEFAULT_SECONDS:g}, or no limit with --trials).",
        ),
    ] = None,
    options: JobOptions = JobOptions(),
    until_converged: Annotated[
        bool,
        typer.Option(
            "--until-converged",
            help=f"Stop early when no further gain is expected; --time still defaults to {DEFAULT_SECONDS:g}.",
        ),
    ] = False,
    name: Annotated[str | None, typer.Option(help="Name of the job (default: the model's).")] = None,
    tags: Annotated[
        list[str] | None, typer.Option("--tag", help="A word by which the job is found; may be repeated.")
    ] = None,
    comment: Annotated[str | None, typer.Option(help="A comment on the job.")] = None,
    calibration: Annotated[
        Path | None,
        typer.Option(
            help="Make an int8 model of a float32 .onnx file first, from the samples in this .npz file; it is written "
            f"to --out as {QUANTISED}."
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for best.jsonl, metaschedule/ and summary.json.")] = None,
    data_dir: Annotated[
        Path, typer.Option(help="Data folder of the embedded stack.", envvar="TUNESMITH_DATA_DIR")
    ] = Path(".tunesmith"),
    embedded: Annotated[bool, typer.Option("--embedded", help="Start a stack even if a server is running.")] = False,
    as_json: Json = False,
    server: Server = None,
    key: Key = None,
) -> None:
    """Tune a model or an operator, on a running server or an embedded stack."""
    shapes = parse_inputs(inputs or [])
    request = checked(
        Request(
            model,
            target,
            trials,
            time_,
            until_converged,
            name,
            options,
            shapes,
            tags=tuple(tags or ()),
            comment=comment,
        )
    )
    if out is not None:
        check_out(out)
    with shown("starting", as_json, keep=True) as display:
        if calibration is not None:
            request = _quantised(request, calibration, out, display)
        chosen = None if embedded else server or reachable(key)
        if chosen is None:
            check_target_is_here(request.target)
            check_extras(request.model, request.options)
        with connection(request.target, chosen, key, data_dir, display) as (client, own):
            job, spent = run(client, request, own, display)
            display.phase("saving")
            model = request.wide if request.wide and job.precision != INT8 else request.model
            summary = summarise(client, job, model, target, spent)
            if out is not None:
                write(client, job, out, summary)
        display.job(job)
    emit(summary, lay_out(report(summary, out, data_dir if own else None, client.url), INDENT), as_json)


def checked(request: Request) -> Request:
    """Refuse what can be refused without a server, cheapest first; the request with a limit where it has none."""
    parse_target(request.target)
    check_limits(request.trials, request.seconds, request.options.seed)
    request.options.check_values()
    checked_tags(request.tags)
    check_model(request.model)
    if not looks_like_operator(request.model):
        check_content(request.model)
    elif request.inputs:
        raise InvalidInput(
            f"shapes of inputs are for models with dynamic ones; the operator {request.model} already has its shapes",
            field="input",
            value=", ".join(request.inputs),
        )
    limited = request.trials is not None or request.seconds is not None
    return request if limited else replace(request, seconds=DEFAULT_SECONDS)


def _quantised(request: Request, calibration: Path, out: Path | None, display: Display) -> Request:
    """The same for the int8 model that is made here; no server quantises.

    With precision auto it stays that for the float32 model where the int8 one is beyond the tolerance.

    Raises:
        InvalidInput: it is not wanted, or there is no place for it; and what the quantiser refuses.
    """
    from tunesmith.cli.quantize import lines, quantised

    if request.options.precision not in (INT8, AUTO):
        raise InvalidInput(
            "--calibration is for int8 models: add --precision int8 or auto",
            field="calibration",
            value=str(calibration),
        )
    if out is None:
        raise InvalidInput(
            f"--calibration needs --out: the int8 model is kept there as {QUANTISED}", field="out", value=None
        )
    display.phase("quantising", Path(request.model).name)
    there = out.exists()
    out.mkdir(parents=True, exist_ok=True)
    try:
        made = quantised(request.model, calibration, out / QUANTISED)
    except TunesmithError:
        if not there:
            out.rmdir()
        raise
    for name, value in lines(made):
        display.say(f"{name:10} {value}")
    if request.options.precision == INT8:
        return replace(request, model=str(out / QUANTISED))
    if made.rms > request.options.tolerance:
        display.say(f"int8       not used: {request.options.tolerance:.2%} rms is allowed")
        return request
    return replace(request, model=str(out / QUANTISED), wide=request.model)


@contextmanager
def connection(
    target: str, server: str | None, key: str | None, data_dir: Path, display: Display
) -> Iterator[tuple[Client, bool]]:
    """A client, and whether the server behind it was started for this run."""
    if server is not None:
        with Client(server, key) as client:
            yield client, False
        return
    display.phase("starting", "an embedded stack")

    def step(name: str) -> None:
        display.phase("starting", name)

    with EmbeddedStack(data_dir, on_step=step) as stack, Client(stack.url, key) as client:
        for job in stack.resumed:
            display.say(f"resumed {resumed(job)}; it continues alongside this run")
        try:
            alive = [device for device in client.devices() if device.alive]
            check_class_is_here(target, {name for device in alive for name in device.device_classes})
            yield client, True
        finally:
            display.phase("stopping", "the embedded stack")


def _not_int8(client: Client, job: str) -> str:
    """Why precision auto chose another one than int8; empty where it did not, or the job ended before."""
    chosen = next((each.data for each in client.follow(job) if each.kind == EventKind.PRECISION_CHOSEN), None)
    return str(chosen["reason"]) if chosen is not None and chosen["precision"] != INT8 else ""


def reachable(key: str | None) -> str | None:
    """The default address when a server answers there."""
    with Client(DEFAULT_URL, key) as client:
        return DEFAULT_URL if client.ready() else None


def run(client: Client, request: Request, own: bool, display: Display) -> tuple[Job, float]:
    """Upload, submit and follow; the finished job, and the seconds that it took.

    Args:
        own: the server was started for this run, so the job ends with it.

    Raises:
        JobFailed: it failed, or was cancelled; and what the server refuses.
    """
    start = time.monotonic()
    model_id = None
    if not looks_like_operator(request.model):
        display.phase("importing", Path(request.model).name)
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
        stop_when_converged=request.until_converged,
        name=request.name,
        tags=list(request.tags) or None,
        comment=request.comment,
        **request.options.model_dump(exclude_unset=True),
    )
    display.say(f"job {submitted.id} (dashboard: {client.url})")
    try:
        if request.wide is not None and (why := _not_int8(client, submitted.id)):
            client.cancel(submitted.id)
            display.say(f"the float32 model is tuned instead: {why}")
            return run(client, replace(request, model=request.wide, wide=None, seconds=budget), own, display)
        job = follow(client, submitted.id, display)
    except KeyboardInterrupt:
        if own:
            client.cancel(submitted.id)
        else:
            display.say(f"the job continues: tunesmith jobs watch {submitted.id}")
        raise
    if job.state is JobState.CANCELLED:
        raise JobFailed(f"the job {job.id} was cancelled", job=job.id)
    if job.state is not JobState.SUCCEEDED:
        raise failure(job)
    return job, time.monotonic() - start
