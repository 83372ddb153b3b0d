"""The containers and units, checked without an engine: schema, linter, and every name in them against the code."""

from __future__ import annotations

import functools
import importlib.resources
import importlib.util
import json
import os
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import redis
import settings_classes
import yaml
from redis_process import address, redis_server

from tunesmith import broker_users

ROOT = Path(__file__).resolve().parents[3]
COMPOSE = ROOT / "docker-compose.yml"
DOCKERFILES = sorted((ROOT / "deploy").glob("*.Dockerfile"))
UNITS = sorted((ROOT / "deploy" / "systemd").glob("*.service"))
SECRETS = {
    "TUNESMITH_ADMIN_KEY",
    "TUNESMITH_ENROLMENT_KEY",
    "TUNESMITH_SECRET_KEY",
    "POSTGRES_PASSWORD",
    "REDIS_PASSWORD",
    "REDIS_READS_PASSWORD",
    "REDIS_REPORTS_PASSWORD",
}
VARIABLE = re.compile(r"(?<!\$)\$\{(\w+)(?::([-?])([^}]*))?\}")


@functools.cache
def compose() -> dict[str, Any]:
    return yaml.safe_load(COMPOSE.read_text("utf-8"))


def example() -> dict[str, str]:
    lines = (ROOT / ".env.example").read_text("utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def instructions(dockerfile: Path) -> list[tuple[str, str]]:
    """``(instruction, arguments)`` with continuation lines joined and comments left out."""
    lines = [line for line in dockerfile.read_text("utf-8").splitlines() if line.strip() and not line.startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    return [(name.upper(), rest.strip()) for name, _, rest in (line.partition(" ") for line in joined.splitlines())]


def commands() -> Iterator[tuple[str, list[str]]]:
    for name, service in compose()["services"].items():
        if "build" in service and "command" in service:
            yield f"compose:{name}", [VARIABLE.sub(r"\3", word) for word in service["command"]]
    for dockerfile in DOCKERFILES:
        yield dockerfile.name, json.loads(next(rest for name, rest in instructions(dockerfile) if name == "CMD"))
    for unit in UNITS:
        line = re.search(r"^ExecStart=(.*)$", unit.read_text("utf-8"), re.MULTILINE)
        assert line is not None
        yield unit.name, ["tunesmith", *shlex.split(line.group(1))[1:]]


COMMANDS = dict(commands())


def test_compose_file_follows_the_compose_specification() -> None:
    vendored = importlib.resources.files("check_jsonschema") / "builtin_schemas" / "vendor" / "compose-spec.json"
    jsonschema.validate(compose(), json.loads(vendored.read_text("utf-8")))


def test_every_part_of_the_stack_is_a_service() -> None:
    assert set(compose()["services"]) == {
        "coordinator",
        "core",
        "ingest",
        "record",
        "measure",
        "tracker",
        "device",
        "redis",
        "postgres",
    }


@pytest.mark.parametrize("name", compose()["services"])
def test_each_service_restarts_stops_gracefully_and_is_watched(name: str) -> None:
    service = compose()["services"][name]
    assert service["restart"] == "unless-stopped"
    assert "build" in service or "healthcheck" in service  # our own images carry a healthcheck
    assert service.get("stop_grace_period") or name in ("tracker", "device")
    assert name in ("coordinator",) or service["networks"] == ["inside"]
    for other, condition in service.get("depends_on", {}).items():
        assert other in compose()["services"]
        assert condition["condition"] in ("service_healthy", "service_started")
    for volume in service.get("volumes", []):
        assert volume.split(":")[0] in compose()["volumes"]


def test_only_core_services_and_the_coordinator_know_the_database() -> None:
    knows = {n for n, s in compose()["services"].items() if "TUNESMITH_DATABASE_URL" in s.get("environment", {})}
    assert knows == {"coordinator", "core", "ingest", "record"}
    blobs = {n for n, s in compose()["services"].items() if any(v.startswith("blobs:") for v in s.get("volumes", []))}
    assert blobs == knows


def test_redis_tells_the_services_apart(tmp_path: Path) -> None:
    """The users that the container writes are those of the code, and a real server takes them."""
    service = compose()["services"]["redis"]
    board = broker_users.measuring("board", ["llvm-a-1"])
    env = {"REDISCLI_AUTH": "c", "READS": "r", "REPORTS": "p", "WORKERS": ";".join(user.line for user in board)}
    assert set(env) == set(service["environment"])
    *_, script = service["command"]
    script = script.replace("$$", "$").replace("/tmp/", f"{tmp_path}/").replace("exec redis-server", "#")
    subprocess.run(["sh", "-euc", script], env={**os.environ, **env}, timeout=20, check=True)
    assert (tmp_path / "users.acl").stat().st_mode & 0o77 == 0
    lines = (tmp_path / "users.acl").read_text("utf-8").splitlines()
    own = zip(("c", "r", "p"), (broker_users.core(), *broker_users.measuring()), strict=True)
    assert lines == [
        broker_users.OFF,
        *(f"user {user.name} on >{password} {user.rights}" for password, user in own),
        *(user.line for user in board),
    ]
    with redis_server(tmp_path, lines) as url, redis.Redis.from_url(board[0].url(address(url))) as client:
        assert client.brpop(["tunesmith:measure.llvm-a-1"], 0.01) is None
    users = {
        name: {url.split(":")[1][2:] for key, url in s.get("environment", {}).items() if "redis://" in str(url)}
        for name, s in compose()["services"].items()
    }
    core = {name: {"core"} for name in ("coordinator", "core", "ingest", "record")}
    assert {name: found for name, found in users.items() if found} == {
        **core,
        "measure": {"measure-reads", "measure-reports"},
    }


def test_what_runs_candidates_is_told_no_secret() -> None:
    secret = re.compile(r"PASSWORD|_KEY:|BROKER_URL|REPORTS_URL|DATABASE_URL|ADMIN_KEY|SECRET_KEY")
    for name in ("tracker", "device"):
        assert not secret.search(yaml.safe_dump(compose()["services"][name].get("environment", {})))
    unit = (ROOT / "deploy/systemd/tunesmith-device.service").read_text("utf-8")
    files = re.findall(r"^EnvironmentFile=/etc/tunesmith/(.*)$", unit, re.MULTILINE)
    assert files == ["device.env"]
    assert not secret.search((ROOT / "deploy/systemd/device.env.example").read_text("utf-8"))


def test_secrets_are_required_and_never_written_down() -> None:
    uses = VARIABLE.findall(COMPOSE.read_text("utf-8"))
    assert {name for name, _, _ in uses} == set(example())
    assert {name for name, kind, _ in uses if kind == "?"} == SECRETS
    assert all(kind == "?" for name, kind, _ in uses if name in SECRETS)
    assert all(example()[name] == "" for name in SECRETS)


def test_make_env_fills_in_distinct_secrets() -> None:
    command = ["sh", "deploy/make-env.sh"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=20, check=True)
    made = dict(line.split("=", 1) for line in done.stdout.splitlines() if line and not line.startswith("#"))
    assert set(made) == set(example())
    assert len({made[name] for name in SECRETS}) == len(SECRETS)
    assert all(re.fullmatch(r"[0-9a-f]{64}", made[name]) for name in SECRETS)


@pytest.mark.parametrize("name", [n for n, s in compose()["services"].items() if "build" in s])
def test_every_setting_of_a_service_exists(name: str) -> None:
    service = compose()["services"][name]
    part = "services" if name == "coordinator" else "workers"
    given = {key for key in service.get("environment", {}) if key.startswith("TUNESMITH_")}
    assert given <= settings_classes.variables(part)


@pytest.mark.parametrize(
    "path", [*DOCKERFILES, *UNITS, *(ROOT / "deploy/systemd").glob("*.example")], ids=lambda p: p.name
)
def test_every_setting_in_a_file_exists(path: Path) -> None:
    given = set(re.findall(r"(?<!\$\{)\b(TUNESMITH_\w+)=", path.read_text("utf-8")))
    known = settings_classes.variables("services") | settings_classes.variables("workers")
    assert given - {"TUNESMITH_DEVICE_HOST"} <= known  # that one is the unit's own


@pytest.mark.parametrize("where", COMMANDS)
def test_every_command_exists(where: str) -> None:
    command = COMMANDS[where]
    if command[0] == "python":
        assert command[1] == "-m"
        module, words, start = command[2], command[3:], [sys.executable, "-m", command[2]]
        assert importlib.util.find_spec(module) is not None
        if module == "services.coordinator":  # configured by its environment alone
            assert words == []
            return
    else:
        assert command[0] == "tunesmith"
        split = next((i for i, word in enumerate(command) if word.startswith("-")), len(command))
        words, start = command[split:], [sys.executable, "-m", "tunesmith.cli", *command[1:split]]
    env = {**os.environ, "COLUMNS": "300", "TERM": "dumb", "NO_COLOR": "1"}
    done = subprocess.run([*start, "--help"], cwd=ROOT, capture_output=True, text=True, timeout=60, env=env)
    assert done.returncode == 0, done.stderr
    for word in words:
        if word.startswith("--"):
            assert re.search(rf"(?<![\w-]){word}(?![\w-])", done.stdout), f"{word} is no option of {start[3:]}"


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda p: p.name)
def test_dockerfile_passes_the_linter(dockerfile: Path) -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([hadolint, "--no-color", dockerfile], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda p: p.name)
def test_image_is_slim_unprivileged_pinned_and_watched(dockerfile: Path) -> None:
    parts = instructions(dockerfile)
    assert [rest for name, rest in parts if name == "FROM"] == ["python:3.11-slim-bookworm"]
    assert [rest for name, rest in parts if name == "USER"] == ["10001:10001"]
    assert any(name == "HEALTHCHECK" for name, _ in parts)
    install = next(rest for name, rest in parts if "pip install" in rest)
    assert "--constraint requirements/server.txt" in install
    extra = re.search(r"\.\[(\w+)\]", install)
    assert extra is not None
    assert re.search(rf"^{extra.group(1)} = \[", (ROOT / "pyproject.toml").read_text("utf-8"), re.MULTILINE)
    assert not any(re.search(r"KEY|PASSWORD|TOKEN", rest) for name, rest in parts if name in ("ENV", "ARG"))


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda p: p.name)
def test_what_is_copied_exists_and_is_sent_to_the_engine(dockerfile: Path) -> None:
    sent = {line[1:] for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines() if line.startswith("!")}
    for name, rest in instructions(dockerfile):
        if name != "COPY":
            continue
        for source in rest.split()[:-1]:
            assert (ROOT / source).exists(), source
            assert source in sent or source.split("/")[0] in sent, source


