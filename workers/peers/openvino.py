"""OpenVINO on the CPU: ``python -m workers.peers.openvino JOB``."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from workers.peers.timing import Run, serve


def prepare(model: str, inputs: Mapping[str, NDArray[Any]], threads: int) -> Run:
    """A model compiled for latency in full precision."""
    import openvino

    core = openvino.Core()
    read = core.read_model(model)
    read.reshape({name: array.shape for name, array in inputs.items()})
    settings = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
    compiled = core.compile_model(read, "CPU", settings)
    request = compiled.create_infer_request()

    def run() -> list[Any]:
        results = request.infer(dict(inputs), share_inputs=True, share_outputs=True)
        return [results[output] for output in compiled.outputs]

    return run


if __name__ == "__main__":
    serve(sys.argv[1:], prepare)
