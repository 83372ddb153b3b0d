"""A target that no device of the fleet is: the job waits, and goes on when a simulated device joins."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from io import BytesIO

import httpx2
import pytest
from stack_probe import wait_for

from tunesmith.cli.main import run
from tunesmith.states import JobState

pytestmark = pytest.mark.stack
CLASS = "nvidia-nvidia-h100"
GEMM = "gemm:256x256x256:float32"
WAIT = 180.0


@contextlib.contextmanager
def simulated_device(stack, env) -> Iterator[subprocess.Popen[bytes]]:
    """A measure worker of the stack, without a device."""
    own = {**env, "TUNESMITH_SIMULATE": "1", "TUNESMITH_DEVICE_CLASSES": CLASS}
    command = [sys.executable, "-m", "tunesmith.cli", "worker", "--queues", "measure", "--join", str(stack.data_dir)]
    with (stack.data_dir / "logs" / "simulated.log").open("wb") as log:
        process = subprocess.Popen(command, env=own, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def test_a_waiting_job_goes_on_when_a_simulated_device_joins(stack, client, stack_env, capsys):
    facts = stack.data_dir / "connection.json"
    assert facts.stat().st_mode & 0o777 == 0o600

    job = client.submit(operator=GEMM, target="nvidia/nvidia-h100", trials=4, search="random", cost_model="none")
    wait_for(lambda: client.job(job.id).waiting_for == {"device_class": CLASS}, "the job to wait", WAIT)
    queue = f"measure.{CLASS}"
    queues = {}

    def queued():
        queues.update({item["name"]: item for item in httpx2.get(stack.url + "/v1/queues").json()["items"]})
        return queues.get(queue, {}).get("messages")

    wait_for(queued, "a batch in the queue of the class", WAIT)
    assert queues[queue]["waiting"] == 1
    assert client.job(job.id).progress.trials == 0

    other = client.submit(operator=GEMM, target="nvidia/nvidia-h100", trials=4, search="random", cost_model="none")
    wait_for(lambda: client.job(other.id).waiting_for == {"device_class": CLASS}, "the other job to wait", WAIT)
    client.cancel(other.id)
    assert client.wait(other.id, timeout=WAIT).state is JobState.CANCELLED

    with simulated_device(stack, stack_env):
        done = client.wait(job.id, timeout=WAIT)
        assert done.state is JobState.SUCCEEDED, done.error
        device = next(item for item in client.devices() if CLASS in item.device_classes)
        assert device.alive
        assert device.simulated

    # What came of it says what it is, everywhere.
    assert done.simulated
    assert done.waiting_for is None
    assert done.progress.trials == 4
    assert (done.latency.source, done.latency.output_error) == ("simulated", None)
    trials = httpx2.get(f"{stack.url}/v1/jobs/{job.id}/trials").json()["items"]
    built = [trial for trial in trials if trial["failure"] is None]
    assert built, [trial["message"] for trial in trials]
    assert all(trial["build_seconds"] > 0 for trial in built)
    assert all(trial["environment"]["simulated"] for trial in trials)
    (line,) = client.best(job.id)
    assert line["target"]["tag"] == "nvidia/nvidia-h100"
    assert line["provenance"]["simulated"]
    assert line["verified"] is None
    archive = httpx2.get(f"{stack.url}/v1/jobs/{job.id}/best", params={"format": "metaschedule"}).content
    assert "simulated" in zipfile.ZipFile(BytesIO(archive)).read("README.md").decode().lower()
    assert httpx2.get(f"{stack.url}/v1/workloads/{trials[0]['workload']}/best").status_code == 404
    assert run(["jobs", "show", job.id, "--server", stack.url]) == 0
    assert "invented" in capsys.readouterr().out


def test_a_worker_without_a_cuda_compiler_refuses_its_class(stack, stack_env, tmp_path):
    (tmp_path / "nvidia").mkdir()
    (tmp_path / "nvidia" / "__init__.py").touch()  # hides the packages of NVRTC
    path = os.pathsep.join([str(tmp_path), *(entry for entry in sys.path if entry)])
    env = {**stack_env, "PATH": "/nowhere", "PYTHONPATH": path, "TUNESMITH_DEVICE_CLASSES": CLASS}
    command = [sys.executable, "-m", "tunesmith.cli", "worker", "--queues", "measure", "--json", "--join"]
    done = subprocess.run([*command, str(stack.data_dir)], env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    problem = json.loads(done.stdout)
    assert problem["code"] == "missing_dependency"
    assert "nvcc" in problem["detail"]
    assert "tunesmith[cuda]" in problem["detail"]
