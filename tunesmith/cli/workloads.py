"""``tunesmith workloads``: list, show, revoke."""

from __future__ import annotations

from typing import Annotated

import typer

from tunesmith.cli.options import Cursor, Json, Key, Limit, Server, connect
from tunesmith.cli.output import emit, rows, seconds, table

app = typer.Typer(help="Workloads: list, show, revoke.", no_args_is_help=True, add_completion=False)
Target = Annotated[str | None, typer.Option(help="Only on this target: hash, device class or tag.")]


@app.command("list")
def list_(
    text: Annotated[str | None, typer.Argument(help="Part of a name, or the beginning of a hash.")] = None,
    family: Annotated[str | None, typer.Option(help="Only this operator, such as conv2d.")] = None,
    target: Target = None,
    limit: Limit = 50,
    cursor: Cursor = None,
    as_json: Json = False,
    server: Server = None,
    key: Key = None,
) -> None:
    """List tensor programs that have records, newest first."""
    with connect(server, key) as client:
        page = client.workloads(family=family, target=target, text=text, limit=limit, cursor=cursor)
    lines = [(row.hash, row.family, str(row.records), str(row.failures), row.name) for row in page.items]
    head = ("hash", "operator", "records", "failures", "name")
    emit(page.model_dump(mode="json"), table(head, lines, give="name"), as_json)


@app.command()
def show(
    workload: Annotated[str, typer.Argument(metavar="HASH", help="Hash of a workload.")],
    as_json: Json = False,
    server: Server = None,
    key: Key = None,
) -> None:
    """Show one tensor program: its records by target and precision, and its best schedules."""
    with connect(server, key) as client:
        found = client.workload(workload)
    about = [("workload", found.hash), ("name", found.name), ("operator", found.family), ("FLOPs", f"{found.flops:g}")]
    about += [("args", ", ".join(f"{each.dtype}{each.shape}" for each in found.args))]
    about += [
        ("records", f"{each.device_class} {each.precision}: {each.records}, {each.failures} failed")
        for each in found.groups
    ]
    about += [("best", f"{each.device_class}: {seconds(each.latency)} ({each.cache.value})") for each in found.best]
    emit(found.model_dump(mode="json"), rows(about), as_json)


@app.command("revoke")
def revoke(
    workload: Annotated[str, typer.Argument(metavar="HASH", help="Hash of a workload.")],
    target: Annotated[str, typer.Option(help="Hash, device class or tag of the target.")],
    reason: Annotated[str, typer.Option(help="Reason; shown in the events of the affected jobs.")] = "",
    as_json: Json = False,
    server: Server = None,
    key: Key = None,
) -> None:
    """Revoke the best schedule of a workload, and everything derived from it."""
    with connect(server, key) as client:
        done = client.revoke_champion(workload, target, reason)
    emit(done, summary(done), as_json)


def summary(done: dict[str, int]) -> str:
    """What a revocation changed, in words."""
    return f"revoked {done['records']} records, {done['champions']} best schedules, {done['tasks']} tasks of jobs"
