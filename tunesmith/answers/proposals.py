"""Candidates that are proposed from outside: requests, answers, and curves of the latencies that they reached."""

from __future__ import annotations

import datetime as dt
from typing import Any

from pydantic import Field

from tunesmith.answers.base import Answer, Body
from tunesmith.answers.trials import KnobBody
from tunesmith.proposals import MAX_AUTHOR, MAX_PROPOSALS, ProposalSource, ProposalState


class ProposedCandidate(Body):
    """A candidate by names, as the task's `space` has them."""

    sketch: str = Field(max_length=64, description="Hash of one of the task's sketches.")
    knobs: dict[str, Any] = Field(
        max_length=1000,
        description="A value for each of its knobs: factors of a tile, outermost first; the place of a choice, from 0; "
        "a compute location.",
    )


class ProposalRequest(Body):
    """Candidates to measure. One that is malformed or known refuses the whole request."""

    candidates: list[ProposedCandidate] = Field(min_length=1, max_length=MAX_PROPOSALS)
    source: ProposalSource = Field(ProposalSource.SCRIPT, description="Who proposes.")
    measure: bool = Field(True, description="False: only say which are valid and what is expected of them.")
    author: str = Field("", max_length=MAX_AUTHOR, description="A name for it, for people.")


class ProposalBody(Answer):
    """A proposed candidate, and what became of it.

    `reason` says why it was refused or dropped, or what is odd about it. `estimate`: seconds of one run, as the static
    model (a CPU's) expects them. `score`: what the job's cost model expects, higher for faster. `trial` is its trial
    once it was measured, `latency` that trial's, in seconds.
    """

    id: int
    set: int = Field(description="The request that it came with.")
    source: ProposalSource
    author: str
    state: ProposalState
    reason: str | None
    sketch: str
    knobs: list[KnobBody]
    estimate: float | None
    score: float | None
    trial: int | None
    latency: float | None
    failure: str | None
    created_at: dt.datetime


class SourcePoint(Answer):
    """The fastest latency of a source, in seconds, after so many of its own trials and of the task's."""

    trials: int
    task_trials: int
    latency: float


class SourceCurve(Answer):
    """What one source of candidates reached: `search`, or a kind of proposer; best-so-far, one point an improvement."""

    source: str
    trials: int
    failures: int
    best: float | None
    points: list[SourcePoint]


class TaskCurvesBody(Answer):
    """A task's trials by who proposed them.

    Latencies are as they were measured; `untuned` is the default schedule's."""

    task: int
    name: str
    untuned: float | None
    sources: list[SourceCurve]
