"""An RPC tracker in this process: ``python -m workers.tvm_backend.run.tracker --port 9190``.

TVM's own entry point starts a second process that outlives its parent; this one is a single process, takes port 0
for any free port, and prints ``{"port": N}`` on a line of its own once it listens.
"""

from __future__ import annotations

import argparse
import json
import os
import socket

from workers.tvm_backend.warm import import_tvm


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes any free one.

    Raises:
        OSError: when the address is taken or is not this host's.
    """
    family = socket.getaddrinfo(host, port, 0, socket.SOCK_STREAM)[0][0]
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind((host, port))
    sock.listen(128)
    return sock


def prompt(sock: socket.socket) -> None:
    """Let a connection with a tracker, or all that a listening socket accepts, send at once.

    TVM's messages are written in two parts, a length and a text; otherwise the second part waits for the first one's
    acknowledgement, 40 ms.
    """
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def announce(sock: socket.socket) -> int:
    """Print the socket's port as one line of JSON and return it."""
    port = int(sock.getsockname()[1])
    print(json.dumps({"port": port}), flush=True)
    return port


def main(argv: list[str] | None = None) -> None:
    """Serve until killed."""
    parser = argparse.ArgumentParser(prog="tracker", description="RPC tracker: hands devices to clients")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=9190, help="0 takes any free port")
    options = parser.parse_args(argv)
    os.environ["TVM_USE_RUNTIME_LIB"] = "1"  # it compiles nothing, and starts in half the time
    import_tvm()
    from tvm.rpc import base, tracker

    with listen(options.host, options.port) as sock:
        prompt(sock)
        announce(sock)
        tracker._tracker_server(sock, base.random_key("tracker"))


if __name__ == "__main__":
    main()
