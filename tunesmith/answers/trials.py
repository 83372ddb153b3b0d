"""One trial and its program."""

from __future__ import annotations

import difflib
from typing import Any

from pydantic import Field

from tunesmith.answers.base import Answer
from tunesmith.answers.jobs import TrialBody
from tunesmith.states import WorkState


class KnobBody(Answer):
    """A decision of a candidate; ``value`` is what it stands for, the decision itself where that says it."""

    name: str
    decision: Any
    value: Any
    about: str


class TrialDetailBody(TrialBody):
    """One measured candidate with what stands around it; its task's latencies are those of now."""

    knobs: list[KnobBody] = Field(description="By name, in the order of `decisions`; empty for the default schedule.")
    untuned_latency: float | None
    best_latency: float | None
    gflops: float | None
    batch_size: int = Field(description="Candidates that were proposed together with it.")
    predicted_place: int | None = Field(
        description="Its place in the batch by the cost model, 1 for the fastest; null where none ranked it."
    )
    predicted_score: float | None = Field(
        description="What the cost model expected, higher for faster; one scale a model, without a unit."
    )
    uncertainty: float | None = Field(description="How far the members of the cost model lie apart on that score.")
    measured_place: int | None = Field(description="Its place among those of the batch that ran; null if it failed.")


class ProgramBody(Answer):
    """A trial's program in TVMScript. Both texts are null until ``state`` is ``done``."""

    state: WorkState
    error: dict[str, Any] | None = Field(description="Why it could not be written: a problem object.")
    plain: str | None = Field(description="The workload without a schedule.")
    scheduled: str | None = Field(description="The candidate.")

    def difference(self) -> str:
        """The candidate as a unified difference to the workload without a schedule; empty before both are there."""
        before, after = (text.splitlines(keepends=True) for text in (self.plain or "", self.scheduled or ""))
        return "".join(difflib.unified_diff(before, after, "plain", "scheduled"))
