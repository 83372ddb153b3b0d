"""What a task's trials tell of its knobs and of the cost model."""

from __future__ import annotations

from pydantic import BaseModel, Field

from tunesmith.answers.base import Answer


class SketchTrialsBody(Answer):
    """Trials of a sketch that ran, and the fastest of them; ``sketch`` is null for the default schedule."""

    sketch: str | None
    trials: int
    latency: float


class KnobColumnBody(Answer):
    """A number that the sketch's candidates decide: a knob, or one factor of a tile."""

    name: str
    about: str
    importance: float = Field(
        description="Share of the variance of log latency that its value alone explains, 0 to 1, less what chance does."
    )


class PointBody(BaseModel):
    """A trial that ran.

    ``score``: what the cost model expected, higher for faster; null where none ranked it. ``values``: one for each of
    the ``knobs``; null for trials of other sketches.
    """

    trial: int
    round: int | None
    latency: float
    score: float | None
    values: list[float] | None


class RankedRoundBody(BaseModel):
    """How well the cost model ranked a round.

    ``pairwise``: share of its pairs in the right order. ``top1``: best latency over that of the best score.
    """

    round: int
    programs: int
    pairwise: float | None
    top1: float | None


class AnalysisBody(Answer):
    """A task's trials as the plots need them.

    ``points`` are the fastest of the ``trials`` that ran, and others evenly over time. ``knobs`` are those of
    ``sketch``.
    """

    task: int
    name: str
    simulated: bool
    trials: int
    sketch: str | None
    sketches: list[SketchTrialsBody]
    knobs: list[KnobColumnBody]
    points: list[PointBody]
    rounds: list[RankedRoundBody]
