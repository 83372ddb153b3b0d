"""How long and how often a measure worker may build and run: part of a batch's message."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class MeasureLimits(BaseModel):
    """How long and how often a candidate may build and run (seconds, counts)."""

    model_config = ConfigDict(frozen=True)
    build_timeout: float = 10.0
    run_timeout: float = 10.0
    min_repeats: int = 3
    repeats: int = 10
    """Samples of a contender: at least ``min_repeats``, then on until ``variation`` is met, at most ``repeats``."""
    variation: float = 0.01
    """Standard error of the samples' mean over the mean at which a contender's sampling ends (after AdaTune, 2020)."""
    min_repeat_seconds: float = 0.005
    """A sample is the mean over as many runs as take this long."""
    max_measure_seconds: float = 0.3
    """Kernel time that one candidate may use."""
    cutoff: float = 1.5
    """Racing: a candidate whose first run is slower than ``cutoff`` times the incumbent keeps that one sample."""
    margin: float = 1.1
    """A contender whose samples are all slower than ``margin`` times the incumbent gets no further ones."""
    abort: float = 30.0
    """A first run that takes longer than ``abort`` times the incumbent (half a second at least) is cut off."""
    finalists: int = 2
    """Fastest candidates of a batch, faster than the champion, that are measured again next to it."""
    confirm_repeats: int = 10
    """Samples of each in that confirmation, taken in turn."""
    significance: float = 0.05
    """One-sided p-value of the rank test below which a challenger becomes champion."""
    defaults_seconds: float = 10.0
    """What timing a batch's ``defaults`` may take, their builds included."""
    verify: bool = True
    """Compare a finalist's outputs with the default schedule's before it may become champion."""


NEVER = 1e9
"""A factor that no latency exceeds."""
LABELLING = MeasureLimits(
    min_repeats=3,
    repeats=5,
    variation=0.02,
    min_repeat_seconds=0.002,
    max_measure_seconds=0.1,
    cutoff=NEVER,
    margin=NEVER,
    finalists=0,
    verify=False,
)
"""Limits of a collecting job, which wants many cheap labels. Slow programs get as many samples as fast ones, within a
tenth of a second of kernel time. No champion is confirmed."""
