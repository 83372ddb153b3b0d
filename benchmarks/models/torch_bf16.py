"""An ONNX model on PyTorch in bfloat16, eager, on the CPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from benchmarks.models.torch_onnx import prepared
from workers.peers.timing import RunModel


def prepare(model: str, inputs: Mapping[str, NDArray[Any]], threads: int) -> RunModel:
    """Weights, inputs and all between them in bfloat16; outputs in float32."""
    return prepared(model, inputs, threads, short=True)
