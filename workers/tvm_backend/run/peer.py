"""A compiled model as a peer of a comparison."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from workers.peers.timing import RunModel
from workers.tvm_backend.run.device_functions import bind
from workers.tvm_backend.warm import import_tvm


def prepare(model: str, inputs: Mapping[str, NDArray[Any]], threads: int) -> RunModel:
    """A library whose ``main`` takes the model's inputs, on the Relax VM."""
    os.environ["TVM_NUM_THREADS"] = str(threads)
    import_tvm()
    import tvm
    from tvm import relax

    bind(threads)
    machine = relax.VirtualMachine(tvm.runtime.load_module(model), tvm.cpu())
    machine.set_input("main", *(tvm.runtime.tensor(array) for array in inputs.values()))

    def run_model() -> list[Any]:
        machine.invoke_stateful("main")
        return flat(machine.get_outputs("main"))

    return run_model


def flat(value: Any) -> list[Any]:
    """Leaves of nested tuples of tensors."""
    if hasattr(value, "numpy"):
        return [value]
    return [leaf for item in value for leaf in flat(item)]
