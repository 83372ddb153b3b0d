"""Write the synchronous client from the asynchronous one: ``python -m tools.sync_client``.

Both send the same requests. ``tunesmith/client/aio/`` is written by hand. Of each module there, except for those with a
hand-written counterpart, ``tunesmith/client/`` gets one without ``async`` and ``await``. A test says when it is stale.
psycopg and httpcore make their clients likewise.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TO = ROOT / "tunesmith" / "client"
FROM = TO / "aio"
BY_HAND = {"__init__.py", "waiting.py"}
"""Modules that both have, and that differ in more than words."""
MARK = "# Written by `python -m tools.sync_client` from tunesmith/client/aio/{name}.\n"
WORDS = {
    "AsyncBaseTransport": "BaseTransport",
    "AsyncClient": "Client",
    "AsyncGenerator": "Generator",
    "AsyncIterable": "Iterable",
    "AsyncIterator": "Iterator",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "aclose": "close",
    "aclosing": "closing",
    "aiter_bytes": "iter_bytes",
    "aiter_lines": "iter_lines",
    "aread": "read",
    "asynccontextmanager": "contextmanager",
}
PHRASES = [
    (r"\bAwaitable\[(Page\[T\])\]", r"\1"),
    (r"\btunesmith\.client\.aio\b", "tunesmith.client"),
    (r"\ban ``async with``", "a ``with``"),
    (r"\b(?:async|await) ", ""),
    (rf"\b(?:{'|'.join(WORDS)})\b", lambda found: WORDS[found[0]]),
]
TIDY = ("check", "--quiet", "--fix", "--unsafe-fixes", "--select", "I,F401,UP028,C416")
"""What needed more without ``await``: imports, loops that only yield, comprehensions that only copy."""


def modules() -> Iterator[Path]:
    """The modules that both clients have."""
    return (path for path in sorted(FROM.glob("*.py")) if path.name not in BY_HAND)


def synchronous(path: Path) -> str:
    """The synchronous counterpart of a module."""
    text = MARK.format(name=path.name) + path.read_text("utf-8")
    for pattern, by in PHRASES:
        text = re.sub(pattern, by, text)
    name = str(TO / path.name)
    for command in (TIDY, ("format", "--quiet")):
        ruff = [sys.executable, "-m", "ruff", *command, "--stdin-filename", name, "-"]
        text = subprocess.run(ruff, input=text, capture_output=True, text=True, check=True, timeout=60, cwd=ROOT).stdout
    return text


def main() -> None:
    """Write every module."""
    for path in modules():
        (TO / path.name).write_text(synchronous(path), "utf-8")


if __name__ == "__main__":
    main()
