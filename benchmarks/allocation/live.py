"""A model tuned with several allocators for the same time, each alone; then the compiled models timed in turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.allocation.figures import RIVAL, SHARES
from benchmarks.harness.progress import Progress
from benchmarks.harness.report import Report
from benchmarks.models import tuning, zoo
from benchmarks.models.tuning import Point, Request, Tuned
from tunesmith.errors import MeasurementFailed
from tunesmith.preparation import PLAIN
from tunesmith.targets import Target
from workers.peers.comparison import TVM_PEER, Peer, take_turns, write_inputs
from workers.tvm_backend.build.local_model import LocalModel

NAME = "allocation-live"
UNTUNED = "untuned"
SLICE, PASSES = 1.0, 4
COLUMNS = (
    "model",
    "seed",
    "allocator",
    "latency ms",
    "candidates",
    *(f"s to {share:.0%}" for share in SHARES),
    f"s to {RIVAL}'s end",
)


@dataclass(frozen=True)
class Plan:
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


def hold(model: str, seed: int, plan: Plan, folder: Path, progress: Progress) -> list[Run]:
    """Tune one model with every allocator, which one first depends on the seed, and time what came of it in turn.

    Raises:
        TunesmithError: the model cannot be read, a job fails, or a compiled model does not run.
    """
    file = Path(model).absolute() if Path(model).is_file() else zoo.write_model(model, folder / "model.onnx", seed)
    plain = LocalModel(str(file), {}, folder, PLAIN)
    plain.compile(folder / f"{UNTUNED}.so", plan.target, None)
    write_inputs(plain.inputs, folder)
    found = dict[str, Tuned]()
    turn = seed % len(plan.allocators)
    for name in (*plan.allocators[turn:], *plan.allocators[:turn]):
        progress(f"tuning with {name} for {plan.seconds:g} s")
        found[name] = _tune(name, file, seed, plan, folder / name)
    progress("timing the compiled models in turn")
    peers = [Peer(name, TVM_PEER, folder / f"{name}.so") for name in (UNTUNED, *found)]
    results = {result.name: result for result in take_turns(peers, folder, SLICE, plan.target.num_cores, PASSES)}
    bad = next((result for result in results.values() if result.latency is None), None)
    if bad:
        raise MeasurementFailed(f"the model compiled with what {bad.name} found does not run: {bad.failure}")
    latency = {name: result.latency or 0.0 for name, result in results.items()}
    return [
        Run(Path(model).stem, seed, name, latency[name], latency[UNTUNED], tuned.candidates, tuned.curve, plan.seconds)
        for name, tuned in found.items()
    ]


def _tune(name: str, file: Path, seed: int, plan: Plan, folder: Path) -> Tuned:
    folder.mkdir()
    request = Request(plan.target, seed, None, plan.seconds, allocator=name)
    tuned = tuning.tunesmith_warm(file, request, folder)
    local = LocalModel(str(file), {}, folder, tuned.preparation)
    local.compile(folder.parent / f"{name}.so", plan.target, tuned.records)
    return tuned


def report(runs: Sequence[Run], setup: Mapping[str, str]) -> Report:
    """One line per model, seed and allocator."""
    together = dict[tuple[str, int], list[Run]]()
    for run in runs:
        together.setdefault((run.model, run.seed), []).append(run)
    times = {id(run): _times(run, group) for group in together.values() for run in group}
    rows: list[tuple[Any, ...]] = [
        (run.model, run.seed, run.allocator, run.latency * 1e3, run.candidates, *times[id(run)]) for run in runs
    ]
    return Report(NAME, "Allocators live", _summary(together, times), COLUMNS, rows, setup)


def _times(run: Run, group: Sequence[Run]) -> tuple[float, ...]:
    """Seconds to each share of the gain, and to what the rival had at its end."""
    best = min(each.latency for each in group)
    rival = next(each.latency for each in group if each.allocator == RIVAL)
    goals = [run.untuned - share * (run.untuned - best) for share in SHARES]
    return tuple(run.reached(goal) for goal in (*goals, rival))


def _summary(together: Mapping[tuple[str, int], Sequence[Run]], times: Mapping[int, tuple[float, ...]]) -> str:
    lines = [
        "Each allocator tuned the same model for the same wall time, on its own warm stack, alone on the "
        "machine. Then the compiled models were timed in turn, in several processes. `latency`: one inference "
        "end to end. "
        "`s to 95%`: seconds from the job's submission until it had this share of the gain; the gain is that of "
        "the best of these jobs over the untuned model. The last column: until the model was as fast as at the "
        "end of the job with "
        f"`{RIVAL}`. If that never happened, the whole time counts. Before the end a model is not compiled. Its "
        "latency is the sum of its kernels, times the ratio of the compiled model to that sum at the end."
    ]
    names = dict.fromkeys(run.allocator for group in together.values() for run in group if run.allocator != RIVAL)
    for name, other in combinations((*names, RIVAL), 2):
        pairs = [(_of(name, group), _of(other, group)) for group in together.values()]
        ratios = [_spread([theirs.latency / mine.latency for mine, theirs in pairs])]
        ratios += [
            _spread([times[id(theirs)][at] / times[id(mine)][at] for mine, theirs in pairs])
            for at in range(len(SHARES) + 1)
        ]
        lines.append(
            f"**{name}** compared with `{other}`, geometric mean of {len(pairs)} pairs (lowest to highest): models "
            f"{ratios[0]} times as fast; {', '.join(f'{share:.0%}' for share in SHARES)} of the gain, and "
            f"the end of `{RIVAL}`, {', '.join(ratios[1:])} times sooner."
        )
    return "\n\n".join(lines)


def _of(name: str, group: Sequence[Run]) -> Run:
    return next(run for run in group if run.allocator == name)


def _spread(values: Sequence[float]) -> str:
    return f"{np.exp(np.log(values).mean()):.3g} ({np.min(values):.3g} to {np.max(values):.3g})"
