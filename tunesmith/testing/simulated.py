"""A device that exists only as a formula: measurements of a synthetic task, and a tuning loop over them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tunesmith.search.base import Score, Searcher
from tunesmith.testing.synthetic import SyntheticTask
from tunesmith.types import Candidate, FailureKind, Measurement


def measure(
    task: SyntheticTask, candidates: Sequence[Candidate], *, seed: int = 0, noise: float = 0.0, repeats: int = 3
) -> list[Measurement]:
    """Measurements of candidates, in order.

    Args:
        noise: relative deviation of each sample (log-normal); the same candidate and seed give the same samples.
        repeats: samples per candidate.

    Returns:
        samples for valid candidates, failure ``invalid`` for the others.
    """
    batch, valid = task.resolve(task.space.batch(candidates))
    latency, keys = task.latency(batch), task.space.keys(batch)
    out = []
    for i, candidate in enumerate(candidates):
        if not valid[i]:
            out.append(Measurement(candidate, failure=FailureKind.INVALID, message="the synthetic task refuses it"))
            continue
        draws = np.random.default_rng([seed, int(keys[i])]).normal(size=repeats)
        samples = tuple(float(s) for s in latency[i] * np.exp(noise * draws))
        out.append(Measurement(candidate, samples, run_seconds=sum(samples)))
    return out


def tune(
    searcher: Searcher,
    task: SyntheticTask,
    *,
    rounds: int,
    batch: int = 16,
    score: Score | None = None,
    noise: float = 0.0,
    seed: int = 0,
) -> list[float]:
    """Drive a searcher for some rounds; the best latency after each, in seconds."""
    curve: list[float] = []
    best = float("inf")
    for _ in range(rounds):
        results = measure(task, searcher.ask(batch, score=score), seed=seed, noise=noise)
        searcher.tell(results)
        best = min([best, *(m.latency for m in results)])
        curve.append(best)
    return curve
