"""How often what a model comes to lies within the interval that was foretold, on recorded learning curves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.harness.report import Report
from benchmarks.replay.allocators import latency_after, order_of, views
from tunesmith.allocate.forecast import LEVEL, forecast
from tunesmith.space.base import Floats
from tunesmith.testing.replay import Recording

SHARES = (0.2, 0.4, 0.6, 0.8)
"""Parts of the rounds, those of the warm-up included, after which the end is foretold."""
ALLOCATORS = ("gradient", "bandit")
TASKS = 8
"""Of a model that is drawn from the recordings."""


def study(recordings: Sequence[Recording], curves: Floats, batch: int) -> dict[tuple[str, float], Floats]:
    """By allocator and share of the rounds: float64 [seeds, 3], latency at the end over the foretold low, mean and high
    ends.

    Each seed is a model of other tasks: ``TASKS`` of them, drawn without replacement, each with a curve of that seed.

    Args:
        curves: float64 [tasks, seeds, rounds].
    """
    found: dict[tuple[str, float], list[list[float]]] = {}
    for name in ALLOCATORS:
        for seed in range(curves.shape[1]):
            chosen = np.sort(np.random.default_rng(seed).permutation(len(recordings))[:TASKS])
            model, mine = [recordings[i] for i in chosen], curves[chosen, seed]
            order = order_of(name, model, mine, batch, seed)
            end = latency_after(model, mine, order)
            for share in SHARES:
                known = round(share * len(order))
                told = forecast(views(model, mine, order[:known], batch), len(order) - known)
                if told is not None:
                    found.setdefault((name, share), []).append([end / told.low, end / told.expected, end / told.high])
    return {key: np.array(rows) for key, rows in found.items()}


def report(found: dict[tuple[str, float], Floats], setup: dict[str, str]) -> Report:
    """One line per allocator and share."""
    rows: list[tuple[Any, ...]] = []
    for (name, share), ends in found.items():
        inside = (ends[:, 0] >= 1 - 1e-9) & (ends[:, 2] <= 1 + 1e-9)
        width = np.median(ends[:, 0] / ends[:, 2]) - 1
        rows.append(
            (
                name,
                round(100 * share),
                len(ends),
                round(100 * float(inside.mean()), 1),
                round(100 * float(width), 1),
                round(100 * (float(np.median(ends[:, 1])) - 1), 1),
            )
        )
    summary = (
        f"Models of {TASKS} of the recorded tasks, drawn anew for each seed, and their latency after all rounds. "
        f"The forecast gives the mean and an interval of {LEVEL:.0%} (`GET /v1/jobs/{{job_id}}/forecast`), after "
        "part of the rounds. `inside`: how often the latency at the end is within the interval. "
        "`width`: the "
        "interval's upper end over its lower one, less 1, median. `error`: the end over the forecast mean, less 1, "
        "median; positive: the end was slower."
    )
    columns = ("allocator", "after, % of the rounds", "models", "inside, %", "width, %", "error, %")
    return Report("replay-forecasts", "What is foretold of a job", summary, columns, rows, setup)
