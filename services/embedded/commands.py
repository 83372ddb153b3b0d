"""``tunesmith up``."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer


def up(
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of the API and the dashboard; 0: a free one.")
    ] = 8700,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    data_dir: Annotated[Path, typer.Option(help="Database, blobs and logs.", envvar="TUNESMITH_DATA_DIR")] = Path(
        ".tunesmith"
    ),
    workers: Annotated[int, typer.Option(min=1, max=64, help="Processes that propose (half), import and train.")] = 2,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    with_parent: Annotated[
        bool, typer.Option("--with-parent", hidden=True, help="Stop when standard input ends.")
    ] = False,
) -> None:
    """Run the whole service on this machine, in the foreground; Ctrl-C stops every process."""
    from services.coordinator.settings import Settings
    from services.embedded.connection import connection_file
    from services.embedded.lock import data_dir_lock
    from services.embedded.net import claim_port
    from services.embedded.scratch import scratch
    from services.embedded.specs import StackOptions, children
    from services.embedded.supervisor import Supervisor
    from tunesmith.data_folder import prepare

    settings = Settings(host=host, port=port)
    settings.check()
    folder = prepare(data_dir, settings.umask)
    options = StackOptions(folder, host, claim_port(host, port), workers)
    key = settings.admin_key.get_secret_value() if settings.admin_key else None
    with data_dir_lock(folder, options.url), scratch(folder) as temporary:
        specs = children(options, temporary)
        supervisor = Supervisor(
            specs,
            folder / "logs",
            ready=lambda: is_ready(options.url, key),
            on_ready=lambda: _announce(options.url, folder, as_json),
            watch=sys.stdin.fileno() if with_parent else None,
        )
        envs = {spec.name: spec.env for spec in specs}
        with connection_file(folder, envs["record"], envs["measure"]):
            supervisor.run()


def is_ready(url: str, key: str | None) -> bool:
    """True when the coordinator has all that it needs and a device has reported."""
    from services.embedded.net import get_json

    if get_json(f"{url}/readyz") is None:
        return False
    answer: Any = get_json(f"{url}/v1/devices", key)
    items = answer.get("items", []) if isinstance(answer, dict) else answer or []
    return any(device.get("alive", True) for device in items)


def _announce(url: str, folder: Path, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"url": url, "pid": os.getpid(), "data_dir": str(folder)}), flush=True)
    else:
        print(
            f"Tunesmith is up at {url} (dashboard at /, API at /docs); data and logs in {folder}. Ctrl-C stops it.\n"
            f"Another worker of this machine joins with: tunesmith worker --join {folder}",
            flush=True,
        )
