"""A convolution by two programs, from the upload to the compiled model."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from small_nets import Net, by_onnxruntime

from tunesmith.client import Client
from tunesmith.states import JobState

import tvm  # isort: skip
from tvm import relax  # isort: skip

pytestmark = pytest.mark.stack
SHAPE = (1, 3, 16, 16)
"""Too few channels for another algorithm than the direct one."""
WAIT = 240.0


def test_the_faster_of_two_convolutions_is_in_the_model(client: Client, tmp_path: Path) -> None:
    net = Net(*SHAPE)
    path = net.save(tmp_path / "net.onnx", net.op("Relu", net.conv(net.op("Relu", net.conv("x", 32)), 32)))
    model = client.wait_model(client.upload_model(path).id, timeout=WAIT)
    job = client.submit(model_id=model.id, target="cpu", trials=24, search="random", cost_model="none")
    done = client.wait(job.id, timeout=WAIT)
    assert done.state is JobState.SUCCEEDED, done.error
    assert done.latency.output_error is not None
    assert done.latency.output_error < 1e-3
    assert done.check is not None
    assert done.check.state == "agree"
    assert done.reference is not None, done.reference_missing
    assert (done.reference.runtime, done.reference.precision) == ("onnxruntime", "model")
    assert done.reference.seconds is not None
    assert done.latency.current == pytest.approx((done.reference.ratio or 0.0) * done.reference.seconds)
    tasks = client.tasks(job.id)
    (other,) = [task for task in tasks if task.alternative_of is not None]
    (direct,) = [task for task in tasks if task.workload == other.alternative_of]
    assert other.in_use != direct.in_use
    assert min(other.trials, direct.trials) > 0
    lines = client.best(job.id)
    assert {line["workload"]["hash"] for line in lines} == {task.workload for task in tasks if task.in_use}
    assert lines[0]["provenance"]["preparation"].endswith("+winograd")
    folder = client.download_metaschedule(job.id, tmp_path / "exported")
    command = [sys.executable, "-I", str(folder / "compile.py"), str(tmp_path / "net.so")]
    subprocess.run(command, check=True, capture_output=True, timeout=WAIT)
    machine = relax.VirtualMachine(tvm.runtime.load_module(str(tmp_path / "net.so")), tvm.cpu())
    x = np.random.default_rng(1).standard_normal(SHAPE).astype(np.float32)
    ours, (theirs,) = machine["main"](tvm.runtime.tensor(x)).numpy(), by_onnxruntime(path, x)
    assert np.abs(ours - theirs).max() < 1e-4 * np.abs(theirs).max()
