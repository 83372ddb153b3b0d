"""Jobs that tune models of one operator without arithmetic worth a search."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness.jobs import service
from benchmarks.harness.progress import Progress
from benchmarks.models.graph import Graph
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
    graph, result = Graph(model, seed=0), shape
    if model == "Reshape":
        result = (shape[-1], shape[0] * shape[1])
        name = graph.node(model, "x", graph.constant(result, "int64"))
    elif model == "Concat":
        result = (shape[0], 2 * shape[1], *shape[2:])
        name = graph.node(model, "x", "x", axis=1)
    else:
        name = graph.node(model, "x")
    return bytes(graph.model(("x", shape), (name, result)).SerializeToString())
