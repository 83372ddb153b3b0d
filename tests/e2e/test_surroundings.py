"""A working folder full of files that are called like libraries, a strange data folder, a terminal without Unicode."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path

import pytest
from stack_probe import WORDS, children, nothing_left, wait_for

pytestmark = [pytest.mark.stack, pytest.mark.timeout(400)]
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


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    for name in NAMES:
        trap = f"open({str(tmp_path / 'sprung')!r}, 'a').write({name!r} + chr(10)); raise ImportError('a trap')"
        (folder / f"{name}.py").write_text(trap)
    return folder


@pytest.fixture
def env(stack_env: dict[str, str]) -> dict[str, str]:
    given = {key: value for key, value in stack_env.items() if not key.startswith(("LC_", "PYTHON"))}
    return given | ASCII | {"AWS_SECRET_ACCESS_KEY": "x", "http_proxy": "http://u:p@127.0.0.1:1", "no_proxy": "*"}


def start(hostile: Path, env: dict[str, str], *arguments: str) -> subprocess.Popen[bytes]:
    command = [Path(sys.executable).with_name("tunesmith"), *arguments]
    return subprocess.Popen(command, cwd=hostile, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def environment(data: Path, name: str) -> bytes:
    """Of a child that runs; empty while there is none."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return b"".join((Path("/proc") / str(pid) / "environ").read_bytes() for pid in children(data, name)[:1])
    return b""


def test_a_model_is_tuned_there(hostile: Path, env: dict[str, str], tmp_path: Path) -> None:
    data = hostile / STRANGE
    arguments = ["tune", "gemm:64x64x64:float32", "--trials", "4", "--cost-model", "none", "--data-dir", STRANGE]
    process = start(hostile, env, *arguments, "--out", "out", "--embedded")
    try:
        seen = {name: wait_for(lambda: environment(data, name), f"{name} to run", 120.0) for name in WORDS}  # noqa: B023
        output, errors = process.communicate(timeout=300)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 0, errors
    (output + errors).decode("ascii")
    assert not (tmp_path / "sprung").exists(), (tmp_path / "sprung").read_text()
    assert not [(name, secret) for name, found in seen.items() for secret in SECRETS if secret in found]
    assert b"TUNESMITH_BROKER_URL=" in seen["measure"]
    assert b"TUNESMITH_BROKER_URL=" not in seen["device"] + seen["tracker"] + seen["redis"]
    assert nothing_left(data, 30.0)
    assert {path.name for path in hostile.iterdir() if path.suffix != ".py"} == {STRANGE, "out"}
    loose = [path for path in [data, *data.rglob("*")] if path.stat().st_mode & 0o077]
    assert not loose


def test_the_doctor_works_there(hostile: Path, env: dict[str, str], tmp_path: Path) -> None:
    (hostile / "tunesmith.py").unlink()  # `python -m` finds that one before any code of ours runs
    command = [sys.executable, "-m", "tunesmith.cli", "doctor"]
    done = subprocess.run(command, cwd=hostile, env=env, capture_output=True, timeout=200, check=False)
    assert b"Traceback" not in done.stderr
    assert b"compiles, links and runs" in done.stdout
    (done.stdout + done.stderr).decode("ascii")
    assert not (tmp_path / "sprung").exists(), (tmp_path / "sprung").read_text()
