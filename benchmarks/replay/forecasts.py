"""How often what a model comes to lies within the interval that was foretold, on recorded learning curves.

A model's tasks are recorded spaces, and its rounds go where an allocator gives them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.harness.report import Report
from tunesmith.allocate.base import TaskView
from tunesmith.allocate.forecast import LEVEL, forecast
from tunesmith.allocate.registry import make_allocator
from tunesmith.space.base import Floats
from tunesmith.testing.replay import Recording

ROUNDS = 16
"""Of one task at most; then its curve ends and it counts as exhausted."""
MEAN_ROUNDS = 6
"""Rounds to give away beyond the first of each task, per task."""
SHARES = (0.2, 0.4, 0.6, 0.8)
"""Parts of the rounds, those of the warm-up included, after which the end is foretold."""
ALLOCATORS = ("gradient", "bandit")
TASKS = 8
"""Of a model that is drawn from the recordings."""


def rounds_of(curves: Floats, batch: int) -> Floats:
    """Best latency after each full round, from curves over evaluations: [seeds, rounds]."""
    out: Floats = curves[:, batch - 1 : ROUNDS * batch : batch]
    return out


def order_of(name: str, recordings: Sequence[Recording], curves: Floats, batch: int, seed: int) -> list[int]:
    """The tasks in the order in which the allocator gives them rounds.

    Args:
        curves: best latency of each task after each round, float64 [tasks, rounds].
    """
    allocator, order = make_allocator(name, seed), list[int]()
    for _ in range(len(recordings) * (1 + MEAN_ROUNDS)):
        choice = allocator.choose(views(recordings, curves, order, batch), {})
        if choice is None:
            break
        order.append(choice.task)
    return order


def views(recordings: Sequence[Recording], curves: Floats, order: Sequence[int], batch: int) -> list[TaskView]:
    """What an allocator sees of the tasks after these rounds."""
    done = np.bincount(np.array(order, dtype=np.int64), minlength=len(recordings)).tolist()
    return [
        TaskView(
            id=i,
            weight=r.weight,
            flops=float(r.facts.get("flops", 1.0)),
            family=str(r.facts.get("family", r.name)),
            untuned=r.untuned,
            history=tuple(curves[i, :n].tolist()),
            trials=n * batch,
            exhausted=n >= curves.shape[1],
        )
        for i, (r, n) in enumerate(zip(recordings, done, strict=True))
    ]


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
            seen = zip(model, views(model, mine, order, batch), strict=True)
            end = sum(recorded.weight * min([recorded.untuned, *task.history]) for recorded, task in seen)
            for share in SHARES:
                known = round(share * len(order))
                foretold = forecast(views(model, mine, order[:known], batch), len(order) - known)
                if foretold is not None:
                    ends = [end / foretold.low, end / foretold.expected, end / foretold.high]
                    found.setdefault((name, share), []).append(ends)
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
