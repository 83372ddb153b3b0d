"""``tunesmith worker``."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from tunesmith.errors import InvalidInput
from workers.settings import Settings


def worker(
    queues: Annotated[
        str | None, typer.Option(help="Comma-separated: ingest, search, train, record, measure (default: all but measure).")
    ] = None,
    broker: Annotated[str | None, typer.Option(help="Redis URL (default: TUNESMITH_BROKER_URL).")] = None,
    concurrency: Annotated[int | None, typer.Option(min=1, max=64, help="Tasks that run at once.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print errors as JSON.")] = False,
) -> None:
    """Run a worker of the service, in the foreground."""
    settings = _settings({"queues": queues, "broker_url": broker, "concurrency": concurrency})
    from workers.app import create_app

    create_app(settings).worker_main([
        "worker", "--pool", "prefork", "--concurrency", str(settings.concurrency), "--loglevel", settings.log_level,
        "--hostname", f"{'+'.join(settings.queues)[:60]}-{os.getpid()}@%h",
        "--without-gossip", "--without-mingle", "--without-heartbeat",
    ])  # fmt: skip


def _settings(given: dict[str, Any]) -> Settings:
    try:
        return Settings(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        raise InvalidInput(f"{name}: {first['msg']}", field=name, value=first.get("input")) from error
