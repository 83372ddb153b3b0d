"""Where a searcher's settings are looked for: around their defaults."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

FACTOR = 4
"""How many times the default, or what part of it, a setting may be."""
SMALL = 0.5
"""Largest value of a share that is 0 by default."""
NOT_TUNED = frozenset({"effort", "elites", "examined"})
"""Settings that replays say nothing of: more exact scores and more memory cost nothing here."""


@dataclass(frozen=True)
class Range:
    """One setting's values, the default among them.

    Attributes:
        low, high: both included; whole numbers where the setting is one.
        log: whether it is looked for on a logarithmic scale.
    """

    name: str
    low: float
    high: float
    log: bool


def ranges(options: Any) -> list[Range]:
    """Of every number among a searcher's settings that replays can judge; what is no number stays as it is.

    A whole number stays one, at least 1 where it was; a share between 0 and 1 remains a share.
    """
    found = [(f.name, getattr(options, f.name)) for f in dataclasses.fields(options) if f.name not in NOT_TUNED]
    return [
        _around(name, value) for name, value in found if isinstance(value, (int, float)) and not isinstance(value, bool)
    ]


def _around(name: str, value: float) -> Range:
    if isinstance(value, int):
        return Range(name, max(value // FACTOR, min(value, 1)), max(FACTOR * value, 1), value > 0)
    if not value:
        return Range(name, 0.0, SMALL, False)
    high = FACTOR * value
    return Range(name, value / FACTOR, min(high, 1.0) if value <= 1.0 else high, True)
