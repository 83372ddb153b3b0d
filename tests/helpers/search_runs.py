"""How far a searcher comes on a synthetic task."""

from __future__ import annotations

import numpy as np
from effort import THOROUGH

from tunesmith.space.space import Space
from tunesmith.testing.simulated import tune
from tunesmith.testing.synthetic import SyntheticTask, matmul_space


def one_sketch() -> Space:
    """The matrix product's space, its first sketch alone."""
    return Space(matmul_space().sketches[:1])


def reached(kind: type, mode: str) -> float:
    """Best found over the optimum after five batches, the median of some seeds; ``mode`` names the score function."""
    out = []
    for seed in range(5 if THOROUGH else 2):
        task = SyntheticTask(one_sketch(), seed=seed, invalid=0.2)
        searcher = kind(task.space, seed=seed)
        out.append(tune(searcher, task, rounds=5, score=getattr(task, mode), noise=0.01)[-1] / task.best_latency)
    return float(np.median(out))
