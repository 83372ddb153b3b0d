"""The best schedule of each tuner, measured again in one process, so that the last word is the same for all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.harness.processes import ask
from benchmarks.tuners.outcome import Final, TunerRun
from benchmarks.tuners.plan import Deadline
from benchmarks.tuners.remeasure_child import Job
from tunesmith.targets import Target

REMEASURE_SECONDS = 240.0
REPEATS = 20
CHILD = "benchmarks.tuners.remeasure_child"


def run(
    outcomes: Sequence[TunerRun], target: Target, folder: Path, deadline: Deadline, repeats: int = REPEATS
) -> Final:
    """Time the best schedules of one operator and seed.

    Args:
        outcomes: of the tuners; those without a schedule are left out.
        target: what they were tuned for.
        folder: an empty folder.
        deadline: of everything.
        repeats: samples of each.

    Raises:
        MeasurementFailed: a schedule does not build or run, or the time is over.
    """
    first = outcomes[0]
    traces = {outcome.tuner: outcome.trace for outcome in outcomes if outcome.trace is not None}
    job = Job(first.operator, target.to_json(), traces, repeats, str(folder))
    what = f"the best schedules of {first.operator} could not be compared"
    return Final(first.operator, first.seed, **ask(CHILD, job, folder, deadline.left(REMEASURE_SECONDS), what))
