"""Options that many commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from tunesmith.client import DEFAULT_URL, Client

Json = Annotated[bool, typer.Option("--json", help="Print JSON, errors too.")]
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
    typer.Option("--key", envvar="TUNESMITH_KEY", help="Bearer key, where the server asks for one.", show_envvar=True),
]
JobId = Annotated[str, typer.Argument(metavar="JOB", help="Id of a job.")]


def connect(server: str | None, key: str | None) -> Client:
    """A client of the given or the default server."""
    return Client(server or DEFAULT_URL, key)
