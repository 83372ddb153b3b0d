"""Builds a gemm for an NVIDIA GPU, by default and by a random valid candidate, and prints what came of it as JSON."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import numpy as np

from tunesmith.operators import parse_operator
from tunesmith.targets import parse_target
from workers.tvm_backend.builder import Builder
from workers.tvm_backend.cuda_compiler import MODE
from workers.tvm_backend.measuring import BuildRequest
from workers.tvm_backend.warm import warm


def main(folder: Path) -> None:
    warm("cuda")
    from workers.tvm_backend import importing, prepare, space, tasks

    target = parse_target("nvidia/nvidia-h100").target
    assert target is not None
    prepared = prepare.prepare(importing.operator_module(parse_operator("gemm:256x256x256:float32")))
    (task,) = tasks.extract_tasks(prepared.module)
    bodies = space.generate(task.module, target)
    traces = space.TraceSpace(task.module, target, bodies)
    rng = np.random.default_rng(0)
    while True:
        batch, valid = traces.resolve(traces.space.sample(rng, 32))
        if valid.any():
            break
    chosen = traces.space.candidates(batch.take(np.flatnonzero(valid)[:1]))[0]
    body = next(body for body in bodies if body.hash == chosen.sketch)
    builder = Builder(str(folder / "lease"), "cuda")
    found = []
    for name, data, decisions in (("default", None, ()), ("candidate", body.to_json(), chosen.decisions)):
        built = builder.build(
            BuildRequest(task.workload.hash, task.module, target.to_json(), data, decisions, folder / name, 120.0)
        )
        size = built.path.stat().st_size if built.path else 0
        found.append({"failure": built.failure, "message": built.message, "size": size})
    print(json.dumps({"compiler": os.environ.get(MODE), "built": found}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
