"""A task's design space."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from tunesmith.answers.base import Answer
from tunesmith.answers.jobs import FailureBody
from tunesmith.answers.trials import KnobBody


class KnobRangeBody(Answer):
    """What a knob may be.

    A ``perfect_tile`` has ``parts`` factors whose product is ``extent``; a ``categorical`` one is
    the place of a choice; a ``compute_location`` is a number from ``low`` to ``high``.
    """

    name: str
    about: str
    kind: str
    size: int = Field(description="Number of choices.")
    choices: list[Any] = Field(description="What a categorical knob chooses from.")
    extent: int | None
    parts: int | None
    max_innermost: int | None = Field(description="The largest last factor of a tile.")
    low: int | None
    high: int | None


class SketchBody(Answer):
    """A sketch: its hash, the number of its points, valid or not, and its knobs in the order of `decisions`."""

    sketch: str
    points: float
    knobs: list[KnobRangeBody]


class ChampionBody(Answer):
    """The fastest confirmed candidate of a task; ``sketch`` is null for the default schedule."""

    trial: int
    latency: float
    sketch: str | None
    knobs: list[KnobBody]


class SpaceBody(Answer):
    """What there is to choose for a task. ``points`` is the sum over its sketches; their number may exceed 2^63."""

    task: int
    name: str
    workload: str
    points: float
    sketches: list[SketchBody]
    champion: ChampionBody | None
    failures: list[FailureBody]
