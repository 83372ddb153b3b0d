"""``tunesmith best``: the best schedules of a job."""

from __future__ import annotations

import enum
import json
from pathlib import Path
from typing import Annotated

import typer

from tunesmith.cli.checks import check_out, check_output_file
from tunesmith.cli.options import JobId, Json, Key, Server, chosen, connect
from tunesmith.cli.output import emit


class Format(str, enum.Enum):
    """Forms of the result."""

    JSONL = "jsonl"
    METASCHEDULE = "metaschedule"


def best(
    job: JobId,
    form: Annotated[
        Format, typer.Option("--format", help="JSON lines, or a folder with a MetaSchedule database.")
    ] = Format.JSONL,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="File, or folder for metaschedule.")] = None,
    as_json: Json = False,
    server: Server = None,
    key: Key = None,
) -> None:
    """Print or save the best schedules of a job."""
    with connect(server, key) as client:
        job = chosen(client, job)
        if form is Format.METASCHEDULE:
            folder = output or Path(f"{job}-metaschedule")
            check_out(folder, "-o", "output")
            client.download_metaschedule(job, folder)
            emit({"job": job, "path": str(folder)}, str(folder), as_json)
        elif output is not None:
            check_output_file(output)
            path = client.download_best(job, output)
            emit({"job": job, "path": str(path)}, str(path), as_json)
        else:
            for line in client.best(job):
                print(json.dumps(line))
