"""``tunesmith records``: the performance dataset over all jobs."""

from __future__ import annotations

import enum
from typing import Annotated

import typer

from tunesmith.cli.options import Cursor, Json, Key, Limit, Server, connect
from tunesmith.cli.output import emit, seconds, table
from tunesmith.cli.record_options import Filters, with_record_options

app = typer.Typer(help="Records of all jobs: list.", no_args_is_help=True, add_completion=False)


@app.callback()
def _group() -> None:
    """Records of all jobs: list."""


class Order(str, enum.Enum):
    """Orders of records; a minus sign for descending."""

    NEWEST = "-id"
    OLDEST = "id"
    FASTEST = "latency"


@app.command("list")
@with_record_options
def list_(
    wanted: Filters,
    sort: Annotated[Order, typer.Option(help="Order; latency is for the records of one workload.")] = Order.NEWEST,
    limit: Limit = 50,
    cursor: Cursor = None,
    as_json: Json = False,
    server: Server = None,
    key: Key = None,
) -> None:
    """List measured candidates of all jobs, newest first."""
    with connect(server, key) as client:
        page = client.records(sort=sort.value, limit=limit, cursor=cursor, **wanted)
    lines = [
        (
            str(row.id),
            row.family,
            row.workload,
            row.device_class,
            row.precision,
            row.failure.value if row.failure else seconds(row.latency),
        )
        for row in page.items
    ]
    head = ("id", "operator", "workload", "device class", "precision", "latency")
    emit(page.model_dump(mode="json"), table(head, lines, whole=head), as_json)
