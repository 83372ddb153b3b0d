"""``tunesmith worker``."""

from __future__ import annotations

import os
from typing import Annotated, Any, Optional

import typer
from pydantic import ValidationError

from tunesmith.errors import InvalidInput


def worker(
    queues: Annotated[
        str,
        typer.Option(help="Queues, separated by commas: ingest, search, train, record, measure, measure.<device class>."),
    ] = "ingest,search,train,record",
    broker: Annotated[
        Optional[str], typer.Option(help="URL of the Redis broker.", envvar="TUNESMITH_BROKER_URL")
    ] = None,
    concurrency: Annotated[int, typer.Option(min=1, max=256, help="Tasks of the core queues that run at once.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print errors as JSON.")] = False,
) -> None:
    """Serve queues, in the foreground; settings other than these come from the environment."""
    from workers.settings import Settings

    given: dict[str, Any] = {"queues": queues, "concurrency": concurrency}
    if broker is not None:
        given["broker_url"] = broker
    try:
        settings = Settings(**given)
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0]) if first["loc"] else "settings"
        raise InvalidInput(f"{name}: {first['msg']}", field=name, value=str(first.get("input"))) from error
    serve(settings)


def serve(settings: Any) -> None:
    """Run the worker until SIGTERM or SIGINT."""
    from workers.app import create_app

    app = create_app(settings)
    app.worker_main(
        [
            "worker", "--pool", "prefork", "--concurrency", str(settings.concurrency), "--loglevel", settings.log_level,
            "--hostname", f"{'+'.join(settings.queues)[:60]}-{os.getpid()}@%h", "--without-gossip", "--without-mingle",
        ]
    )
