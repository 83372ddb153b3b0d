"""A working folder full of files that are called like libraries, a strange data folder, a terminal without Unicode."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping
from pathlib import Path

from stack_probe import WORDS, children, wait_for

NAMES = (
    "numpy",
    "tvm",
    "json",
    "celery",
    "sitecustomize",
    "usercustomize",
    "typing",
    "sqlalchemy",
    "logging",
    "pydantic",
    "kombu",
    "celeryconfig",
    "redis",
    "xgboost",
    "uvicorn",
    "random",
    "ctypes",
    "structlog",
    "typer",
    "tunesmith",
)
STRANGE = "data of 'é' \"#%41?"
TUNESMITH = Path(sys.executable).with_name("tunesmith")
"""The command as users start it: ``python -m`` finds a folder's own ``tunesmith.py`` before any code of ours runs."""
SECRETS = (b"TUNESMITH_SECRET_KEY=", b"TUNESMITH_DATABASE_URL=", b"AWS_SECRET_ACCESS_KEY=", b"http_proxy=")
ASCII = {
    "LANG": "C",
    "LC_ALL": "C",
    "PYTHONIOENCODING": "ascii",
    "PYTHONUTF8": "0",
    "PYTHONCOERCECLOCALE": "0",
    "TERM": "dumb",
    "COLUMNS": "40",
}


def hostile(above: Path) -> Path:
    """A working folder below ``above``, in which every import of its files is noted and fails."""
    folder = above / "work"
    folder.mkdir()
    for name in NAMES:
        trap = f"open({str(above / 'sprung')!r}, 'a').write({name!r} + chr(10)); raise ImportError('a trap')"
        (folder / f"{name}.py").write_text(trap)
    return folder


def sprung(folder: Path) -> str:
    """The files of a hostile folder that were imported."""
    note = folder.parent / "sprung"
    return note.read_text() if note.exists() else ""


def without_unicode(env: Mapping[str, str]) -> dict[str, str]:
    """An environment where nothing but ASCII can be written, with secrets that no process of a stack should be told."""
    given = {key: value for key, value in env.items() if not key.startswith(("LC_", "PYTHON"))}
    return given | ASCII | {"AWS_SECRET_ACCESS_KEY": "x", "http_proxy": "http://u:p@127.0.0.1:1", "no_proxy": "*"}


def environments(data: Path) -> dict[str, bytes]:
    """Of each child of a stack, once it runs."""
    return {name: wait_for(lambda: _environment(data, name), f"{name} to run", 120.0) for name in WORDS}  # noqa: B023


def _environment(data: Path, name: str) -> bytes:
    """Of a child that runs; empty while there is none."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return b"".join((Path("/proc") / str(pid) / "environ").read_bytes() for pid in children(data, name)[:1])
    return b""


def told_secrets(seen: Mapping[str, bytes]) -> list[tuple[str, bytes]]:
    """What is in an environment that should not be there: secrets, and the broker's URL where no message is sent."""
    found = [(name, secret) for name, given in seen.items() for secret in SECRETS if secret in given]
    assert b"TUNESMITH_BROKER_URL=" in seen["measure"]
    broker = b"TUNESMITH_BROKER_URL="
    return found + [(name, broker) for name in ("device", "tracker", "redis") if broker in seen[name]]


def open_to_others(data: Path) -> list[Path]:
    """Files and folders of a stack's data that others than their owner may use."""
    return [path for path in (data, *data.rglob("*")) if path.stat().st_mode & 0o077]
