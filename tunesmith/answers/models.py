"""Models and their tasks."""

from __future__ import annotations

import datetime as dt
from typing import Any

from pydantic import BaseModel

from tunesmith.answers.base import Answer
from tunesmith.states import ModelState


class TensorBody(BaseModel):
    """One tensor argument."""

    name: str
    dtype: str
    shape: list[int]


class ModelBody(Answer):
    """An uploaded model, or an operator. ``error`` is a problem object once ``state`` is rejected.

    ``note``: what its preparation was to be and is not, as with layouts that do not fit the model; null otherwise.
    """

    id: str
    name: str
    source: str
    operator: str | None
    sha256: str
    size: int
    owner: str
    state: ModelState
    inputs: list[TensorBody] | None
    input_shapes: dict[str, list[int]]
    tasks: int
    error: dict[str, Any] | None
    note: str | None
    created_at: dt.datetime


class ModelTaskBody(Answer):
    """How often a model runs a workload; ``args`` has the output last.

    ``alternative_of``: the workload of the direct task that this one may replace.
    """

    name: str
    workload: str
    family: str
    weight: int
    alternative_of: str | None
    flops: float
    args: list[TensorBody]
