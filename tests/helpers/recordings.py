"""Recordings of spaces whose latencies are a formula, in the shape of the real ones."""

from __future__ import annotations

import numpy as np

from benchmarks.replay.reduce import reduce
from tunesmith.space.space import Space
from tunesmith.testing.replay import Recording
from tunesmith.testing.synthetic import SyntheticTask, matmul_space
from tunesmith.types import Candidate


def synthetic(name: str = "toy", seed: int = 0, points: int = 120, extent: int = 64) -> Recording:
    """A reduced matrix product: some points are invalid, some crash, some are other spellings."""
    full = matmul_space(extent, extent, extent)
    task = SyntheticTask(full, seed=seed, base=1e-4 * (1 + seed), invalid=0.1)
    rng = np.random.default_rng(seed)
    pilot, valid = task.resolve(full.sample(rng, 30))
    pilot = pilot.take(valid)
    small = reduce(full, pilot, task.latency(pilot), points, rng)
    spelled = full.batch(everything(small))
    canonical, valid = task.resolve(spelled)
    alias = np.arange(small.size)
    _, first, place = np.unique(full.keys(canonical), return_index=True, return_inverse=True)
    alias = first[place]
    failure = np.where(valid, "", "invalid").astype("<U16")
    failure[valid & (rng.random(small.size) < 0.05)] = "crash"
    failure = failure[alias]
    seconds = np.where(failure == "", task.latency(canonical), np.inf)
    facts = {"flops": 2.0 * extent**3, "family": "matmul", "cpu": "formula", "cores": 1, "complete": True}
    return Recording(
        name,
        small,
        alias,
        seconds,
        np.full(small.size, 0.02),
        failure,
        np.full(small.size, 0.1),
        1e-2 * (1 + seed),
        1.0 + seed,
        facts,
    )


def everything(space: Space) -> list[Candidate]:
    """Every point of a small space."""
    return space.candidates(space.at(np.arange(space.size)))
