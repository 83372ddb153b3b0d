"""``tunesmith worker enrol | list | revoke | broker-users``: which measure workers are believed, and may what."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Annotated

import typer

from tunesmith.broker_users import measuring
from tunesmith.cli.options import Json, Key, Server, connect
from tunesmith.cli.output import emit, table
from tunesmith.cli.workloads import summary
from tunesmith.signing import KEY_FILE, ensure_key
from workers.settings import Settings


def enrol(
    name: Annotated[str, typer.Option(help="Display name of the worker.")] = socket.gethostname(),
    device_class: Annotated[
        list[str] | None, typer.Option(help="A device class that the worker may serve; repeatable (default: any).")
    ] = None,
    data_dir: Annotated[Path | None, typer.Option(help="The worker's folder (default: TUNESMITH_DATA_DIR).")] = None,
    as_json: Json = False,
    server: Server = None,
    key: Key = None,
) -> None:
    """Create this measure worker's key and register it with the service; the private key stays here."""
    folder = data_dir or Settings().data_dir
    public = ensure_key(folder)
    with connect(server, key) as client:
        found = client.enrol_worker(name, public, device_class or ())
    emit(found, f"worker {found['id']} is enrolled as {found['name']}; its key: {folder / KEY_FILE}", as_json)


def list_enrolled(as_json: Json = False, server: Server = None, key: Key = None) -> None:
    """List the enrolled measure workers."""
    with connect(server, key) as client:
        found = client.enrolled_workers()
    rows = [(w["id"], w["name"], ", ".join(w["device_classes"]) or "any", w["revoked_at"] or "") for w in found]
    emit({"items": found}, table(("id", "name", "device classes", "revoked"), rows), as_json)


def revoke(
    worker: Annotated[str, typer.Argument(metavar="ID", help="Id of an enrolled worker.")],
    results: Annotated[bool, typer.Option("--results", help="Also revoke everything it reported.")] = False,
    as_json: Json = False,
    server: Server = None,
    key: Key = None,
) -> None:
    """Revoke a measure worker's key."""
    with connect(server, key) as client:
        done = client.revoke_worker(worker, results=results)
    more = f"; {summary(done)}" if results else "; what it reported stands: --results revokes that, too"
    emit(done, f"worker {worker} is revoked{more}", as_json)


def broker_users(
    name: Annotated[str, typer.Option(help="Name of the worker in Redis.")] = socket.gethostname(),
    device_class: Annotated[
        list[str] | None, typer.Option(help="A device class that the worker may serve; repeatable (default: any).")
    ] = None,
    broker: Annotated[str, typer.Option(help="Redis's address, host:port.")] = "127.0.0.1:6379",
    as_json: Json = False,
) -> None:
    """Create a measure worker's two Redis users: lines for Redis's ACL file, and URLs for the worker."""
    reads, reports = measuring(name, device_class or ())
    urls = {"TUNESMITH_BROKER_URL": reads.url(broker), "TUNESMITH_REPORTS_URL": reports.url(broker)}
    lines = [reads.line, reports.line]
    settings_text = "\n".join(f"{key}={url}" for key, url in urls.items())
    emit({"acl": lines, "settings": urls}, "\n".join(lines) + f"\n{settings_text}", as_json)
