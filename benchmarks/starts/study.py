"""Jobs of whole models in pairs, and what each had when; every schedule of both is timed in turn afterwards."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.guides.candidates import CUTOFF
from benchmarks.harness.measurer import LocalMeasurer, discard, open_measurer, race
from benchmarks.harness.operators import Operator
from benchmarks.harness.report import Report, Row
from benchmarks.replay.timing import Timing
from benchmarks.starts.history import History, Measured, programs
from benchmarks.starts.tuned import tuned
from tunesmith.options import JobOptions
from tunesmith.targets import Target
from tunesmith.types import Candidate
from workers.tvm_backend.build.local_model import LocalModel, default_preparation
from workers.tvm_backend.design_space.space import generate
from workers.tvm_backend.passes.extract_tasks import extract_tasks

NAME = "starts"
WITHIN = 1.03
"""Times the latency that the job without what is shipped ends with: near its end."""
PASSES = 3
"""Races of each task's schedules; the median counts."""


@dataclass(frozen=True)
class Pair:
    """Two jobs on a model, without what is shipped and with it.

    Attributes:
        measured: their schedules, timed in turn.
    """

    model: str
    seed: int
    alone: History
    learned: History
    measured: Measured

    def row(self) -> Row:
        """A line of the table."""
        end = self.alone.end(self.measured)
        alone = self.alone.reached(WITHIN * end, self.measured, given=True)
        log, ran = (self.learned.reached(WITHIN * end, self.measured, given=given) for given in (True, False))
        submitted = None if log is None else self.learned.prepared + log
        return {
            "model": self.model,
            "seed": self.seed,
            "without: end, ms": end * 1e3,
            "prepared, s": self.alone.prepared,
            "near, s": alone,
            "with: prepared, s": self.learned.prepared,
            "with: near, s": log,
            "measured near, s": ran,
            "ratio": _over(log, alone),
            "from submission": _over(submitted, None if alone is None else self.alone.prepared + alone),
            "measured": _over(ran, alone),
            "end": self.learned.end(self.measured) / end,
        }


def run(model: str, file: Path, target: Target, seed: int, seconds: float, folder: Path) -> Pair:
    """Tune a model twice, and time what both found. Which job comes first goes by the seed.

    Args:
        seconds: of each job.
        folder: empty; everything made on the way goes there.

    Raises:
        TunesmithError: a job failed, or did not end.
    """
    found: dict[bool, History] = {}
    for warm_start in (False, True) if seed % 2 == 0 else (True, False):
        found[warm_start] = tuned(file, target, seed, seconds, warm_start, folder / str(warm_start))
    with open_measurer() as measurer:
        measured = timed(measurer, file, target, programs(found.values()), folder)
    return Pair(model, seed, found[False], found[True], measured)


def timed(
    measurer: LocalMeasurer, model: Path, target: Target, wanted: Mapping[str, Sequence[Candidate]], folder: Path
) -> dict[tuple[str, Candidate], float]:
    """Seconds of a model's schedules, by workload; infinity for a failure."""
    local = LocalModel(str(model), {}, folder, default_preparation(str(model), target, JobOptions()))
    found = {}
    for task in extract_tasks(local.module):
        candidates = wanted.get(task.workload.hash)
        if not candidates:
            continue
        operator = Operator(task.workload.name, task, {body.hash: body for body in generate(task.module, target)})
        built = measurer.build(operator, candidates)
        passes: list[list[float]] = []
        for _ in range(PASSES):
            with measurer.device() as runner:
                outcomes = race(runner, built, CUTOFF, None)
            passes.append([Timing.of(each, outcome).seconds for each, outcome in zip(built, outcomes, strict=True)])
        discard(built)
        for candidate, seconds in zip(candidates, zip(*passes, strict=True), strict=True):
            found[task.workload.hash, candidate] = statistics.median(seconds)
    return found


def line(pair: Pair) -> str:
    """A line of progress."""
    return ", ".join(
        f"{key} {value:.3g}" if isinstance(value, float) else f"{key} {value}" for key, value in pair.row().items()
    )


def report(found: Sequence[Pair], setup: Mapping[str, str]) -> Report:
    """A line for each pair."""
    rows = [pair.row() for pair in found]
    summary = (
        "Pairs of jobs with a budget of seconds, each in a stack and with a database of its own, so that all that a "
        "job with warm start takes over is what is shipped.\n\n"
        "- All schedules that either job ever took for a task's best are timed in turn afterwards, in races of each "
        "task. Latencies of a model are sums of these: what the jobs measured at their time depends on the machine's "
        "pace then.\n"
        "- `near`: when the model was within 3 % of what the job without ends with. Seconds are from when a job is "
        "prepared, right before its first proposal; `prepared` is the time from the submission until then.\n"
        "- With what is shipped a job has a schedule of each task when it is prepared; `measured near` counts only "
        "those that it had measured.\n"
        "- `ratio`, `from submission` and `measured`: the job with what is shipped over the one without; `end`: its "
        "model's latency at the end over that of the other. An empty cell: it never was near.\n\n"
        f"Medians: {_medians(rows)}."
    )
    return Report.of(NAME, "Where jobs start", summary, rows, setup)


def _medians(rows: Sequence[Row]) -> str:
    """What never came counts as infinitely late."""
    names = ("ratio", "from submission", "measured", "end")
    values = {name: [float("inf") if row[name] is None else float(row[name]) for row in rows] for name in names}
    return ", ".join(f"{name} {statistics.median(each):.3g}" for name, each in values.items())


def _over(one: float | None, other: float | None) -> float | None:
    return None if one is None or not other else one / other
