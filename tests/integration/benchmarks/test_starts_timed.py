"""Schedules of a model's tasks, timed in turn."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from small_nets import Net, plain_trunk

from benchmarks.harness.measurer import open_measurer
from benchmarks.harness.operators import Operator
from benchmarks.starts import study
from tunesmith.options import JobOptions
from workers.tvm_backend.build.local_model import LocalModel, default_preparation
from workers.tvm_backend.design_space.space import generate
from workers.tvm_backend.passes.extract_tasks import extract_tasks

pytestmark = pytest.mark.servers


def test_what_jobs_found_of_a_model_is_timed_by_task(tmp_path: Path) -> None:
    net = Net(1, 24, 12, 12)
    model = net.save(tmp_path / "net.onnx", plain_trunk(net))
    with open_measurer() as measurer:
        target = measurer.target
        local = LocalModel(str(model), {}, tmp_path, default_preparation(str(model), target, JobOptions()))
        wanted = {}
        for task in extract_tasks(local.module)[:2]:
            bodies = {body.hash: body for body in generate(task.module, target)}
            space = Operator(task.workload.name, task, bodies).space
            wanted[task.workload.hash] = space.candidates(space.at(np.arange(min(2, space.size))))
        found = study.timed(measurer, model, target, wanted, tmp_path)
    assert found.keys() == {(workload, each) for workload, candidates in wanted.items() for each in candidates}
    assert any(math.isfinite(seconds) for seconds in found.values())
    assert not list(measurer.folder.glob("*.so"))
