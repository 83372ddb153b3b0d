"""Runs of tuners, as the comparison of tuners records them."""

from __future__ import annotations

from benchmarks.tuners import plan
from tunesmith.targets import Target

TARGET = Target({"kind": "llvm", "mcpu": "znver4", "num-cores": 2})
GEMM = "gemm:64x64x64:float32"


def ask(tuner="metaschedule-16", budget=60.0, operator=GEMM, seed=0):
    """What a tuner is asked for."""
    return plan.Ask(operator, seed, tuner, TARGET, budget)