def test_coordinator_image_holds_no_worker_code() -> None:
    copied = [rest.split()[0] for name, rest in instructions(ROOT / "deploy/coordinator.Dockerfile") if name == "COPY"]
    assert not {"workers", "costmodels"} & set(copied)


def healthcheck(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, ROOT / "deploy/healthcheck.py", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, env={**os.environ, **env})


def test_healthcheck_follows_what_it_depends_on() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert healthcheck(f"127.0.0.1:{port}").returncode == 0
        assert healthcheck(TUNESMITH_BROKER_URL=f"redis://:secret@127.0.0.1:{port}/0").returncode == 0
    gone = healthcheck(f"127.0.0.1:{port}")
    assert gone.returncode == 1
    assert "does not accept connections" in gone.stdout
    refused = healthcheck(TUNESMITH_BROKER_URL=f"redis://:secret@127.0.0.1:{port}/0")
    assert refused.returncode == 1
    assert "secret" not in refused.stdout + refused.stderr


@pytest.mark.parametrize("unit", UNITS, ids=lambda p: p.name)
def test_unit_restarts_and_is_confined(unit: Path) -> None:
    text = unit.read_text("utf-8")
    for line in ("Restart=always", "NoNewPrivileges=yes", "User=tunesmith", "WantedBy=multi-user.target"):
        assert f"\n{line}\n" in text
