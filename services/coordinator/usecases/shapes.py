"""The form field ``inputs``: static shapes for inputs that a model leaves dynamic."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import Any

from tunesmith import strict_json
from tunesmith.errors import InvalidInput
from tunesmith.model_limits import MAX_ELEMENTS

MAX_RANK = 16
MAX_EXTENT = 2**31 - 1
MAX_KEY = 500
EXTENT = re.compile("[0-9]{1,10}")


def parse_inputs(values: Sequence[str]) -> dict[str, list[int]]:
    """Shapes by input name, from ``name=1,3,224,224`` (repeated) or one JSON object ``{"name": [1, 3, 224, 224]}``.

    Raises:
        InvalidInput: naming the value and what would be accepted.
    """
    shapes: dict[str, list[int]] = {}
    for value in values:
        text = value.strip()
        if not text:
            continue
        pairs = _from_json(text) if text.startswith("{") else [_from_text(text)]
        for name, shape in pairs:
            shapes[name] = _checked(name, shape, value)
    if len(inputs_key(shapes)) > MAX_KEY:
        raise InvalidInput("too many inputs have a shape", field="inputs")
    return shapes


def inputs_key(shapes: dict[str, list[int]]) -> str:
    """Canonical text of shapes; nothing for none."""
    return json.dumps(shapes, sort_keys=True, separators=(",", ":")) if shapes else ""


def _from_json(text: str) -> list[tuple[str, Any]]:
    given = strict_json.loads(text, "inputs")
    if not given:
        raise _refused(text)
    return list(given.items())


def _from_text(text: str) -> tuple[str, Any]:
    name, separator, shape = text.rpartition("=")
    extents = [part.strip() for part in shape.split("," if "," in shape else "x")] if shape.strip() else []
    if not separator or not name.strip() or not all(map(EXTENT.fullmatch, extents)):
        raise _refused(text)
    return name.strip(), [int(extent) for extent in extents]


def _checked(name: str, shape: Any, value: str) -> list[int]:
    fits = isinstance(shape, list) and len(shape) <= MAX_RANK
    if not fits or not all(type(extent) is int and 1 <= extent <= MAX_EXTENT for extent in shape):
        raise _refused(value)
    if math.prod(shape) > MAX_ELEMENTS:
        raise InvalidInput(
            f"input {name[:200]!r} cannot have the shape {shape}: a tensor has up to {MAX_ELEMENTS} elements",
            field="inputs",
            value=value[:200],
        )
    return list(shape)


def _refused(value: str) -> InvalidInput:
    return InvalidInput(
        f'{value[:200]!r} is not a shape: give name=1,3,224,224 with positive extents, or {{"name": [1, 3, 224, 224]}}',
        field="inputs",
        value=value[:200],
    )
