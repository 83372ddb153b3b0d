"""``tunesmith compile``: a deployable library with the tuned schedules applied."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from tunesmith.cli.checks import check_model, check_output_file, parse_inputs
from tunesmith.cli.options import Inputs, Json
from tunesmith.cli.progress import shown
from tunesmith.full_disk import writing
from tunesmith.schedule_log import ScheduleLog, read_log
from tunesmith.targets import Target
from workers.quiet import libraries_are_quiet
from workers.tvm_backend.build.local_model import LocalModel, local_target, target_of


def compile_(
    model: Annotated[str, typer.Argument(help="An .onnx or .pt2 file, or an operator spec.")],
    log: Annotated[Path, typer.Option(help="best.jsonl, or a folder with a MetaSchedule database.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The library to write.")] = Path("model.so"),
    inputs: Inputs = None,
    target: Annotated[str | None, typer.Option(help="Target (default: the log's, otherwise this host's CPU).")] = None,
    as_json: Json = False,
) -> None:
    """Compile a model with its tuned schedules, and list the tasks without one."""
    shapes = parse_inputs(inputs or [])
    check_model(model)
    check_output_file(output)
    given = read_log(log)
    with libraries_are_quiet(), shown("compiling", as_json), writing(output):
        goal = local_target(target) if target else target_of(given.records) or local_target("cpu")
        missing, note = _compile(model, shapes, output, goal, given)
    if as_json:
        answer = {
            "path": str(output),
            "target": goal.to_json(),
            "preparation": given.preparation.key,
            "schedules": len(given.records),
            "missing": missing,
            "note": note or None,
        }
        print(json.dumps(answer))
        return
    print(output)
    if note:
        print(f"note: {note}", file=sys.stderr)
    for name in missing:
        print(f"no schedule for {name}: it keeps the default one", file=sys.stderr)


def _compile(
    model: str, shapes: dict[str, tuple[int, ...]], output: Path, target: Target, given: ScheduleLog
) -> tuple[list[str], str]:
    """The tasks that keep their default schedules, and the model's note.

    No library is left where the log has schedules and none fits.
    """
    with tempfile.TemporaryDirectory(prefix="tunesmith-compile-") as folder:
        local = LocalModel(model, shapes, Path(folder), given.preparation)
        library = Path(folder) / "library.so"
        missing = local.compile(library, target, given.records)
        output.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(library, output)
        output.chmod(library.stat().st_mode)
    return missing, local.note
