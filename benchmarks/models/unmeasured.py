"""How a model that is compiled without any measurement compares with the same after a job."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING

from benchmarks.harness.contenders import UNMEASURED
from benchmarks.harness.means import geometric_mean
from benchmarks.models.narrow import by_race

if TYPE_CHECKING:
    from benchmarks.models.comparison import ModelOutcome


def text(outcomes: Sequence[ModelOutcome]) -> str:
    """Lines of Markdown: each model race by race, and the mean of several; empty where nothing can be compared."""
    lines: list[str] = []
    for name, tuner in UNMEASURED.items():
        ratios = []
        for outcome in outcomes:
            ours, tuned = outcome.entry(name), outcome.entry(tuner)
            if ours is None or tuned is None:
                continue
            each = by_race(ours, tuned, outcome.passes)
            ratios.append(statistics.median(each))
            races = f" (races: {', '.join(f'{ratio:.2f}' for ratio in each)})" if len(each) > 1 else ""
            lines.append(
                f"- **{outcome.model}**: `{name}` takes {ratios[-1]:.2f} times as long as `{tuner}`{races}; "
                f"from file to library it took {ours.tuned_seconds or 0.0:.1f} s."
            )
        if len(ratios) > 1:
            mean = geometric_mean(ratios)
            lines.append(f"- `{name}`, geometric mean of {len(ratios)} models: {mean:.2f}; worst {max(ratios):.2f}.")
    return "\n".join(lines)
