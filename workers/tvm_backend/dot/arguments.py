"""Which arguments of a program hold the bits of bfloat16: those that it widens, or rounds."""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm.ir import Call, TensorLoad
from tvm.runtime import Object
from tvm.tirx import BufferStore

from workers.tvm_backend.dot.bits import BITS, widened_load


def buffers_of_bits(function: Any) -> set[int]:
    """Keys of a PrimFunc's tensors of uint16 that hold such bits, and of what they are copied to or from."""
    calls: list[Any] = []
    stores: list[Any] = []
    tvm_ffi.structural_walk(function.body, (Call, calls.append))
    tvm_ffi.structural_walk(function.body, (BufferStore, stores.append))
    found = {_key(load.source) for call in calls if (load := widened_load(call)) is not None}
    copies: list[tuple[int, set[int]]] = []
    for store in stores:
        if str(store.buffer.dtype) != BITS:
            continue
        if _rounds(store.value):
            found.add(_key(store.buffer))
        copies.append((_key(store.buffer), _sources(store.value)))
    return _joined(found, copies)


def _joined(found: set[int], copies: list[tuple[int, set[int]]]) -> set[int]:
    """What is copied to or from one of them is one of them."""
    while True:
        more = {key for made, taken in copies for key in ({made} | taken) if not found.isdisjoint({made} | taken)}
        if more <= found:
            return found
        found = found | more


def _sources(value: Any) -> set[int]:
    loads: list[Any] = []
    tvm_ffi.structural_walk(value, (TensorLoad, loads.append))
    return {_key(load.source) for load in loads if str(load.source.dtype) == BITS}


def _rounds(value: Any) -> bool:
    """Whether a stored value comes from the bits of a float."""
    calls: list[Any] = []
    tvm_ffi.structural_walk(value, (Call, calls.append))
    return any(str(getattr(call.op, "name", "")).endswith("reinterpret") for call in calls)


def _key(node: Any) -> int:
    return int(Object.__hash__(node))
