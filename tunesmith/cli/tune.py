"""``tunesmith tune``: submit, follow, write the result."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from tunesmith.allocate.registry import ALLOCATORS
from tunesmith.cli.checks import (
    LEAST_SECONDS,
    check_class_is_here,
    check_content,
    check_extras,
    check_limits,
    check_model,
    check_names,
    check_out,
    check_target_is_here,
    parse_inputs,
)
from tunesmith.cli.jobs import failure
from tunesmith.cli.options import Json, Key, Server
from tunesmith.cli.output import INDENT, emit, lay_out
from tunesmith.cli.progress import Display, follow, shown
from tunesmith.cli.resumed import resumed
from tunesmith.cli.summary import report, summarise, write
from tunesmith.client import DEFAULT_URL, Client, EmbeddedStack, Job
from tunesmith.errors import InvalidInput, JobFailed
from tunesmith.extras import CHOICES
from tunesmith.names import (
    ALL_SPACE,
    COST_MODELS,
    DEFAULT_ALLOCATOR,
    DEFAULT_COST_MODEL,
    DEFAULT_SEARCHER,
    DEFAULT_SPACE,
    SPACES,
    TVM_SPACE,
)
from tunesmith.operators import looks_like_operator
from tunesmith.search.registry import SEARCHERS
from tunesmith.states import JobState
from tunesmith.targets import parse_target

DEFAULT_SECONDS = 300.0


def _choices(what: str, names: Iterable[str], default: str) -> str:
    """With a mark at those that need an extra."""
    extras = sorted({CHOICES[name][0] for name in names if name in CHOICES})
    listed = ", ".join(name + ("*" if name in CHOICES else "") for name in sorted(names))
    needs = f" * needs the extra '{extras[0]}'." if extras else ""
    return f"{what}: {listed} (default: {default}).{needs}"


def _names(names: Iterable[str]) -> Callable[[], list[str]]:
    """For the completion of a shell."""
    return lambda: sorted(names)


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
    trials: Annotated[
        int | None, typer.Option(help="How many candidates to measure (default: as many as --time allows).")
    ] = None,
    time_: Annotated[
        float | None,
        typer.Option(
            "--time",
            help="Seconds for the whole run, without the start of an embedded stack "
            f"(default: {DEFAULT_SECONDS:g}, or no limit with --trials).",
        ),
    ] = None,
    search: Annotated[
        str | None,
        typer.Option(help=_choices("Search strategy", SEARCHERS, DEFAULT_SEARCHER), autocompletion=_names(SEARCHERS)),
    ] = None,
    cost_model: Annotated[
        str | None,
        typer.Option(help=_choices("Cost model", COST_MODELS, DEFAULT_COST_MODEL), autocompletion=_names(COST_MODELS)),
    ] = None,
    allocator: Annotated[
        str | None,
        typer.Option(
            help=_choices("How tasks share the budget", ALLOCATORS, DEFAULT_ALLOCATOR),
            autocompletion=_names(ALLOCATORS),
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the search (default: 0).")] = None,
    fast_math: Annotated[
        bool | None,
        typer.Option(
            "--fast-math/--no-fast-math",
            help="Allow polynomials for exp, log, erf, tanh and sigmoid if the target benefits (default: yes).",
        ),
    ] = None,
    winograd: Annotated[
        bool | None,
        typer.Option(
            "--winograd/--no-winograd",
            help="Allow Winograd's algorithm for convolutions where it is faster (default: yes).",
        ),
    ] = None,
    space: Annotated[
        str | None,
        typer.Option(
            help=f"Design space: {ALL_SPACE}, or {TVM_SPACE} for what TVM's own generator makes of the model as TVM "
            f"prepares it (default: {DEFAULT_SPACE}).",
            autocompletion=_names(SPACES),
        ),
    ] = None,
    until_converged: Annotated[
        bool,
        typer.Option(
            "--until-converged",
            help=f"Stop early when no further gain is expected; --time still defaults to {DEFAULT_SECONDS:g}.",
        ),
    ] = False,
    warm_start: Annotated[
        bool | None,
        typer.Option("--warm-start/--no-warm-start", help="Start from what earlier jobs found (default: yes)."),
    ] = None,
    verify: Annotated[
        bool | None,
        typer.Option(
            "--verify/--no-verify",
            help="Compile the model at the end, check its outputs and time it (default: yes).",
        ),
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the job (default: the model's).")] = None,
    priority: Annotated[int | None, typer.Option(min=-10, max=10, help="Higher runs first (default: 0).")] = None,
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
    options = {
        "search": search,
        "cost_model": cost_model,
        "allocator": allocator,
        "seed": seed,
        "fast_math": fast_math,
        "winograd": winograd,
        "space": space,
        "warm_start": warm_start,
        "verify": verify,
        "name": name,
        "priority": priority,
        "stop_when_converged": until_converged,
    }
    request = _checked(model, target, trials, time_, inputs or [], options)
    if out is not None:
        check_out(out)
    with shown("starting", as_json, keep=True) as display:
        chosen = None if embedded else server or reachable(key)
        with _connection(request, chosen, key, data_dir, display) as (client, own):
            job, spent = _run(client, request, own, display)
            display.phase("saving")
            summary = summarise(client, job, model, target, spent)
            if out is not None:
                write(client, job, out, summary)
        display.job(job)
    emit(summary, lay_out(report(summary, out, data_dir if own else None, client.url), INDENT), as_json)


def _checked(
    model: str, target: str, trials: int | None, time_: float | None, inputs: list[str], options: dict[str, Any]
) -> Request:
    """Everything that can be refused without a server, cheapest first."""
    parse_target(target)
    check_limits(trials, time_, options["seed"])
    check_names(options)
    shapes = parse_inputs(inputs)
    check_model(model)
    if not looks_like_operator(model):
        check_content(model)
    elif shapes:
        raise InvalidInput(
            f"--input fixes a model's dynamic inputs; the operator {model} already has its shapes",
            field="input",
            value=inputs[0],
        )
    if trials is None and time_ is None:
        time_ = DEFAULT_SECONDS
    return Request(model, target, trials, time_, shapes, options)


@contextmanager
def _connection(
    request: Request, server: str | None, key: str | None, data_dir: Path, display: Display
) -> Iterator[tuple[Client, bool]]:
    """A client, and whether the server behind it was started for this run."""
    if server is not None:
        with Client(server, key) as client:
            yield client, False
        return
    check_target_is_here(request.target)
    check_extras(request.model, request.options)
    display.phase("starting", "an embedded stack")

    def step(name: str) -> None:
        display.phase("starting", name)

    with EmbeddedStack(data_dir, on_step=step) as stack, Client(stack.url, key) as client:
        for job in stack.resumed:
            display.say(f"resumed {resumed(job)}; it continues alongside this run")
        try:
            alive = [device for device in client.devices() if device.alive]
            check_class_is_here(request.target, {name for device in alive for name in device.device_classes})
            yield client, True
        finally:
            display.phase("stopping", "the embedded stack")


def reachable(key: str | None) -> str | None:
    """The default address when a server answers there."""
    with Client(DEFAULT_URL, key) as client:
        return DEFAULT_URL if client.ready() else None


def _run(client: Client, request: Request, own: bool, display: Display) -> tuple[Job, float]:
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
        **request.options,
    )
    display.say(f"job {submitted.id} (dashboard: {client.url})")
    try:
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
