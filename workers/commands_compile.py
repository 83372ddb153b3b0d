"""``tunesmith compile``: a deployable library with the tuned schedules applied, or what is known without tuning."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from tunesmith.budget import UNMEASURED
from tunesmith.cli.checks import check_model, check_output_file, parse_inputs
from tunesmith.cli.options import Inputs, Json, Key
from tunesmith.cli.progress import shown
from tunesmith.cli.summary import sources_in_words
from tunesmith.errors import InvalidInput
from tunesmith.full_disk import writing
from tunesmith.names import AUTO, DEFAULT_PRECISION
from tunesmith.operators import looks_like_operator
from tunesmith.options import JobOptions
from tunesmith.preparation import Preparation
from tunesmith.schedule_log import ScheduleLog, read_log
from tunesmith.states import JobState
from tunesmith.unmeasured import Answer, Source
from workers.local_compile import DATA_DIR, Compiled, by_knowledge
from workers.quiet import libraries_are_quiet
from workers.tvm_backend.build.local_model import LocalModel, local_target, target_of


def compile_(
    model: Annotated[str, typer.Argument(help="An .onnx or .pt2 file, TVM JSON, or an operator spec.")],
    log: Annotated[
        Path | None,
        typer.Option(
            help="best.jsonl, or a folder with a MetaSchedule database (default: what the data folder knows; the rest "
            "is chosen without measuring)."
        ),
    ] = None,
    output: Annotated[Path, typer.Option("-o", "--output", help="The library to write.")] = Path("model.so"),
    inputs: Inputs = None,
    target: Annotated[str | None, typer.Option(help="Target (default: the log's, otherwise this host's CPU).")] = None,
    precision: Annotated[
        str | None, typer.Option(help="float32, bf16 or int8, without a log (default: float32).")
    ] = None,
    data_dir: Annotated[
        Path, typer.Option(help="Data folder with what earlier jobs found, without a log.", envvar="TUNESMITH_DATA_DIR")
    ] = DATA_DIR,
    as_json: Json = False,
    server: Annotated[
        str | None, typer.Option("--server", help="Ask the coordinator at this address instead of the data folder.")
    ] = None,
    key: Key = None,
) -> None:
    """Compile a model with its tuned schedules, and list the tasks without one."""
    shapes = parse_inputs(inputs or [])
    check_model(model)
    check_output_file(output)
    options = _options(log, precision)
    given = read_log(log) if log is not None else None
    with libraries_are_quiet(), shown("compiling", as_json), writing(output), _library(output) as library:
        if given is not None:
            done = _by_log(model, shapes, library, target, given)
        elif server is not None:
            done = _by_server(model, shapes, library, target or "cpu", (server, key), options)
        else:
            done = by_knowledge(model, shapes, library, target or "cpu", data_dir, options)
    if as_json:
        print(json.dumps(_body(output, done)))
        return
    print(output)
    if (computed := Preparation.parse(done.preparation).precision) != DEFAULT_PRECISION:
        print(f"precision: {computed}", file=sys.stderr)
    if done.note:
        print(f"note: {done.note}", file=sys.stderr)
    if done.answers:
        print(f"schedules: {sources_in_words(answer.source for answer in done.answers)}", file=sys.stderr)
    for name in done.missing:
        print(f"no schedule for {name}: it keeps the default one", file=sys.stderr)


def _body(output: Path, done: Compiled) -> dict[str, Any]:
    return {
        "path": str(output),
        "target": done.target.to_json(),
        "preparation": done.preparation,
        "precision": Preparation.parse(done.preparation).precision,
        "schedules": done.schedules,
        "missing": done.missing,
        "note": done.note or None,
        "answers": [
            {"task": answer.task, "workload": answer.workload}
            | {name: value for name, value in answer.to_json().items() if name != "trace"}
            for answer in done.answers
        ],
    }


@contextmanager
def _library(output: Path) -> Iterator[Path]:
    """Where to write a library, which becomes ``output`` once it is whole."""
    with tempfile.TemporaryDirectory(prefix="tunesmith-compile-") as folder:
        library = Path(folder) / "library.so"
        yield library
        output.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(library, output)
        output.chmod(library.stat().st_mode)


def _by_log(
    model: str, shapes: dict[str, tuple[int, ...]], library: Path, target: str | None, given: ScheduleLog
) -> Compiled:
    """No library is left where the log has schedules and none fits."""
    goal = local_target(target) if target else target_of(given.records) or local_target("cpu")
    local = LocalModel(model, shapes, library.parent, given.preparation)
    missing = local.compile(library, goal, given.records)
    return Compiled(goal, given.preparation.key, len(given.records), missing, local.inputs, local.note)


def _options(log: Path | None, precision: str | None) -> JobOptions:
    """What the model's preparation depends on.

    Raises:
        InvalidInput, UnknownPrecision: a log has its own precision; ``auto`` needs a job to compare in.
    """
    if log is not None and precision is not None:
        raise InvalidInput(
            "the log says in which precision its schedules compute: leave --precision out",
            field="precision",
            value=precision,
        )
    if precision == AUTO:
        raise InvalidInput(
            "precision auto compares outputs, which a job does: run 'tunesmith tune MODEL --trials 0 --precision auto "
            "--out DIR', then compile with --log DIR/best.jsonl",
            field="precision",
            value=precision,
        )
    options = JobOptions(precision=precision or DEFAULT_PRECISION)
    options.check_values()
    return options


def _by_server(
    model: str,
    shapes: dict[str, tuple[int, ...]],
    library: Path,
    target: str,
    connection: tuple[str, str | None],
    options: JobOptions,
) -> Compiled:
    """By a job without trials."""
    from tunesmith.cli.jobs import failure  # the client's library, which a log does without
    from tunesmith.client import Client

    log = library.with_name("best.jsonl")
    with Client(*connection) as client:
        about: dict[str, Any] = {"operator": model}
        if not looks_like_operator(model):
            about = {"model_id": client.wait_model(client.upload_model(model, inputs=shapes).id).id}
        job = client.wait(client.submit(target=target, trials=UNMEASURED, precision=options.precision, **about).id)
        if job.state is not JobState.SUCCEEDED:
            raise failure(job)
        client.download_best(job.id, log)
    done = _by_log(model, shapes, library, None, read_log(log))
    return replace(done, answers=[_answer(json.loads(line)) for line in log.read_text().splitlines()])


def _answer(line: dict[str, Any]) -> Answer:
    """What a line of the log says of its schedule's source."""
    seconds = (line["latency"] or {}).get("median") or (line["estimated_latency"] or {}).get("seconds")
    source, relative = Source(line["provenance"]["source"]), line["provenance"]["relative"]
    return Answer(line["task"], line["workload"]["hash"], source, seconds, relative, line["trace"])
