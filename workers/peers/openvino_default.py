"""OpenVINO at the precision of its choice, bfloat16 on some CPUs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from workers.peers.openvino import compiled
from workers.peers.timing import RunModel


def prepare(model: str, inputs: Mapping[str, NDArray[Any]], threads: int) -> RunModel:
    """A model compiled for latency, as it is without settings of precision."""
    return compiled(model, inputs, threads, {})
