"""The three studies on recorded data, spread over processes."""

from __future__ import annotations

import functools
import multiprocessing
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.harness.report import Draw, Report, setup
from benchmarks.replay import best, forecasts, models, searchers
from benchmarks.replay.searchers import Method, Runs
from benchmarks.replay.workloads import load_all
from tunesmith.child_process import THREADS
from tunesmith.search.registry import SEARCHERS
from tunesmith.testing.replay import Recording

FORECAST = Method("genetic", True)
"""Whose learning curves the forecasts are tried on."""
SHARE = 4
"""Seeds that one process takes at a time."""


@dataclass(frozen=True)
class ReplayPlan:
    """What to run.

    Attributes:
        folder: of recordings.
        seeds: of each method's runs on each space.
        batch: candidates a round.
        jobs: processes.
        searchers: to compare; empty: all of them, and forecasts and cost models too.
    """

    folder: Path
    seeds: tuple[int, ...]
    batch: int
    jobs: int
    searchers: tuple[str, ...] = ()


Study = tuple[Report, Draw | None, bool]
"""A report, its plot, and whether it belongs on the page of benchmarks."""


def study(plan: ReplayPlan) -> list[Study]:
    """Searchers and, unless some of them were named, forecasts and cost models.

    Raises:
        InvalidInput: no complete recording.
        UnknownSearcher: a named one is not there.
    """
    SEARCHERS.check(*plan.searchers)
    recordings, methods = load_all(plan.folder), searchers.methods(plan.searchers)
    with workers(plan.jobs) as pool:
        runs = _runs(pool, plan, recordings, methods)
        trials = [] if plan.searchers else list(pool.map(models.run, *zip(*_trials(plan, recordings), strict=True)))
    outcomes = [searchers.judge(r, m, runs[r.name, m]) for r in recordings for m in methods]
    facts = {**_setup(recordings), "seeds": str(len(plan.seeds)), "candidates a round": str(plan.batch)}
    found: list[Study] = [
        (searchers.report(outcomes, facts), functools.partial(searchers.draw, outcomes), True),
        (best.report(outcomes, facts), None, True),
        (searchers.details(outcomes, facts), None, False),
    ]
    return found if plan.searchers else [*found, *_others(plan, recordings, runs, trials, facts)]


def _others(
    plan: ReplayPlan,
    recordings: Sequence[Recording],
    runs: Mapping[tuple[str, Method], Runs],
    trials: Sequence[models.Trial],
    facts: dict[str, str],
) -> list[Study]:
    learning = np.stack([forecasts.rounds_of(runs[r.name, FORECAST].curves, plan.batch) for r in recordings])
    return [
        (forecasts.report(forecasts.study(recordings, learning, plan.batch), facts), None, True),
        (models.report(trials, facts), None, True),
    ]


def workers(jobs: int) -> ProcessPoolExecutor:
    """Processes for replays, each of which has a core."""
    for name in THREADS:  # the libraries read it when a process loads them
        os.environ.setdefault(name, "1")
    # Spawned, because a fork of a process with threads may hang.
    return ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"))


def _setup(recordings: Sequence[Recording]) -> dict[str, str]:
    first = recordings[0].facts
    recorded = f"{first.get('cpu', '?')}, {first.get('cores', '?')} cores, {first.get('date', '?')}"
    return {**setup("lightgbm", "xgboost-cpu"), "recorded on": recorded}


def _budget(recording: Recording, method: Method, batch: int) -> int:
    budget = searchers.budget_of(recording)
    return max(budget, forecasts.ROUNDS * batch) if method == FORECAST else budget


def _runs(
    pool: ProcessPoolExecutor, plan: ReplayPlan, recordings: Sequence[Recording], methods: Sequence[Method]
) -> dict[tuple[str, Method], Runs]:
    """By space and method."""
    parts = [plan.seeds[i : i + SHARE] for i in range(0, len(plan.seeds), SHARE)]
    keys = [(r, m) for r in recordings for m in methods]
    futures = [
        [pool.submit(searchers.run, r, m, part, _budget(r, m, plan.batch), plan.batch) for part in parts]
        for r, m in keys
    ]
    return {(r.name, m): searchers.join([f.result() for f in mine]) for (r, m), mine in zip(keys, futures, strict=True)}


def _trials(plan: ReplayPlan, recordings: Sequence[Recording]) -> list[tuple[Recording, str, int, int]]:
    return [
        (r, name, size, seed)
        for r in recordings
        for name in models.names()
        for size in models.SIZES
        for seed in plan.seeds
    ]
