"""One operator on every runtime: tuned for each seed, MetaSchedule's runs from recordings, then all timed in turn."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from benchmarks.harness import jobs
from benchmarks.harness.comparison import Compared, Entry
from benchmarks.harness.contenders import METASCHEDULE, TUNERS, TUNESMITH
from benchmarks.harness.jobs import Request, Tuned
from benchmarks.harness.progress import Progress
from benchmarks.operators import first
from benchmarks.operators.cases import Case
from benchmarks.operators.contenders import OperatorComparison
from tunesmith.arithmetic import FLOAT32_BYTES, NARROW
from tunesmith.names import FLOAT32
from tunesmith.operators import OperatorSpec, parse_operator
from workers.peers.comparison import Peer

FIRST_TEN = f"{TUNESMITH}-{first.COUNT}"
"""Tunesmith's runs, had they ended after so many candidates of each function."""
MARGIN = 1.0
"""Seconds kept back of another tuner's time, so that asking for the results stays within it."""


@dataclass(frozen=True)
class OperatorsPlan:
    """How to go about it.

    Attributes:
        names: of ``CONTENDERS``.
        seeds: of the searches.
        seconds: Tunesmith's wall time; None: that of the sooner MetaSchedule run.
        default_seconds: Tunesmith's where neither is known.
        slice: seconds of timing per contender and pass.
        passes: processes of each contender, 2 at least.
        runs: folder of MetaSchedule's recordings.
    """

    names: tuple[str, ...]
    seeds: tuple[int, ...]
    seconds: float | None
    default_seconds: float
    slice: float
    passes: int
    runs: Path


@dataclass(frozen=True)
class OperatorOutcome(Compared):
    """What became of a case; ``bytes_``: all tensors, each once.

    Attributes:
        versions: those of the recordings that were used.
    """

    case: Case = field(kw_only=True)
    versions: Mapping[str, str] = field(default_factory=dict, kw_only=True)


def run(case: Case, plan: OperatorsPlan, folder: Path, progress: Progress) -> OperatorOutcome:
    """Tune and time one operator.

    Args:
        case: the operator.
        plan: who takes part, and for how long.
        folder: empty; everything made on the way goes there.
        progress: is told what is going on.

    Raises:
        TunesmithError: the operator cannot be read. A contender that fails is an entry that says why.
    """
    comparison = OperatorComparison(case, folder, progress)
    for name in plan.names:
        if name not in TUNERS:
            comparison.enter_as_it_is(name)
    for seed in plan.seeds:
        _tune(comparison, plan, seed)
    comparison.run(plan.slice, plan.passes)
    bytes_ = bytes_of(parse_operator(case.operator))
    entries = list(comparison.entries.values())
    return OperatorOutcome(comparison.flops, bytes_, entries, case=case, versions=comparison.versions)


def bytes_of(spec: OperatorSpec) -> float:
    """Bytes of all tensors, each once; in a narrow precision the weights are narrow."""
    narrow = NARROW[spec.precision].bytes if spec.precision in NARROW else FLOAT32_BYTES
    width = dict.fromkeys(spec.weights, narrow)
    tensors = (*spec.inputs, spec.output)
    return float(sum(width.get(each.name, FLOAT32_BYTES) * math.prod(each.shape) for each in tensors))


def _tune(comparison: OperatorComparison, plan: OperatorsPlan, seed: int) -> None:
    """Both tuners with one seed; MetaSchedule, which knows float32 alone, first, because its time is Tunesmith's."""
    baselines = [name for name in METASCHEDULE if name in plan.names and comparison.case.precision == FLOAT32]
    known = comparison.enter_recorded(baselines, seed, plan.runs)
    if TUNESMITH not in plan.names:
        return
    sooner = min((recording.seconds - MARGIN for recording in known.values()), default=plan.default_seconds)
    seconds = plan.seconds or sooner
    comparison.progress(f"tuning with {TUNESMITH}, seed {seed}, for {seconds:.0f} s")
    found: list[Tuned] = []

    def tunesmith(name: str) -> tuple[Entry, Peer]:
        request = Request(comparison.target, seed, None, seconds, precision=comparison.case.precision)
        found.append(jobs.tune(comparison.file, request, comparison.subfolder(name)))
        return comparison.of_tuned(name, found[0])

    comparison.enter(TUNESMITH, tunesmith, seed)
    for tuned in found:
        best = first.best_of_first(tuned.measured)
        comparison.enter(FIRST_TEN, partial(comparison.of_best, tuned=tuned, best=best), seed)
