"""PyTorch, eager, on the CPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from workers.peers.timing import RunModel


def prepare(model: str, inputs: Mapping[str, NDArray[Any]], threads: int) -> RunModel:
    """An exported program, run as it is."""
    import torch

    torch.set_num_threads(threads)
    module = torch.export.load(model).module()
    arguments = [
        torch.from_numpy(array.view("uint16")).view(torch.bfloat16)
        if array.dtype.name == "bfloat16"
        else torch.from_numpy(array)
        for array in inputs.values()
    ]

    def run_model() -> list[Any]:
        with torch.inference_mode():
            results = module(*arguments)
        flat = results if isinstance(results, (tuple, list)) else [results]
        return [value.float().numpy() if value.dtype == torch.bfloat16 else value.numpy() for value in flat]

    return run_model
