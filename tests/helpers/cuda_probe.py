"""Builds products of matrices for NVIDIA GPUs, and models of them: ``python cuda_probe.py FOLDER NUMBER TAG…``.

Of each of the last ``NUMBER`` of ``PRODUCTS`` it builds a random valid candidate for the GPUs that it is one of, and a
model with the candidate for the last of these. Of the last product it builds the default schedule, too, for the first
GPU. Prints the outcomes as JSON.
"""

from __future__ import annotations

import json
import os
import re
import struct
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from effort import THOROUGH

from tunesmith.errors import MeasurementFailed
from tunesmith.messages import Payload, Spec, TunedWorkload
from tunesmith.targets import Target, parse_target
from workers.protocol import BuildRequest, Built
from workers.tvm_backend.build.builder import Builder
from workers.tvm_backend.build.cuda_compiler import MODE
from workers.tvm_backend.warm import warm

PRODUCTS = (("float32", "float32", 0), ("float16", "float16", 0), ("float16", "float32", 1))
"""Types of the operands and of the sums, and which valid candidate: this one's sums take the place of its operands."""
SIZE = 256
Gpu = TypeVar("Gpu")
CUBIN = 190
"""The machine of an ELF file that is a GPU."""


def main(folder: Path, number: int, tags: list[str]) -> None:
    warm("cuda")
    builder = Builder(str(folder / "lease"), "cuda")
    targets = [target_of(tag) for tag in tags]
    built, models = [], []
    for case in PRODUCTS[-number:]:
        operands, sums, which = case
        task, model = product(operands, sums)
        chosen = candidate(task.module, targets[0], which)
        wanted = [(target, "candidate", *chosen) for target in gpus_of(case, targets)]
        if THOROUGH or case == PRODUCTS[-1]:
            wanted.insert(0, (targets[0], "default", None, ()))
        for target, schedule, body, decisions in wanted:
            arch = str(target.to_json()["arch"])
            out = folder / f"{operands}-{sums}-{arch}-{schedule}.so"
            outcome = builder.build(
                BuildRequest(task.workload.hash, task.module, target.to_json(), body, decisions, out, 120.0)
            )
            built.append(
                {
                    "operands": operands,
                    "sums": sums,
                    "arch": arch,
                    "schedule": schedule,
                    "failure": outcome.failure,
                    "message": outcome.message,
                    "built": outcome.path is not None,
                    "cubins": cubins(out),
                }
            )
        out = folder / f"{operands}-{sums}-model.so"
        applied = tuned(builder, model, task, outcome, target, out)
        models.append({"applied": applied, "cubins": cubins(out)})
    print(
        json.dumps(
            {
                "compiler": os.environ.get(MODE),
                "headers": os.environ.get("CUDA_PATH", ""),
                "built": built,
                "models": models,
            }
        )
    )


def gpus_of(product: tuple[str, str, int], gpus: Sequence[Gpu]) -> Sequence[Gpu]:
    """The GPUs that a product is built for: all for the last one, which is of both types, and each other for one."""
    number = PRODUCTS.index(product)
    return gpus if THOROUGH or product == PRODUCTS[-1] else gpus[number % len(gpus) :][:1]


def cubins(library: Path) -> list[str]:
    """The architectures of the cubins in a library; there are none where the device is to compile the source."""
    data = library.read_bytes() if library.exists() else b""
    starts = [match.start() for match in re.finditer(rb"\x7fELF", data)]
    heads = [(struct.unpack_from("<H", data, at + 18)[0], struct.unpack_from("<I", data, at + 48)[0]) for at in starts]
    return [f"sm_{flags >> 8 & 0xFF}" for machine, flags in heads if machine == CUBIN]


def target_of(tag: str) -> Target:
    target = parse_target(tag).target
    assert target is not None
    return target


def product(operands: str, sums: str) -> tuple[Any, Any]:
    """The task of a product whose sums may have another type than its operands, and the model that it is of."""
    from tvm import relax

    from workers.tvm_backend.passes import extract_tasks, pipeline

    args = [relax.Var(name, relax.TensorType((SIZE, SIZE), operands)) for name in ("a", "b")]
    builder = relax.BlockBuilder()
    with builder.function("main", args):
        with builder.dataflow():
            out = builder.emit_output(builder.normalize(relax.op.matmul(*args, out_dtype=sums)))
        builder.emit_func_output(out)
    mod = builder.get()
    mod["main"] = mod["main"].with_attr("num_input", 2).with_attr("input_names", json.dumps(["a", "b"]))
    prepared = pipeline.prepare(mod)
    (task,) = extract_tasks.extract_tasks(prepared.module)
    return task, prepared.module


def candidate(module: bytes, target: Target, number: int) -> tuple[bytes, Any]:
    """A valid one of a sequence of random candidates: its sketch and its decisions."""
    from workers.tvm_backend.design_space import space

    bodies = space.generate(module, target)
    traces = space.TraceSpace(module, target, bodies)
    rng = np.random.default_rng(0)
    found = []
    while len(found) <= number:
        sampled = traces.space.sample(rng, 32)
        for few in np.split(np.arange(32), 8):  # the first ones mostly do
            batch, valid = traces.resolve(sampled.take(few))
            found += traces.space.candidates(batch.take(np.flatnonzero(valid)))
            if len(found) > number:
                break
    chosen = found[number]
    return next(body for body in bodies if body.hash == chosen.sketch).to_json(), chosen.decisions


def tuned(builder: Builder, model: bytes, task: Any, built: Built, target: Target, out: Path) -> int:
    """How many schedules a model has that is compiled with the last candidate."""
    if built.trace is None:
        return 0
    record = TunedWorkload(
        workload=task.workload.hash,
        workload_json=Payload.pack(task.metaschedule),
        trace=Payload.pack(built.trace.encode()),
        run_seconds=[1e-3],
        args=[Spec(dtype=a.dtype, shape=a.shape) for a in task.workload.args],
    )
    try:
        return builder.compile_model(model, None, target.to_json(), [record], out).applied
    except MeasurementFailed as error:
        print(error, file=sys.stderr)
        return 0


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
