"""``tunesmith device serve``."""

from __future__ import annotations

from typing import Annotated

import typer

from tunesmith.errors import InvalidInput


def serve(
    key: Annotated[str, typer.Option(help="The device's key at the tracker.", envvar="TUNESMITH_DEVICE_KEY")],
    tracker: Annotated[str, typer.Option(help="HOST:PORT of the tracker.", envvar="TUNESMITH_TRACKER")],
    host: Annotated[
        str, typer.Option(help="Address to listen on. Clients run code here: use trusted networks only.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 picks a free one.")] = 0,
    address: Annotated[str | None, typer.Option(help="Address for clients to connect to.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print errors as JSON.")] = False,
) -> None:
    """Serve this machine's device through an RPC tracker, in the foreground."""
    if not tracker.rpartition(":")[2].isdigit():
        raise InvalidInput(f"--tracker must be HOST:PORT, not {tracker!r}", field="tracker", value=tracker)
    from workers.tvm_backend.run.rpc_server import serve as serve_forever

    serve_forever(tracker, key, host, port, address)
