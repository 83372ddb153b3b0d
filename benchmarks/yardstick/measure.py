"""Jobs that tune models of one operator without arithmetic worth a search."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness.jobs import service
from benchmarks.harness.progress import Progress
from tunesmith.answers.jobs import JobBody as Job
from tunesmith.errors import MeasurementFailed
from tunesmith.states import JobState

MODELS = ("Relu", "Reshape", "Concat")
SHAPES = ((8, 16, 16), (1, 64, 3136), (8, 256, 256))
"""Of the input: 8 kB, 0.8 MB and 2 MB."""
JOB_SECONDS = 600.0


@dataclass(frozen=True)
class TunedModel:
    """What came of one job.

    Attributes:
        model, shape: what was tuned.
        seed: of the job.
        job: as it ended.
    """

    model: str
    shape: tuple[int, ...]
    seed: int
    job: Job


def tune(folder: Path, runs: int, trials: int, progress: Progress) -> list[TunedModel]:
    """Tune every model ``runs`` times on a stack of its own.

    Raises:
        MeasurementFailed: a job does not succeed.
    """
    found = []
    with service(folder) as client:
        for seed in range(1, runs + 1):
            for shape in SHAPES:
                for model in MODELS:
                    path = folder / f"{model}-{'x'.join(map(str, shape))}.onnx"
                    path.write_bytes(onnx_of(model, shape))
                    known = client.wait_model(client.upload_model(path).id)
                    asked = client.submit(model_id=known.id, target="cpu", trials=trials, seed=seed, warm_start=False)
                    job = client.wait(asked.id, timeout=JOB_SECONDS)
                    if job.state is not JobState.SUCCEEDED:
                        raise MeasurementFailed(f"the job of {path.name} is {job.state.value}: {job.error}")
                    found.append(TunedModel(model, shape, seed, job))
                    progress(f"{path.name}, seed {seed}: {job.latency.speedup} times as fast")
    return found


def onnx_of(model: str, shape: tuple[int, ...]) -> bytes:
    """An ONNX file of one node."""
    from onnx import TensorProto, helper

    rows, columns = shape[-1], shape[0] * shape[1]
    node: Any
    node, result = {
        "Relu": (helper.make_node("Relu", ["x"], ["y"]), shape),
        "Reshape": (helper.make_node("Reshape", ["x", "shape"], ["y"]), (rows, columns)),
        "Concat": (helper.make_node("Concat", ["x", "x"], ["y"], axis=1), (shape[0], 2 * shape[1], *shape[2:])),
    }[model]
    weights = [helper.make_tensor("shape", TensorProto.INT64, [2], result)] if model == "Reshape" else []
    x, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, extents)
        for name, extents in (("x", shape), ("y", result))
    )
    graph = helper.make_graph([node], model, [x], [y], weights)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(made.SerializeToString())
