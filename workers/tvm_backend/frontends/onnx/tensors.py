"""Every tensor in an ONNX file, wherever it can be, checked before any library reads one."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any

import onnx
from onnx import TensorProto

from tunesmith.errors import ModelRejected
from tunesmith.model_limits import MAX_ELEMENTS, MAX_RANK, MAX_TENSOR_BYTES

BITS = {
    **dict.fromkeys((TensorProto.UINT2, TensorProto.INT2), 2),
    **dict.fromkeys((TensorProto.UINT4, TensorProto.INT4, TensorProto.FLOAT4E2M1), 4),
    **dict.fromkeys(
        (
            TensorProto.FLOAT8E4M3FN,
            TensorProto.FLOAT8E4M3FNUZ,
            TensorProto.FLOAT8E5M2,
            TensorProto.FLOAT8E5M2FNUZ,
            TensorProto.UINT8,
            TensorProto.INT8,
            TensorProto.BOOL,
        ),
        8,
    ),
    **dict.fromkeys((TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.UINT16, TensorProto.INT16), 16),
    **dict.fromkeys((TensorProto.FLOAT, TensorProto.INT32, TensorProto.UINT32), 32),
    **dict.fromkeys((TensorProto.DOUBLE, TensorProto.INT64, TensorProto.UINT64, TensorProto.COMPLEX64), 64),
    TensorProto.COMPLEX128: 128,
}
"""Bits of one element, for the types whose content is checked."""
PAIRED = (TensorProto.COMPLEX64, TensorProto.COMPLEX128)
FIELDS = ("float_data", "int32_data", "string_data", "int64_data", "double_data", "uint64_data")


def check_tensors(model: onnx.ModelProto) -> None:
    """Refuse tensors that are outside of the file, or that do not hold what they say.

    Raises:
        ModelRejected: naming the tensor and its place.
    """
    tensors = [(place, each) for place, each in messages(model) if isinstance(each, TensorProto)]
    outside = [
        (place, each)
        for place, each in tensors
        if each.data_location == TensorProto.EXTERNAL or len(each.external_data)
    ]
    if outside:
        place, first = outside[0]
        raise ModelRejected(
            f"{len(outside)} tensors are stored outside the file ({first.name!r} in {place} first); save the model as "
            "one file, for example with onnx.save(onnx.load(path), new_path)",
            field="file",
            weights=len(outside),
        )
    for place, each in tensors:
        _check_content(place, each)


def messages(message: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """All messages inside one, with their places such as ``graph.node[3].attribute[0].t``.

    Every field is visited, whatever its name: a place that a later ONNX adds is not forgotten. What a tensor itself
    holds is not visited.
    """
    for name, repeated in _fields(message.DESCRIPTOR):
        if not repeated:
            if not message.HasField(name):
                continue
            found = [getattr(message, name)]
        else:
            found = getattr(message, name)
        for at, each in enumerate(found):
            where = f"{place}.{name}" if place else name
            where = f"{where}[{at}]" if repeated else where
            yield where, each
            if not isinstance(each, TensorProto):
                yield from messages(each, where)


@functools.cache
def _fields(descriptor: Any) -> tuple[tuple[str, bool], ...]:
    """The fields of a message that are messages, and whether each is repeated."""
    return tuple((field.name, field.is_repeated) for field in descriptor.fields if field.message_type is not None)


def _check_content(place: str, tensor: TensorProto) -> None:
    shape = list(tensor.dims[: MAX_RANK + 1])
    label = f"tensor {tensor.name!r} ({place})"
    if len(tensor.dims) > MAX_RANK:
        raise ModelRejected(f"{label} has {len(tensor.dims)} dimensions; up to {MAX_RANK} are accepted", field="file")
    if any(extent < 0 for extent in shape):
        raise ModelRejected(f"{label} has the shape {shape}, with a negative extent", field="file", value=shape)
    if tensor.HasField("segment"):
        raise ModelRejected(f"{label} is a segment of another tensor; save the model with whole tensors", field="file")
    bits = BITS.get(tensor.data_type)
    elements = math.prod(shape)
    if elements > MAX_ELEMENTS or elements * (bits or 8) // 8 > MAX_TENSOR_BYTES:
        raise ModelRejected(
            f"{label} has the shape {shape}; a tensor has up to {MAX_ELEMENTS} elements and {MAX_TENSOR_BYTES} bytes",
            field="file",
            value=shape,
        )
    if bits is not None:
        _check_length(label, tensor, elements, bits)


def _check_length(label: str, tensor: TensorProto, elements: int, bits: int) -> None:
    """Compare what a tensor holds with its shape."""
    used = [name for name in FIELDS if len(getattr(tensor, name))]
    if tensor.HasField("raw_data"):
        used.append("raw_data")
        held, needed = len(tensor.raw_data), -(-elements * bits // 8)
    else:
        held = sum(len(getattr(tensor, name)) for name in used)
        needed = -(-elements * bits // 8) if bits < 8 else elements * (2 if tensor.data_type in PAIRED else 1)
    if len(used) > 1:
        raise ModelRejected(
            f"{label} has its content twice, as {' and '.join(used)}; export the model again", field="file"
        )
    if held != needed:
        kind = TensorProto.DataType.Name(tensor.data_type)
        unit = "bytes" if "raw_data" in used else "numbers"
        raise ModelRejected(
            f"{label} of type {kind} and shape {list(tensor.dims)} holds {held} {unit}, and {needed} "
            "are needed; export the model again",
            field="file",
        )
