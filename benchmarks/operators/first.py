"""What Tunesmith would have chosen after its first candidates of each function."""

from __future__ import annotations

import collections
import json
import math
from collections.abc import Mapping, Sequence

from benchmarks.harness.jobs import Confirmation, Measured
from tunesmith.metaschedule import DatabaseRecord
from tunesmith.names import SPACES
from tunesmith.targets import Target
from tunesmith.types import Candidate

COUNT = 10


def best_of_first(measured: Sequence[Measured], count: int = COUNT) -> dict[str, tuple[Candidate, float]]:
    """By workload, the fastest of the first ``count`` candidates and its latency in seconds.

    Failed ones count. The default schedule does not, yet may be the fastest.

    Args:
        measured: oldest first.
        count: candidates of each workload.
    """
    seen: collections.Counter[str] = collections.Counter()
    best: dict[str, tuple[Candidate, float]] = {}
    for one in measured:
        seen[one.workload] += one.candidate.sketch is not None
        known = best.get(one.workload, (one.candidate, math.inf))[1]
        if one.latency is not None and seen[one.workload] <= count and one.latency < known:
            best[one.workload] = one.candidate, one.latency
    return best


def champions_of_first(measured: Sequence[Measured], count: int) -> dict[str, tuple[Candidate, float]]:
    """By workload, the champion when so many candidates had been measured, and its latency in seconds.

    A champion was measured again in turn with the one before it, and was faster; that latency counts. Where a job
    measured nothing again, its fastest candidate.

    Args:
        measured: oldest first.
        count: candidates of each workload; failed ones count, the default schedule does not.
    """
    found = best_of_first(measured, count)
    seen: collections.Counter[str] = collections.Counter()
    confirmed: dict[str, list[tuple[Candidate, Confirmation]]] = {}
    for one in measured:
        seen[one.workload] += one.candidate.sketch is not None
        if one.confirmation is not None:
            found.pop(one.workload, None)
            if seen[one.workload] <= count:
                confirmed.setdefault(one.workload, []).append((one.candidate, one.confirmation))
    for workload, champions in confirmed.items():
        former = {each.beside for _, each in champions}
        *_, (candidate, last) = [each for each in champions if each[0] not in former] or champions
        found[workload] = candidate, last.latency
    return found


def records(module: bytes, target: Target, best: Mapping[str, tuple[Candidate, float]]) -> list[DatabaseRecord]:
    """Schedules of a prepared model's functions; one whose best is the default schedule has none.

    Args:
        module: JSON of the model, prepared as it was for the tuner.
        target: what it was tuned for.
        best: by workload.

    Raises:
        InvalidCandidate: a candidate does not fit the function.
    """
    from workers.tvm_backend.design_space.replay import schedule
    from workers.tvm_backend.design_space.space import generate
    from workers.tvm_backend.passes.extract_tasks import extract_tasks

    found = []
    for task in extract_tasks(module):
        candidate, latency = best.get(task.workload.hash, (Candidate(None), 0.0))
        if candidate.sketch is not None:
            # TVM's sketches are not the same in both.
            bodies = {body.hash: body for name in SPACES for body in generate(task.module, target, name)}
            made = schedule(task.module, target, bodies[candidate.sketch], candidate.decisions)
            assert made.trace is not None
            key, encoded = json.loads(task.metaschedule)
            found.append(
                DatabaseRecord((key, encoded), json.loads(made.trace), (latency,), target.to_json(), task.workload.args)
            )
    return found
