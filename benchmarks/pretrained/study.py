"""Jobs of few trials with the shipped models and without them, each in a stack of its own; timed in turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.harness import jobs
from benchmarks.harness.comparison import Entry
from benchmarks.harness.jobs import Request
from benchmarks.harness.means import geometric_band, geometric_mean
from benchmarks.harness.progress import Progress
from benchmarks.harness.report import Report, Row
from benchmarks.operators.cases import Case
from benchmarks.operators.contenders import OperatorComparison
from workers.peers.comparison import Peer

NAME = "pretrained"
JOB_SECONDS = 600.0
"""Seconds in which a job must be over."""
WITH, WITHOUT = "with", "without"


@dataclass(frozen=True)
class TrialPlan:
    """How to go about it.

    Attributes:
        trials: candidates of a job.
        slice: seconds of timing per contender and pass.
        passes: processes of each contender, 2 at least.
    """

    trials: int
    slice: float
    passes: int


@dataclass(frozen=True)
class Pair:
    """What two jobs on an operator found.

    Attributes:
        operator: its name.
        learned, alone: seconds of the kernels with what is shipped and without it; None: it failed, or is wrong.
    """

    operator: str
    seed: int
    learned: float | None
    alone: float | None

    @property
    def ratio(self) -> float | None:
        """Below 1 what is shipped helps; None where one of them has no latency."""
        return self.learned / self.alone if self.learned and self.alone else None


def run(case: Case, seed: int, plan: TrialPlan, folder: Path, progress: Progress) -> Pair:
    """Tune one operator twice, and time both.

    Args:
        case: the operator.
        seed: of both searches.
        plan: how.
        folder: empty; everything made on the way goes there.
        progress: is told what is going on.

    Raises:
        TunesmithError: the operator cannot be read.
    """
    comparison = OperatorComparison(case, folder, progress)
    for name, warm in ((WITH, True), (WITHOUT, False)):
        progress(f"{plan.trials} trials {name} what is shipped, seed {seed}")
        request = Request(comparison.target, seed, plan.trials, JOB_SECONDS, warm_start=warm)
        comparison.enter(name, partial(_tuned, comparison=comparison, request=request), seed)
    comparison.run(plan.slice, plan.passes)
    timed = {entry.runtime: entry.kernel_seconds for entry in comparison.entries.values()}
    return Pair(case.name, seed, timed.get(WITH), timed.get(WITHOUT))


def _tuned(name: str, comparison: OperatorComparison, request: Request) -> tuple[Entry, Peer]:
    return comparison.of_tuned(name, jobs.tune(comparison.file, request, comparison.subfolder(name)))


def line(found: Pair) -> str:
    """A line of progress."""
    return f"{found.operator}, seed {found.seed}: " + (f"{found.ratio:.3f}" if found.ratio else "not comparable")


def report(found: Sequence[Pair], setup: Mapping[str, str]) -> Report:
    """A line for each pair."""
    rows: list[Row] = [
        {
            "operator": each.operator,
            "seed": each.seed,
            "with, µs": each.learned and each.learned * 1e6,
            "without, µs": each.alone and each.alone * 1e6,
            "ratio": each.ratio,
        }
        for each in found
    ]
    summary = (
        "Jobs of few trials in Tunesmith's own space, each in a stack and with a database of its own, so that all that "
        "a job with warm start takes over is what is shipped. What both found was built and timed in turn. "
        f"Below 1 the job with what is shipped found the faster schedule. {_mean(found)}"
    )
    return Report.of(NAME, "Few trials with what is shipped", summary, rows, setup)


def _mean(found: Sequence[Pair]) -> str:
    """Over operators, each of which counts by the mean of its seeds."""
    ratios: dict[str, list[float]] = {}
    for each in found:
        if each.ratio:
            ratios.setdefault(each.operator, []).append(each.ratio)
    band = geometric_band([mean for own in ratios.values() if (mean := geometric_mean(own))])
    if band is None:
        return "No pair is comparable."
    mean, low, high = band
    return f"Geometric mean: {mean:.3f} ({low:.3f} to {high:.3f}, 95 % bootstrap over {len(ratios)} operators)."
