"""A hostile library, really loaded in a session of a device: it finds nothing."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from rpc_device import RpcDevice
from tvm import rpc

pytestmark = pytest.mark.parallel
SOURCE = Path(__file__).parents[2] / "helpers" / "hostile.c"
SECRETS = {
    "TUNESMITH_ADMIN_KEY": "admin",
    "TUNESMITH_BROKER_URL": "redis://:secret@h",
    "TUNESMITH_DATABASE_URL": "postgresql://",
}
DEEDS = {
    "secret",
    "list",
    "environ",
    "mem",
    "own environ",
    "connect",
    "redirect",
    "fast open",
    "kill",
    "ptrace",
    "fork",
    "write",
    "memory",
}


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RpcDevice]:
    made = RpcDevice(tmp_path_factory.mktemp("device"), env=SECRETS)
    yield made
    made.stop()


@pytest.fixture
def session(device: RpcDevice) -> rpc.RPCSession:
    host, _, port = device.tracker.partition(":")
    return rpc.connect_tracker(host, int(port)).request(device.key, session_timeout=60)


def hostile_library(folder: Path, port: int) -> Path:
    data = folder / "data"
    data.mkdir()
    data.chmod(0o755)
    (data / "secret_key").write_text("secret")
    (data / "secret_key").chmod(0o644)
    given = [f"-DSECRET={quoted(data / 'secret_key')}", f"-DFOLDER={quoted(data)}", f"-DPORT={port}"]
    out = folder / "hostile.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", *given, "-o", str(out), str(SOURCE)], check=True, timeout=60)
    return out


def quoted(path: Path) -> str:
    return f'"{path}"'


def test_a_hostile_candidate_reaches_nothing_and_the_device_lives_on(
    device: RpcDevice, session: rpc.RPCSession, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        library = hostile_library(tmp_path, server.getsockname()[1])
        session.upload(bytearray(library.read_bytes()), "hostile.so")
        session.load_module("hostile.so")
    lines = bytes(session.download("report")).decode().splitlines()
    assert [name for name in DEEDS if not any(line.startswith(f"{name} ") for line in lines)] == []
    assert [line for line in lines if line.endswith("reached")] == []
    assert not (tmp_path / "data" / "written").exists()
    assert device.processes["rpc_server"].poll() is None


def test_no_secret_is_in_the_process_that_sessions_are_forked_from(device: RpcDevice) -> None:
    given = psutil.Process(device.processes["rpc_server"].pid).environ()
    assert not {name for name in given if name.startswith("TUNESMITH_")}
