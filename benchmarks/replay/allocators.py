"""Every registered allocator on learning curves of recorded spaces: a model whose tasks are the spaces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.harness.report import Report
from benchmarks.replay.searchers import banded
from tunesmith.allocate.base import TaskView
from tunesmith.allocate.registry import ALLOCATORS, make_allocator
from tunesmith.space.base import Floats
from tunesmith.testing import score
from tunesmith.testing.replay import Recording

ROUNDS = 16
"""Of one task at most; then its curve ends and it counts as exhausted."""
MEAN_ROUNDS = 6
"""Rounds to give away beyond the first of each task, per task."""


def rounds_of(curves: Floats, batch: int) -> Floats:
    """Best latency after each full round, from curves over evaluations: [seeds, rounds]."""
    out: Floats = curves[:, batch - 1 :: batch]
    return out


def run(name: str, recordings: Sequence[Recording], curves: Floats, batch: int, seed: int) -> Floats:
    """The model's latency after each round beyond the first of each task, in seconds.

    Args:
        curves: best latency of each task after each round, float64 [tasks, rounds].
    """
    order = order_of(name, recordings, curves, batch, seed)
    first = len(recordings)
    return np.array([latency_after(recordings, curves, order[:n]) for n in range(first + 1, len(order) + 1)])


def order_of(name: str, recordings: Sequence[Recording], curves: Floats, batch: int, seed: int) -> list[int]:
    """The tasks in the order in which the allocator gives them rounds; see :func:`run`."""
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


def latency_after(recordings: Sequence[Recording], curves: Floats, order: Sequence[int]) -> float:
    """The model's latency after these rounds, in seconds."""
    done = np.bincount(np.array(order, dtype=np.int64), minlength=len(recordings)).tolist()
    return float(sum(r.weight * _now(r, curves[i], n) for i, (r, n) in enumerate(zip(recordings, done, strict=True))))


def _now(recording: Recording, curve: Floats, rounds: int) -> float:
    return min(recording.untuned, float(curve[rounds - 1])) if rounds else recording.untuned


def random_allocation(recordings: Sequence[Recording], curves: Floats, steps: int) -> Floats:
    """Expected latency of the model when each of ``steps`` rounds goes to a task drawn at random: float64 [steps].

    After t draws a task of N has had n of them with the binomial probability of n among t at 1/N; rounds beyond the
    end of its curve change nothing.
    """
    n = len(recordings)
    total, most = np.zeros(steps), curves.shape[1] - 1
    odds = np.zeros(steps + 1)
    odds[0] = 1.0
    values = np.array(
        [
            [_now(r, c, 1 + min(k, most)) * r.weight for k in range(steps + 1)]
            for r, c in zip(recordings, curves, strict=True)
        ]
    ).sum(axis=0)
    for t in range(steps):
        odds = odds * (1 - 1 / n) + np.concatenate([[0.0], odds[:-1]]) / n
        total[t] = odds @ values
    return total


def study(recordings: Sequence[Recording], curves: Floats, batch: int) -> Mapping[str, Floats]:
    """P of every allocator after each round: float64 [seeds, steps] by name.

    Args:
        curves: float64 [tasks, seeds, rounds].
    """
    best = sum(r.weight * min(r.untuned, r.optimum) for r in recordings)
    steps, seeds = len(recordings) * min(MEAN_ROUNDS, curves.shape[2] - 1), range(curves.shape[1])
    expected = np.stack([random_allocation(recordings, curves[:, seed], steps) for seed in seeds])
    steps = horizon(expected.mean(axis=0), best)
    out: dict[str, Floats] = {}
    for name in ALLOCATORS:
        found = [run(name, recordings, curves[:, seed], batch, seed)[:steps] for seed in seeds]
        out[name] = np.stack([score.against(f[None], e[:steps], best)[0] for f, e in zip(found, expected, strict=True)])
    return out


def horizon(expected: Floats, best: float) -> int:
    """Rounds until random allocation has come most of the way to the optimum, as a search's budget ends; all of them
    when it never does."""
    goal = expected[0] * (best / expected[0]) ** score.CUTOFF
    near = np.flatnonzero(expected <= goal)
    return int(near[0]) + 1 if len(near) else len(expected)


def report(found: Mapping[str, Floats], tasks: int, batch: int, method: str, setup: dict[str, str]) -> Report:
    """One line per allocator, the best first."""
    rows: list[dict[str, Any]] = [
        {
            "allocator": name,
            **banded("P", score.bootstrap(values.mean(axis=1)[None])),
            "P after the last round": round(score.bootstrap(values[:, -1:].T).mean, 4),
        }
        for name, values in found.items()
    ]
    rows.sort(key=lambda row: -row["P"])
    seeds, steps = next(iter(found.values())).shape
    summary = (
        f"A model of {tasks} tasks, each with the learning curve of {method} on one recorded space ({batch} candidates "
        f"a round, {seeds} seeds); {steps} rounds are given away after the first of each task. P: 0 is the computed "
        "expectation of giving each round to a task at random, 1 the optimum of every task at once; the mean over the "
        "rounds, with a 95 % bootstrap over seeds."
    )
    return Report.of("replay-allocators", "Allocators, replayed", summary, rows, setup)
