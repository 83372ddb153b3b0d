"""``tunesmith compile``: a deployable library with the tuned schedules applied."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from tunesmith.cli.checks import check_model, check_output_file, parse_inputs
from tunesmith.schedule_log import read_log
from workers.tvm_backend.deploy import LocalModel, local_target, target_of


def compile_(
    model: Annotated[str, typer.Argument(help="An .onnx or .pt2 file, or an operator spec.")],
    log: Annotated[Path, typer.Option(help="best.jsonl, or a folder with a MetaSchedule database.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The library to write.")] = Path("model.so"),
    inputs: Annotated[
        list[str] | None, typer.Option("--input", help="Shape of a dynamic input: name=1,3,224,224.")
    ] = None,
    target: Annotated[str | None, typer.Option(help="Default: the log's target, else this host.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, errors too.")] = False,
) -> None:
    """Compile a model with its tuned schedules; lists the tasks that found none."""
    shapes = parse_inputs(inputs or [])
    check_model(model)
    check_output_file(output)
    given = read_log(log)
    goal = local_target(target) if target else target_of(given.records) or local_target("cpu")
    with tempfile.TemporaryDirectory(prefix="tunesmith-compile-") as folder:
        local = LocalModel(model, shapes, Path(folder), given.preparation)
        output.parent.mkdir(parents=True, exist_ok=True)
        missing = local.compile(output.absolute(), goal, given.records)
    if as_json:
        answer = {"path": str(output), "target": goal.to_json(), "preparation": given.preparation.key,
                  "schedules": len(given.records), "missing": missing}  # fmt: skip
        print(json.dumps(answer))
        return
    print(output)
    for name in missing:
        print(f"no schedule for {name}: it keeps the default one", file=sys.stderr)
