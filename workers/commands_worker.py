"""``tunesmith worker``."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from tunesmith.data_folder import prepare
from tunesmith.errors import InvalidInput
from tunesmith.names import CONNECTION_FILE, MEASURING
from workers.commands_enrol import broker_users, enrol, list_enrolled, revoke
from workers.settings import Settings

worker = typer.Typer(
    help="Run a worker of the service, in the foreground; or enrol, list and revoke measure workers.",
    add_completion=False,
    pretty_exceptions_enable=False,
)
worker.command("enrol")(enrol)
worker.command("list")(list_enrolled)
worker.command("revoke")(revoke)
worker.command("broker-users")(broker_users)


@worker.callback(invoke_without_command=True)
def run_worker(
    ctx: typer.Context,
    queues: Annotated[
        str | None,
        typer.Option(help="Comma-separated: ingest, search, train, record, measure (default: all but measure)."),
    ] = None,
    broker: Annotated[str | None, typer.Option(help="Redis URL (default: TUNESMITH_BROKER_URL).")] = None,
    join: Annotated[
        Path | None, typer.Option(help="Work for the running 'tunesmith up' with this data directory.")
    ] = None,
    concurrency: Annotated[int | None, typer.Option(min=1, max=64, help="Number of tasks that run at once.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print errors as JSON.")] = False,
) -> None:
    """Run a worker of the service, in the foreground; or enrol, list and revoke measure workers."""
    if ctx.invoked_subcommand is not None:
        return
    given = {"queues": queues, "broker_url": broker, "concurrency": concurrency}
    chosen = {name: v for name, v in given.items() if v is not None}
    settings = _settings((joined(join, _settings(chosen)) if join else {}) | chosen)
    prepare(settings.data_dir, settings.umask)
    controller = _controller(settings)
    controller.start()
    raise typer.Exit(controller.exitcode or 0)


def _controller(settings: Settings) -> Any:
    """Celery's worker; not by its command line, as importing its shell takes a third of a second."""
    from workers.app import create_app

    return create_app(settings).Worker(
        hostname=f"{'+'.join(settings.queues)[:60]}-{os.getpid()}@{socket.gethostname()}",
        pool="prefork",
        concurrency=settings.concurrency,
        loglevel=settings.log_level,
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
    )


def joined(data_dir: Path, settings: Settings) -> dict[str, Any]:
    """The settings of the stack that runs on ``data_dir`` for a worker of ``settings.queues``.

    Raises:
        InvalidInput: none does, or its file belongs to another user.
    """
    path = data_dir.absolute() / CONNECTION_FILE
    try:
        facts = json.loads(path.read_text())
        measuring = facts.pop(MEASURING)
        return {**facts, **({} if settings.core_queues else measuring), "data_dir": path.parent}
    except (OSError, ValueError, LookupError) as error:
        raise InvalidInput(
            f"no 'tunesmith up' runs on {data_dir}: {path} cannot be read ({error})", field="join", value=str(data_dir)
        ) from error


def _settings(given: dict[str, Any]) -> Settings:
    try:
        return Settings(**given)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        raise InvalidInput(f"{name}: {first['msg']}", field=name, value=first.get("input")) from error
