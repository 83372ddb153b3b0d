"""Ports and the coordinator's health, with the standard library only."""

from __future__ import annotations

import json
import socket
import urllib.error
import urllib.request
from typing import Any

from tunesmith.errors import StackFailed


def free_port(host: str = "127.0.0.1") -> int:
    """A port that nobody uses now."""
    with socket.create_server((host, 0)) as server:
        return int(server.getsockname()[1])


def claim_port(host: str, port: int) -> int:
    """``port`` when it can be listened on, a free one for 0.

    Raises:
        StackFailed: when it is in use or the address is not this machine's.
    """
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.create_server((host, port), family=family) as server:
            return int(server.getsockname()[1])
    except OSError as error:
        raise StackFailed(
            f"cannot listen on {host}:{port}: {error.strerror or error}; give another port with --port, or 0 for a "
            "free one",
            field="port",
            value=port,
        ) from error


def accepts(port: int, host: str = "127.0.0.1") -> bool:
    """True when something accepts connections there."""
    try:
        with socket.create_connection((host, port), timeout=0.5):
            return True
    except OSError:
        return False


def get_json(url: str, key: str | None = None, timeout: float = 2.0) -> Any:
    """The JSON at a URL, None when it answers anything but success."""
    request = urllib.request.Request(url)
    if key:
        request.add_header("Authorization", f"Bearer {key}")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=timeout) as response:
            return json.load(response)
    except (OSError, ValueError, urllib.error.URLError):
        return None
