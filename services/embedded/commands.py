"""``tunesmith up``."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from services.embedded.announce import Announcer

LAST_STEP = "until a device reports"


def up(
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of the API and the dashboard; 0 picks a free one.")
    ] = 8700,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    data_dir: Annotated[Path, typer.Option(help="Database, blobs and logs.", envvar="TUNESMITH_DATA_DIR")] = Path(
        ".tunesmith"
    ),
    workers: Annotated[
        int, typer.Option(min=1, max=64, help="Number of processes that propose (half of them), import and train.")
    ] = 2,
    detach: Annotated[
        bool,
        typer.Option("--detach", help="Return when the stack is ready; control it with 'tunesmith status' and 'down'."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    with_parent: Annotated[
        bool, typer.Option("--with-parent", hidden=True, help="Stop when standard input ends.")
    ] = False,
    detached: Annotated[
        bool, typer.Option("--detached", hidden=True, help="Write a log line when the stack is ready.")
    ] = False,
) -> None:
    """Run the whole service on this machine, in the foreground or detached; Ctrl-C stops every process."""
    from services.embedded.announce import ForPeople, ForPrograms

    if detach:
        _detach(data_dir, port, ("--host", host, "--workers", str(workers)), as_json)
        return
    announcer = ForPrograms(with_parent or detached, detached) if as_json else ForPeople()
    try:
        _run(data_dir, host, port, workers, announcer, with_parent)
    finally:
        announcer.close()


def _run(data_dir: Path, host: str, port: int, workers: int, announcer: Announcer, with_parent: bool) -> None:
    from services.coordinator.settings import Settings
    from services.embedded.announce import unfinished
    from services.embedded.connection import connection_file
    from services.embedded.lock import data_dir_lock
    from services.embedded.net import claim_port
    from services.embedded.scratch import scratch
    from services.embedded.specs import StackOptions, children
    from services.embedded.supervisor import Supervisor
    from tunesmith.data_folder import prepare

    settings = Settings(host=host, port=port)
    settings.check()
    key = settings.admin_key.get_secret_value() if settings.admin_key else None
    folder = prepare(data_dir, settings.umask)
    options = StackOptions(folder, host, claim_port(host, port), workers)
    with data_dir_lock(folder, options.url) as killed, scratch(folder) as temporary:
        specs = children(options, temporary)
        names = [spec.name for spec in specs]
        announcer.begin(names, folder)

        def started(name: str) -> None:
            announcer.started(name)
            names.remove(name)
            if not names:
                announcer.started(LAST_STEP)

        supervisor = Supervisor(
            specs,
            folder / "logs",
            ready=lambda: is_ready(options.url, key),
            on_ready=lambda: announcer.ready(options.url, unfinished(options.url, key, killed)),
            watch=sys.stdin.fileno() if with_parent else None,
            on_start=started,
            on_stop=announcer.stopping,
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


def _detach(data_dir: Path, port: int, options: tuple[str, ...], as_json: bool) -> None:
    """Start a stack that outlives this process, and say where it is once it is ready."""
    from tunesmith.cli.output import place, rows
    from tunesmith.cli.progress import shown
    from tunesmith.cli.resumed import resumed
    from tunesmith.client.embedded import EmbeddedStack

    names: list[str] = []
    stack = EmbeddedStack(data_dir, port, options=options)
    with shown("starting", as_json) as display:

        def step(name: str) -> None:
            names.append(name)
            display.phase("starting", name)

        found = stack.detach(on_step=step)
    if as_json:
        print(json.dumps(found), flush=True)
        return
    print(
        rows(
            [
                ("ready", f"{found['url']} (dashboard at /, API at /docs)"),
                *(("resumed", resumed(job)) for job in found["resumed"]),
                ("started", ", ".join(name for name in names if name != LAST_STEP)),
                ("process", str(found["pid"])),
                ("data", place(found["data_dir"])),
                ("end it", f"tunesmith down --data-dir {shlex.quote(str(data_dir))}"),
            ]
        ),
        flush=True,
    )
