"""OpenVINO at the precision of its choice, bfloat16 on some CPUs: ``python -m workers.peers.openvino_default JOB``."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from workers.peers.openvino import compiled
from workers.peers.timing import RunModel, serve


def prepare(model: str, inputs: Mapping[str, NDArray[Any]], threads: int) -> RunModel:
    """A model compiled for latency, as it is without settings of precision."""
    return compiled(model, inputs, threads, {})


if __name__ == "__main__":
    serve(sys.argv[1:], prepare)
