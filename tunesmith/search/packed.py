"""Arrays as text that JSON keeps bit for bit."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import numpy as np

from tunesmith.space.base import Ints, PointBatch


def pack(values: Any, dtype: str) -> str:
    """Text of an array's numbers as they lie in memory, of a dtype with its byte order such as ``<f8``."""
    return base64.b64encode(values.astype(dtype).tobytes()).decode()


def unpack(text: str, dtype: str) -> Any:
    """Inverse of :func:`pack`, in one dimension; may be written to."""
    return np.frombuffer(base64.b64decode(text), dtype=dtype).astype(np.dtype(dtype).newbyteorder("="))


def pack_keys(keys: Ints) -> str:
    """Text of keys, eleven characters each."""
    return pack(keys, "<i8")


def unpack_keys(text: str) -> Ints:
    """Inverse of :func:`pack_keys`."""
    keys: Ints = unpack(text, "<i8")
    return keys


def pack_points(points: PointBatch) -> dict[str, str]:
    """Plain JSON; six bytes per point and knob, about."""
    return {"sketch": pack(points.sketch, "<i2"), "choice": pack(points.choice, "<i4")}


def unpack_points(state: Mapping[str, Any], width: int) -> PointBatch:
    """Inverse of :func:`pack_points`, for a space of this width."""
    sketch = unpack(state["sketch"], "<i2").astype(np.int64)
    return PointBatch(sketch, unpack(state["choice"], "<i4").astype(np.int64).reshape(len(sketch), width))
