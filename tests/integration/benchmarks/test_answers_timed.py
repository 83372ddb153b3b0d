"""Answers of an operator, and a relative's schedule, timed beside what a search found."""

from __future__ import annotations

import math
import os
import subprocess
import sys

import numpy as np
import pytest
from process_probe import CHILD_ENV

from benchmarks.answers import study
from benchmarks.guides.candidates import Unmeasured
from benchmarks.harness.measurer import open_measurer
from benchmarks.harness.operators import load
from tunesmith.errors import TargetUnavailable
from workers.core import guide

pytestmark = pytest.mark.servers

BOUND = """
import sys
from benchmarks.harness import child
getattr(child, sys.argv[1])(int(sys.argv[2]))
from workers.tvm_backend.host import describe
print(describe().cores)
"""


def test_what_is_chosen_and_the_most_alike_ones_schedule_are_timed_with_the_searchs() -> None:
    with open_measurer() as measurer:
        calibration, target = measurer.calibration(), measurer.target
        if not guide.known("matmul", target):
            with pytest.raises(TargetUnavailable, match="AVX-512"):
                Unmeasured.open("gemm:16x32x48", target, calibration)
            return
        earlier = []
        for spec in ("gemm:16x32x512", "gemm:16x32x64", "softmax:8x64"):
            operator = load(spec, target)
            (point,) = operator.space.candidates(operator.space.at(np.array([0])))
            earlier.append((operator, point))
        found = Unmeasured.open("gemm:16x32x48", target, calibration)
        relative = study._rescaled(found, earlier)
        (alike,) = found.traces.space.candidates(relative)
        fastest = found.traces.space.candidates(found.first(found.prior, 2))
        answered = study._of(measurer, calibration, "gemm:16x32x48", fastest, earlier)
    assert alike.sketch in found.operator.bodies
    assert answered is not None
    assert set(answered.answers) == {study.STATIC, "estimated", "rescaled"}
    assert math.isfinite(answered.search)


@pytest.mark.parametrize("how", ["use_cores", "leave_cores"])
def test_only_who_runs_kernels_here_is_bound_to_a_core(how: str) -> None:
    cores = len(os.sched_getaffinity(0))
    command = [sys.executable, "-c", BOUND, how, str(cores)]
    done = subprocess.run(command, env=CHILD_ENV, capture_output=True, text=True, timeout=120, check=True)
    assert int(done.stdout.split()[-1]) == (1 if how == "use_cores" else cores)
