"""Exported folders: a prepared model with one schedule for each product, and their script in a process of TVM alone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import rule_checks
from effort import quick
from small_nets import Array, Net

from tunesmith import metaschedule
from tunesmith.metaschedule import DatabaseRecord
from tunesmith.targets import Target
from workers.tvm_backend.design_space import space
from workers.tvm_backend.passes import extract_tasks, pipeline

import tvm  # isort: skip
from tvm import relax  # isort: skip


SHAPE = (1, 4, 6, 6)


def small(path: Path) -> Path:
    """A network of a convolution, a pool and a dense layer."""
    net = Net(*SHAPE)
    y = net.op("Flatten", net.op("MaxPool", net.op("Relu", net.conv("x", 16)), kernel_shape=[6, 6]))
    return net.save(path, net.op("Gemm", y, net.random(16, 8), net.random(8)))


def write(made: pipeline.Prepared, products: str, folder: Path) -> None:
    """The folder of a job that measured one candidate of each task with ``products`` in its name."""
    target, rng, records = Target(quick(rule_checks.here().to_json())), np.random.default_rng(0), []
    for task in extract_tasks.extract_tasks(made.module):
        if products in task.workload.name:
            known = space.TraceSpace(task.module, target, rule_checks.own(task, target))
            candidate = known.space.candidates(known.space.sample(rng, 1))[0]
            hashed, text = json.loads(task.metaschedule)
            trace = json.loads(known.trace(candidate))
            records.append(DatabaseRecord((hashed, text), trace, (1e-3,), target.to_json(), task.workload.args))
    texts = metaschedule.folder_texts(
        model="net",
        target=target.to_json(),
        inputs=made.inputs,
        records=records,
        preparation=made.preparation.key,
        tvm=tvm.__version__,
    )
    for name, text in texts.items():
        (folder / name).write_text(text)
    (folder / "module.json").write_bytes(made.module)
    pipeline.save_params(made.params, folder / "params.npz")


def compiled(folder: Path) -> str:
    """What the folder's script says while it compiles ``net.so``."""
    command = [sys.executable, "-I", str(folder / "compile.py"), str(folder / "net.so")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stderr


def run(folder: Path, x: Array) -> Array:
    """The output of the compiled library."""
    machine = relax.VirtualMachine(tvm.runtime.load_module(str(folder / "net.so")), tvm.cpu())
    found: Array = machine["main"](tvm.runtime.tensor(x)).numpy()
    return found
