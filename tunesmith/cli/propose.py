"""``tunesmith propose``: candidates of one's own for a task of a job that is being tuned."""

from __future__ import annotations

import getpass
import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from tunesmith.cli.options import JobId, Json, Key, Server, chosen, connect
from tunesmith.cli.output import emit
from tunesmith.cli.trials import listed
from tunesmith.client import Client
from tunesmith.errors import InvalidInput
from tunesmith.proposals import ProposalSource

EXAMPLE = '[{"sketch": "0a94", "knobs": {"matmul.loop_0": [8, 1, 4, 2], "unroll": 1}}]'


def propose(
    job: JobId,
    task: Annotated[int, typer.Argument(metavar="TASK", help="A task's id.", min=0)],
    file: Annotated[
        str | None,
        typer.Argument(
            help="Candidates as JSON, each with its sketch and knobs; - for standard input.", show_default=False
        ),
    ] = None,
    knobs: Annotated[
        list[str] | None,
        typer.Option("--knob", help="In place of a file: NAME=VALUE changes the champion; may be repeated."),
    ] = None,
    like: Annotated[int | None, typer.Option(help="With --knob: change this trial, not the champion.", min=0)] = None,
    source: Annotated[ProposalSource, typer.Option(help="Who proposes.")] = ProposalSource.PERSON,
    author: Annotated[str | None, typer.Option(help="A name for it (default: the user's).")] = None,
    judge: Annotated[
        bool, typer.Option("--judge", help="Only say which are valid and what is expected of them.")
    ] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until they are measured.")] = False,
    as_json: Json = False,
    server: Server = None,
    key: Key = None,
) -> None:
    """Propose candidates of a task; its space says which sketches and knobs it has."""
    if (file is None) == (not knobs):
        raise InvalidInput("give a FILE of candidates, or --knob NAME=VALUE", field="file", value=file)
    given = _read(file) if file is not None else []
    changes = dict(map(_pair, knobs or []))
    with connect(server, key) as client:
        job = chosen(client, job)
        if changes:
            given = [_changed(client, job, task, like, changes)]
        name = _user() if author is None else author
        found = client.propose(job, task, given, source=source, author=name, measure=not judge)
        if wait:
            found = client.wait_proposals(job, task, [each.id for each in found])
    emit([each.model_dump(mode="json") for each in found], listed(found), as_json)


def _read(file: str) -> list[dict[str, Any]]:
    """The candidates of a file. Raises InvalidInput."""
    try:
        found = json.loads(sys.stdin.read() if file == "-" else Path(file).read_text())
    except (OSError, ValueError) as error:
        raise InvalidInput(f"cannot read candidates from {file}: {error}", field="file", value=file) from error
    if isinstance(found, dict):
        found = found.get("candidates", [found])
    if not isinstance(found, list) or not found or not all(isinstance(each, dict) for each in found):
        raise InvalidInput(f"{file} holds no candidates: it should be like {EXAMPLE}", field="file", value=file)
    return found


def _changed(client: Client, job: str, task: int, like: int | None, changes: dict[str, Any]) -> dict[str, Any]:
    """The champion's knobs, or those of trial ``like``, with some of them changed."""
    if like is not None:
        trial = client.trial(job, like)
        sketch, base = trial.sketch, trial.knobs
    else:
        champion = client.space(job, task).champion
        sketch, base = (None, []) if champion is None else (champion.sketch, champion.knobs)
    if sketch is None:
        detail = "there is no tuned champion yet whose knobs could be changed: name a trial with --like, or give a FILE"
        raise InvalidInput(detail, field="like", value=like)
    return {"sketch": sketch, "knobs": {each.name: each.decision for each in base} | changes}


def _pair(text: str) -> tuple[str, Any]:
    """``name=8,1,4,16`` or ``name=2`` as a name and its decision."""
    name, _, value = text.partition("=")
    try:
        numbers = [int(each) for each in value.split(",")]
    except ValueError:
        raise InvalidInput(f"--knob {text!r} is not NAME=NUMBER[,NUMBER...]", field="knob", value=text) from None
    return name, numbers if len(numbers) > 1 else numbers[0]


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # no name for the user's number
        return ""
