"""``tunesmith keys``: list, create, revoke, audit; for operators."""

from __future__ import annotations

import datetime as dt
from typing import Annotated

import typer

from tunesmith.cli.options import Cursor, Json, Key, Limit, Server, connect
from tunesmith.cli.output import emit, table

app = typer.Typer(
    help="API keys, for operators: list, create, revoke, audit.", no_args_is_help=True, add_completion=False
)
COLUMNS = ("id", "owner", "scopes", "state", "made")


@app.command("list")
def list_(as_json: Json = False, server: Server = None, key: Key = None) -> None:
    """List keys, without their secrets."""
    with connect(server, key) as client:
        keys = client.keys()
    rows = [
        (
            item.id,
            item.owner,
            ", ".join(item.scopes),
            "revoked" if item.revoked else "valid",
            _time(item.created_at),
        )
        for item in keys
    ]
    emit([item.model_dump(mode="json") for item in keys], table(COLUMNS, rows), as_json)


@app.command()
def create(
    owner: Annotated[str, typer.Option(help="Owner of the models and jobs made with the key.")] = "local",
    scope: Annotated[
        list[str] | None,
        typer.Option(help="viewer, user (the default), operator, worker or monitor; repeatable."),
    ] = None,
    as_json: Json = False,
    server: Server = None,
    key: Key = None,
) -> None:
    """Create a key and print it; it is shown only once."""
    with connect(server, key) as client:
        made = client.create_key(owner, scope or ["user"])
    emit(made.model_dump(mode="json"), made.key, as_json)


@app.command()
def revoke(
    key_id: Annotated[str, typer.Argument(metavar="ID", help="Id of a key, as `keys list` shows it.")],
    as_json: Json = False,
    server: Server = None,
    key: Key = None,
) -> None:
    """Revoke a key."""
    with connect(server, key) as client:
        client.revoke_key(key_id)
    emit({"id": key_id, "revoked": True}, f"revoked {key_id}", as_json)


@app.command()
def audit(
    owner: Annotated[str | None, typer.Option(help="Only actions by keys of this owner.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
    as_json: Json = False,
    server: Server = None,
    key: Key = None,
) -> None:
    """List who changed what, who was refused, and from where each key is used, newest first."""
    with connect(server, key) as client:
        page = client.audit(owner, limit, cursor)
    rows = [
        (
            _time(item.created_at),
            item.owner or "-",
            item.address,
            str(item.status),
            f"{item.action} {item.target}",
        )
        for item in page.items
    ]
    emit(page.model_dump(mode="json"), table(("when", "owner", "address", "status", "what"), rows), as_json)


def _time(at: dt.datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%S}"
