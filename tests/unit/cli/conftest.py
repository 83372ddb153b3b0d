"""A server that answers the command line from a table."""

from __future__ import annotations

import json

import httpx2
import pytest
from answers import completed

from tunesmith.cli import main, tune
from tunesmith.client import Client, exchange
from tunesmith.errors import NotFound


@pytest.fixture
def quick(monkeypatch):
    """No pauses, and no settings of whoever runs the tests."""
    monkeypatch.setattr(exchange, "FIRST_PAUSE", 0.0)
    monkeypatch.setattr("tunesmith.cli.progress.POLL", 0.0)
    for name in ("TUNESMITH_SERVER", "TUNESMITH_KEY", "TUNESMITH_DATA_DIR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def server(monkeypatch):
    """Answers by ``METHOD path``; a list is used up, its last answer stays."""
    answers, seen = {}, []

    def handler(request):
        seen.append(request)
        key = f"{request.method} {request.url.path}"
        if key not in answers:
            return httpx2.Response(404, json=NotFound(f"no {key}").problem())
        answer = answers[key]
        if isinstance(answer, list):
            answer = answer.pop(0) if len(answer) > 1 else answer[0]
        return answer if isinstance(answer, httpx2.Response) else completed(request, httpx2.Response(200, json=answer))

    def connect(url, key=None):
        return Client(url or "http://server", key, transport=httpx2.MockTransport(handler))

    for module in (
        "jobs",
        "best",
        "costmodels",
        "devices",
        "keys",
        "models",
        "propose",
        "records",
        "trials",
        "workloads",
    ):
        monkeypatch.setattr(f"tunesmith.cli.{module}.connect", connect)
    monkeypatch.setattr(tune, "Client", connect)
    answers["seen"] = seen
    return answers


@pytest.fixture
def run(capsys):
    """Runs a command line: its status, what it printed (with ``--json`` as objects), and standard error."""

    def command(*arguments):
        status = main.run_command_line(arguments)
        out, err = capsys.readouterr()
        return status, [json.loads(line) for line in out.splitlines()] if "--json" in arguments else out, err

    return command
