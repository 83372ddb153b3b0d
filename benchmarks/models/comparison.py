"""One model on every runtime: tuned first, each tuner alone; then all libraries timed in turn."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from benchmarks.harness import jobs
from benchmarks.harness.comparison import Compared, Comparison, Entry
from benchmarks.harness.contenders import JOBS, TUNERS, precision_of
from benchmarks.harness.jobs import Request, Tuned
from benchmarks.harness.progress import Progress
from benchmarks.models import tune_relax, zoo
from tunesmith.targets import Target
from workers.peers.comparison import Peer


@dataclass(frozen=True)
class ModelsPlan:
    """How to go about it.

    Attributes:
        names: of ``CONTENDERS``.
        seconds: wall time of each tuner.
        slice: seconds of timing per contender and pass.
        passes: processes of each contender in a race, 2 at least.
        races: how often all libraries are timed, once they are made.
    """

    names: tuple[str, ...]
    target: Target
    seconds: float
    slice: float
    passes: int
    seed: int
    races: int = 1


@dataclass(frozen=True)
class ModelOutcome(Compared):
    """What came of a model; ``bytes_``: weights and inputs, the least that has to be read.

    Attributes:
        passes: processes of each contender in a race.
    """

    model: str = field(kw_only=True)
    passes: int = field(kw_only=True, default=2)


def run(model: str, plan: ModelsPlan, folder: Path, progress: Progress) -> ModelOutcome:
    """Tune and time one model.

    Args:
        model: a file, or a name of the zoo.
        plan: what takes part, and for how long.
        folder: empty; everything made on the way goes there.
        progress: is told what is going on.

    Raises:
        TunesmithError: the model cannot be read. A contender that fails is an entry that says why.
    """
    file = zoo.model_file(model, folder, plan.seed)
    progress("preparing the model")
    comparison = Comparison(file, folder, plan.target, progress)
    for name in plan.names:
        enter(comparison, name, plan)
    comparison.run(plan.slice, plan.passes * plan.races)
    local = comparison.local
    inputs = sum(math.prod(spec.shape) * 4 for spec in local.inputs)
    bytes_ = float(local.params.stat().st_size + inputs)
    entries = list(comparison.entries.values())
    return ModelOutcome(comparison.flops, bytes_, entries, model=Path(model).stem, passes=plan.passes)


def enter(comparison: Comparison, name: str, plan: ModelsPlan) -> None:
    """Make what a contender runs, by tuning where it is a tuner."""
    if name in TUNERS:
        comparison.progress(f"tuning with {name} for {plan.seconds:g} s")
        comparison.enter(name, partial(_tuned, comparison=comparison, plan=plan))
    else:
        comparison.enter_as_it_is(name)


def _tuned(name: str, comparison: Comparison, plan: ModelsPlan) -> tuple[Entry, Peer]:
    return comparison.of_tuned(name, _tune(name, comparison, plan))


def _tune(name: str, comparison: Comparison, plan: ModelsPlan) -> Tuned:
    folder = comparison.subfolder(name)
    if name in JOBS:
        precision = precision_of(name)
        request = Request(plan.target, plan.seed, None, plan.seconds, precision=precision)
        return jobs.tune(comparison.file_in(precision), request, folder)
    per_round = int(name.removeprefix("metaschedule-"))
    return tune_relax.tune(comparison.local.module, plan.target, plan.seconds, per_round, plan.seed, folder)
