"""A model tuned with several allocators for the same time, each alone; then the compiled models timed in turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.allocation.figures import BASELINE, SHARES
from benchmarks.harness import jobs
from benchmarks.harness.comparison import Comparison, Entry
from benchmarks.harness.contenders import UNTUNED
from benchmarks.harness.jobs import Point, Request, Tuned
from benchmarks.harness.progress import Progress
from benchmarks.harness.report import Report
from benchmarks.models import zoo
from tunesmith.errors import MeasurementFailed
from tunesmith.targets import Target
from workers.peers.comparison import Peer

NAME = "allocation-live"
SLICE, PASSES = 1.0, 4


@dataclass(frozen=True)
class LivePlan:
    """How to go about it.

    Attributes:
        allocators: their names.
        target: what to tune for.
        seconds: wall time of each job, from its submission.
    """

    allocators: tuple[str, ...]
    target: Target
    seconds: float


@dataclass(frozen=True)
class Run:
    """What came of one job.

    Attributes:
        latency: seconds of the compiled model, end to end.
        untuned: the same of the model without schedules.
        candidates: measured with success.
        curve: sum of the kernels over time, by the job's own measurements.
        seconds: that it had.
    """

    model: str
    seed: int
    allocator: str
    latency: float
    untuned: float
    candidates: int
    curve: tuple[Point, ...]
    seconds: float

    def reached(self, goal: float) -> float:
        """Seconds until the model ran end to end in ``goal`` seconds, all of its time where it never did.

        The curve is of kernels alone; what it says at its end is what the compiled model takes.
        """
        scale = self.latency / self.curve[-1].latency if self.curve else 1.0
        there = (point.seconds for point in self.curve if point.latency * scale <= goal * (1 + 1e-9))
        return min(next(there, self.seconds), self.seconds)


def run(model: str, seed: int, plan: LivePlan, folder: Path, progress: Progress) -> list[Run]:
    """Tune one model with every allocator, which one first depends on the seed, and time what came of it in turn.

    Raises:
        TunesmithError: the model cannot be read.
        MeasurementFailed: a job fails, or a compiled model does not run.
    """
    comparison = Comparison(zoo.model_file(model, folder, seed), folder, plan.target, progress)
    comparison.enter_as_it_is(UNTUNED)
    found = dict[str, Tuned]()

    def tune(name: str) -> tuple[Entry, Peer]:
        progress(f"tuning with {name} for {plan.seconds:g} s")
        request = Request(plan.target, seed, None, plan.seconds, allocator=name)
        found[name] = jobs.tune_warm(comparison.file, request, comparison.subfolder(name))
        return comparison.of_tuned(name, found[name])

    for name in in_turn(plan.allocators, seed):
        comparison.enter(name, tune)
    comparison.run(SLICE, PASSES)
    latency = {name: entry.result.latency for name, entry in comparison.entries.items() if entry.result.latency}
    bad = next((entry for name, entry in comparison.entries.items() if name not in latency), None)
    if bad:
        raise MeasurementFailed(f"there is no model of {bad.runtime} to time: {bad.result.failure}")
    return [
        Run(Path(model).stem, seed, name, latency[name], latency[UNTUNED], tuned.candidates, tuned.curve, plan.seconds)
        for name, tuned in found.items()
    ]


def in_turn(allocators: Sequence[str], seed: int) -> tuple[str, ...]:
    """The allocators in the order of a seed: another one is first with each."""
    turn = seed % len(allocators)
    return (*allocators[turn:], *allocators[:turn])


def report(runs: Sequence[Run], setup: Mapping[str, str]) -> Report:
    """One line per model, seed and allocator."""
    together = dict[tuple[str, int], list[Run]]()
    for run in runs:
        together.setdefault((run.model, run.seed), []).append(run)
    times = {id(run): _times(run, group) for group in together.values() for run in group}
    goals = (*(f"s to {share:.0%}" for share in SHARES), f"s to {BASELINE}'s end")
    columns = ("model", "seed", "allocator", "latency ms", "candidates", *goals)
    rows: list[tuple[Any, ...]] = [
        (run.model, run.seed, run.allocator, run.latency * 1e3, run.candidates, *times[id(run)]) for run in runs
    ]
    return Report(NAME, "Allocators live", _summary(together, times), columns, rows, setup)


def _times(run: Run, group: Sequence[Run]) -> tuple[float, ...]:
    """Seconds to each share of the gain, and to what the baseline had at its end."""
    best = min(each.latency for each in group)
    baseline = next(each.latency for each in group if each.allocator == BASELINE)
    goals = [run.untuned - share * (run.untuned - best) for share in SHARES]
    return tuple(run.reached(goal) for goal in (*goals, baseline))


def _summary(together: Mapping[tuple[str, int], Sequence[Run]], times: Mapping[int, tuple[float, ...]]) -> str:
    lines = [
        "Each allocator tuned the same model for the same wall time, on its own warm stack, alone on the "
        "machine. Then the compiled models were timed in turn, in several processes. `latency`: one inference "
        "end to end. "
        "`s to 95%`: seconds from the job's submission until it had this share of the gain; the gain is that of "
        "the best of these jobs over the untuned model. The last column: until the model was as fast as at the "
        "end of the job with "
        f"`{BASELINE}`. If that never happened, the whole time counts. Before the end a model is not compiled. Its "
        "latency is the sum of its kernels, times the ratio of the compiled model to that sum at the end."
    ]
    names = dict.fromkeys(run.allocator for group in together.values() for run in group if run.allocator != BASELINE)
    for name, other in combinations((*names, BASELINE), 2):
        pairs = [(_of(name, group), _of(other, group)) for group in together.values()]
        ratios = [_spread([theirs.latency / mine.latency for mine, theirs in pairs])]
        ratios += [
            _spread([times[id(theirs)][at] / times[id(mine)][at] for mine, theirs in pairs])
            for at in range(len(SHARES) + 1)
        ]
        lines.append(
            f"**{name}** compared with `{other}`, geometric mean of {len(pairs)} pairs (lowest to highest): models "
            f"{ratios[0]} times as fast; {', '.join(f'{share:.0%}' for share in SHARES)} of the gain, and "
            f"the end of `{BASELINE}`, {', '.join(ratios[1:])} times sooner."
        )
    return "\n\n".join(lines)


def _of(name: str, group: Sequence[Run]) -> Run:
    return next(run for run in group if run.allocator == name)


def _spread(values: Sequence[float]) -> str:
    return f"{np.exp(np.log(values).mean()):.3g} ({np.min(values):.3g} to {np.max(values):.3g})"
