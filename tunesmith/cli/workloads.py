"""``tunesmith workloads``: what is known of workloads, over all jobs."""

from __future__ import annotations

from typing import Annotated

import typer

from tunesmith.cli.options import Json, Key, Server, connect
from tunesmith.cli.output import emit

app = typer.Typer(help="Workloads: revoke best schedules.", no_args_is_help=True, add_completion=False)


@app.callback()
def _group() -> None:
    """Workloads: revoke best schedules."""


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
