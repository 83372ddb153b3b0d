"""What a program's arguments hold: the bits of bfloat16, which it widens or rounds, or codes of numbers on a grid."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import tvm_ffi
from tvm.ir import Call, TensorLoad
from tvm.runtime import Object
from tvm.s_tir import SBlock
from tvm.tirx import BufferStore, Cast, IterVar, Mul

from tunesmith.types import Values
from workers.tvm_backend.dot.bits import BITS, widened_load
from workers.tvm_backend.dot.codes import CODES, WEIGHTS

BITS_OF_ONES = Values(-1.0, 1.0, bits_of="bfloat16")
ALL_CODES, ALL_WEIGHTS = Values(0, 255), Values(-127, 127, bits_of=WEIGHTS)
SCALES = Values(0.5, 1.0)
"""For scales, inverses and zeros: numbers of some tens become codes of some tens, and the other way round."""
USUAL_PRODUCT = 148 * 73
"""Root of the mean square of a product of a code and a weight."""
SPREAD = 64
"""Root of the mean square of a scaled sum."""


def known_values(function: Any) -> Mapping[int, Values]:
    """Values to draw for a PrimFunc's arguments, by the keys of their tensors, as far as the program tells."""
    return {**dict.fromkeys(_buffers_of_bits(function), BITS_OF_ONES), **_codes(function)}


def _codes(function: Any) -> dict[int, Values]:
    casts: list[Any] = []
    tvm_ffi.structural_walk(function.body, (Cast, casts.append))
    bytes_ = {str(each.value.source.dtype) for each in casts if type(each.value).__name__ == "TensorLoad"}
    if CODES not in bytes_ and not any(str(each.ty.dtype) == CODES for each in casts):
        return {}
    found = {}
    for each in function.params:
        kind, rank = str(each.ty.dtype), len(each.ty.shape)
        if kind in (CODES, WEIGHTS):
            found[_key(each)] = ALL_CODES if kind == CODES else ALL_WEIGHTS
        elif kind == "float32" and rank == 0:
            found[_key(each)] = SCALES
    return found | _scales_of_sums(function)


def _scales_of_sums(function: Any) -> dict[int, Values]:
    """Tensors by which sums of codes are multiplied, whatever stands between."""
    blocks: list[Any] = []
    products: list[Any] = []
    tvm_ffi.structural_walk(function.body, (SBlock, blocks.append))
    tvm_ffi.structural_walk(function.body, (Mul, products.append))
    sums = [each for each in blocks if each.init is not None]
    if len(sums) != 1 or not any(str(each.ty.dtype) == WEIGHTS for each in function.params):
        return {}
    steps = math.prod(int(each.dom.extent) for each in sums[0].iter_vars if int(each.iter_type) == IterVar.CommReduce)
    most = SPREAD / (USUAL_PRODUCT * math.sqrt(steps))
    scales = [
        each.b for each in products if _is_sum(each.a) and type(each.b).__name__ == "TensorLoad" and each.b.indices
    ]
    return {_key(load.source): Values(most / 2, most) for load in scales}


def _is_sum(value: Any) -> bool:
    """Whether a float32 is a sum less what zeros add: an int32, or a float32 where a depthwise convolution made it."""
    if type(value).__name__ == "Cast":
        return str(value.value.ty.dtype) == "int32" and str(value.ty.dtype) == "float32"
    return type(value).__name__ == "Sub" and str(value.ty.dtype) == "float32"


def _buffers_of_bits(function: Any) -> set[int]:
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
