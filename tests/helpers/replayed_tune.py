"""``tunesmith tune`` against a recorded stack: ``python -m replayed_tune ARGUMENTS``, every phase within a second."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import httpx2
from answers import completed

from tunesmith.cli import main, progress, tune
from tunesmith.client import Client

STEP = 0.02
URL = "http://127.0.0.1:8700"
PROCESSES = ("redis", "coordinator", "tracker", "device", "measure", "record", "search", "ingest", "train")
RESUMED = {
    "id": "j-00112233445566aa",
    "name": "efficientnet_lite4_quantized.onnx",
    "trials": 1234,
    "trials_budget": None,
    "killed": True,
}
LONG_WAIT = {
    "device_class": "nvidia-h100-sm_90a-132",
    "resting": "worker-7/host-with-a-long-name, NVIDIA H100 80GB",
    "reason": "its last five candidates took it down",
}


def job(state: str, trials: int = 0, current: float | None = None, **values: Any) -> dict[str, Any]:
    """A job of 10,000 trials on 23 tasks."""
    running = state == "running"
    progress = {
        "trials": trials,
        "trials_budget": 10000,
        "seconds": trials / 3,
        "seconds_budget": 7200.0,
        "eta_seconds": 7200.0 - trials / 3 if running else None,
        "tasks": 30,
        "tasks_tunable": 23,
        "tasks_measured": 23 if current else min(22, trials // 100),
    }
    latency = {"untuned": 0.2463, "current": current, "speedup": current and 0.2463 / current}
    return {
        "id": "j-ffeeddccbbaa9988",
        "state": state,
        "target": "cpu",
        "progress": progress,
        "latency": latency,
        **values,
    }


STATES = [
    job("queued", waiting_for={"model": "m-1"}),
    job("preparing"),
    job("running"),
    job("running", 640),
    job("running", 2300, 0.0131),
    job("running", 2300, 0.0131, waiting_for=LONG_WAIT),
    job("paused", 2300, 0.0131),
    job("running", 9876, 0.00000123),
    job("finishing", 10000, 0.00000123),
    job("succeeded", 10000, 0.00000123),
]
TASK = {
    "id": 1,
    "name": "fused_conv2d_add_relu",
    "weight": 1,
    "workload": "w",
    "trials": 9,
    "best_latency": 1e-6,
    "untuned_latency": 2e-6,
    "verified": {"error": 1e-7},
}


def _answers() -> Callable[[httpx2.Request], httpx2.Response]:
    states = list(STATES)

    def answer(request: httpx2.Request) -> httpx2.Response:
        path = request.url.path
        if path.endswith("/tasks"):
            body: Any = {"items": [TASK], "next_cursor": None}
        elif path == "/v1/devices":
            body = {"items": [{"name": "d", "device_classes": ["llvm-x-2"], "alive": True}], "next_cursor": None}
        elif request.method == "GET":
            time.sleep(STEP)
            body = states.pop(0) if len(states) > 1 else states[0]
        else:
            body = states[0]
        return httpx2.Response(200, json=body)

    return answer


class RecordedStack:
    """Starts nothing."""

    url = URL
    resumed = (RESUMED,)

    def __init__(self, data_dir: Any, on_step: Callable[[str], None]) -> None:
        self._on_step = on_step

    def __enter__(self) -> RecordedStack:
        for name in PROCESSES:
            self._on_step(name)
            time.sleep(STEP)
        return self

    def __exit__(self, *error: object) -> None:
        time.sleep(STEP)


def prepare() -> None:
    """Replace the stack, the network and the pauses."""
    answer = _answers()

    def connect(url: str, key: str | None = None) -> Client:
        return Client(url, key, transport=httpx2.MockTransport(lambda request: completed(request, answer(request))))

    tune.EmbeddedStack, tune.Client = RecordedStack, connect  # type: ignore[misc,assignment]
    progress.POLL = STEP


if __name__ == "__main__":
    prepare()
    sys.exit(main.run_command_line(["tune", "gemm:64x64x64:float32", "--embedded", *sys.argv[1:]]))
