"""Options that many commands share."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Annotated

import typer

from tunesmith.errors import NotFound
from tunesmith.names import DEFAULT_URL

if TYPE_CHECKING:
    from tunesmith.client import Client

Json = Annotated[bool, typer.Option("--json", help="Print JSON, including errors.")]
Server = Annotated[
    str | None,
    typer.Option(
        "--server",
        envvar="TUNESMITH_SERVER",
        help=f"Address of the coordinator, such as lab:8700 (default: {DEFAULT_URL}).",
    ),
]
Key = Annotated[
    str | None,
    typer.Option("--key", envvar="TUNESMITH_KEY", help="API key, if the server requires one.", show_envvar=True),
]
Inputs = Annotated[list[str] | None, typer.Option("--input", help="Shape of a dynamic input: name=1,3,224,224.")]
Limit = Annotated[int, typer.Option(min=1, max=200)]
Cursor = Annotated[str | None, typer.Option(help="Continue after a page: the next_cursor of its --json.")]
LAST = "last"
JobId = Annotated[str, typer.Argument(metavar="JOB", help="Id of a job, or 'last' for the newest one.")]


class RecordOrder(str, enum.Enum):
    """Orders of records; a minus sign for descending."""

    NEWEST = "-id"
    OLDEST = "id"
    FASTEST = "latency"


def connect(server: str | None, key: str | None) -> Client:
    """A client of the given or the default server."""
    from tunesmith.client import Client  # commands that ask no server do without

    return Client(server or DEFAULT_URL, key)


def chosen(client: Client, job: str) -> str:
    """The job's id; ``last`` is the newest one that the key may see. Raises NotFound when there is none."""
    if job != LAST:
        return job
    newest = client.jobs(sort="-created_at", limit=1).items
    if not newest:
        raise NotFound("there are no jobs yet: submit one with tunesmith tune", job=job)
    return newest[0].id
