"""OpenVINO on the CPU; see ``openvino_default`` for its own precision."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from workers.peers.timing import RunModel


def prepare(model: str, inputs: Mapping[str, NDArray[Any]], threads: int) -> RunModel:
    """A model compiled for latency in full precision."""
    return compiled(model, inputs, threads, {"INFERENCE_PRECISION_HINT": "f32"})


def compiled(model: str, inputs: Mapping[str, NDArray[Any]], threads: int, precision: Mapping[str, str]) -> RunModel:
    """A model compiled for latency, its settings of precision given."""
    import openvino

    core = openvino.Core()
    read = core.read_model(model)
    read.reshape({name: array.shape for name, array in inputs.items()})
    settings = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", **precision}
    network = core.compile_model(read, "CPU", settings)
    request = network.create_infer_request()

    def run_model() -> list[Any]:
        results = request.infer(dict(inputs), share_inputs=True, share_outputs=True)
        return [results[output] for output in network.outputs]

    return run_model
