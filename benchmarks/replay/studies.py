"""The three studies on recorded data, spread over processes."""

from __future__ import annotations

import functools
import multiprocessing
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.replay import allocators, models, searchers
from benchmarks.replay.searchers import Method
from benchmarks.replay.workloads import load_all
from benchmarks.report import Draw, Report, setup
from tunesmith.space.base import Floats
from tunesmith.testing.replay import Recording

ALLOCATED = Method("genetic", True)
"""Whose learning curves the allocators are tried on."""
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
SHARE = 5
"""Seeds that one process takes at a time."""


@dataclass(frozen=True)
class Plan:
    """What to run: recordings of ``folder``, ``batch`` candidates a round, in ``jobs`` processes."""

    folder: Path
    seeds: tuple[int, ...]
    batch: int
    jobs: int


def study(plan: Plan) -> list[tuple[Report, Draw | None, bool]]:
    """Reports, their plots, and whether they belong on the page of benchmarks.

    Raises:
        InvalidInput: no complete recording.
    """
    recordings = load_all(plan.folder)
    for name in ONE_THREAD:  # each process has a core; the libraries read it when a process loads them
        os.environ.setdefault(name, "1")
    # Spawned, because a fork of a process with threads may hang.
    with ProcessPoolExecutor(plan.jobs, multiprocessing.get_context("spawn")) as pool:
        curves = _curves(pool, plan, recordings)
        trials = list(pool.map(models.run, *zip(*_trials(plan, recordings), strict=True)))
    outcomes = [searchers.judge(r, m, curves[r.name, m][:, :searchers.budget_of(r)])
                for r in recordings for m in searchers.methods()]
    facts = {**_setup(recordings), "seeds": str(len(plan.seeds)), "candidates a round": str(plan.batch)}
    learning = np.stack([allocators.rounds_of(curves[r.name, ALLOCATED], plan.batch)[:, :allocators.ROUNDS]
                         for r in recordings])
    allocated = allocators.study(recordings, learning, plan.batch)
    return [
        (searchers.report(outcomes, facts), functools.partial(searchers.draw, outcomes), True),
        (searchers.details(outcomes, facts), None, False),
        (allocators.report(allocated, len(recordings), plan.batch, ALLOCATED.name, facts), None, True),
        (models.report(trials, facts), None, True),
    ]  # fmt: skip


def _setup(recordings: Sequence[Recording]) -> dict[str, str]:
    first = recordings[0].facts
    recorded = f"{first.get('cpu', '?')}, {first.get('cores', '?')} cores, {first.get('date', '?')}"
    return {**setup("lightgbm", "xgboost-cpu"), "recorded on": recorded}


def _budget(recording: Recording, method: Method, batch: int) -> int:
    budget = searchers.budget_of(recording)
    return max(budget, allocators.ROUNDS * batch) if method == ALLOCATED else budget


def _curves(pool: ProcessPoolExecutor, plan: Plan, recordings: Sequence[Recording]) -> dict[tuple[str, Method], Floats]:
    """Best latency after each evaluation, float64 [seeds, budget], by space and method."""
    parts = [plan.seeds[i:i + SHARE] for i in range(0, len(plan.seeds), SHARE)]
    keys = [(r, m) for r in recordings for m in searchers.methods()]
    futures = [[pool.submit(searchers.run, r, m, part, _budget(r, m, plan.batch), plan.batch) for part in parts]
               for r, m in keys]
    return {(r.name, m): np.concatenate([f.result() for f in mine])
            for (r, m), mine in zip(keys, futures, strict=True)}


def _trials(plan: Plan, recordings: Sequence[Recording]) -> list[tuple[Recording, str, int, int]]:
    return [(r, name, size, seed) for r in recordings for name in models.names() for size in models.SIZES
            for seed in plan.seeds]
