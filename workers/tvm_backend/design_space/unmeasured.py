"""A schedule for a workload without a measurement of it: the static model's choice, or a relative's, rescaled.

From a model of the device alone, as in Tuna (Wang et al., 2021). Lorien (Yu et al., SoCC 2021) takes what was fast on a
workload alike; here that is for where the model knows nothing, because its own choice is mostly the faster one.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from tunesmith.analysis.prior import StaticPrior, Unit
from tunesmith.errors import InvalidCandidate
from tunesmith.messages import Calibration
from tunesmith.search.base import Prior
from tunesmith.search.construction import construct, ranks
from tunesmith.space.base import Floats, Ints, PointBatch
from tunesmith.targets import Target
from tunesmith.types import Candidate
from tunesmith.unmeasured import Answer, Source
from workers.tvm_backend.design_space.nests.forms import NestForms
from workers.tvm_backend.design_space.sketch import SketchBody
from workers.tvm_backend.design_space.space import TraceSpace, is_generated
from workers.tvm_backend.design_space.static_model import prior_of

DRAWN = 2048
"""Random points from which the static model's choice starts: a model's tasks share fifteen seconds."""
CONSTRUCTED = 8
"""Points that are constructed, in case the first ones turn out invalid."""
NESTS = 16
READ = 8
"""Points of which a reader looks at the code: the best of three times as many that are constructed."""
CLOSE = 3.5
"""How far the best estimate of our own sketches may be from what no schedule goes below, for TVM's not to be looked at.
See docs/decisions/0061-our-own-sketches-first-in-answers.md."""
SEED = 0


class Reader(Protocol):
    """Chooses by more than the static model's estimates."""

    def guide(self, prior: StaticPrior, unit: Unit) -> Prior:
        """What points are constructed from."""

    def __call__(self, traces: TraceSpace, prior: StaticPrior, batch: PointBatch, unit: Unit) -> Ints:
        """The order in which points are to be taken, best first by their guide: rows of a batch, not necessarily
        all."""


@dataclass(frozen=True)
class Relative:
    """A schedule of another workload of the family, rescaled to this one.

    Attributes:
        workload: hash of the one that it was measured on.
        seconds: what it would take here if latencies went with FLOPs.
    """

    candidate: Candidate
    workload: str
    seconds: float


def choose(
    task: tuple[str, str],
    module: bytes,
    target: Target,
    bodies: Sequence[SketchBody],
    relatives: Sequence[Relative] = (),
    calibration: Calibration | None = None,
    forms: NestForms | None = None,
    unit: Unit = contextlib.nullcontext,
    hasty: bool = False,
    reader: Reader | None = None,
) -> Answer:
    """The schedule of a task that nobody measured.

    Args:
        task: name of the task, and hash of its workload.
        module: JSON of the workload.
        bodies: sketches of its design space, more than one point of it.
        relatives: schedules of relatives, the most promising first, for where the static model knows nothing.
        calibration: limits of a device of the target's class; None: typical ones.
        forms: what is known of nests of other workloads.
        unit: is entered for each small piece of work.
        hasty: only the sketch that was chosen in a space alike is looked at. That takes a tenth of the time, and the
            choice depends on which workload came first.
        reader: chooses among those that the static model thinks best; None: it thinks so, too.
    """
    forms = forms or NestForms()
    names = [body.trace for body in bodies]
    at = forms.chosen(names) if hasty else None
    if at is not None:
        bodies = [bodies[at]]
    for made, trace in offers(module, Means(target, calibration, forms, unit, reader), bodies, relatives):
        source = Source.RESCALED if made.workload else Source.ESTIMATED
        if at is None and source is Source.ESTIMATED:
            forms.choose(names, [body.hash for body in bodies].index(str(made.candidate.sketch)))
        return Answer(*task, source, made.seconds, made.workload or None, trace, made.candidate)
    return Answer(*task, Source.DEFAULT)


@dataclass(frozen=True)
class Means:
    """What a choice is made with; see :func:`choose`."""

    target: Target
    calibration: Calibration | None = None
    forms: NestForms = field(default_factory=NestForms)
    unit: Unit = contextlib.nullcontext
    reader: Reader | None = None


def offers(
    module: bytes, means: Means, bodies: Sequence[SketchBody], relatives: Sequence[Relative] = ()
) -> Iterator[tuple[Relative, Any]]:
    """Schedules that apply, with their traces, the one to take first. They are of our own sketches where one of those
    comes close to what can be.

    Args:
        module, bodies, relatives: see :func:`choose`.
    """
    ours = [body for body in bodies if not is_generated(body)]
    if 0 < len(ours) < len(bodies):
        yield from _applied(module, means, ours, (), CLOSE)
    yield from _applied(module, means, bodies, relatives, np.inf)


def _applied(
    module: bytes, means: Means, bodies: Sequence[SketchBody], relatives: Sequence[Relative], close: float
) -> Iterator[tuple[Relative, Any]]:
    with means.unit():
        traces = TraceSpace(module, means.target, bodies, forms=means.forms)
    for made in _offers(traces, means, relatives, close):
        try:
            with means.unit():
                trace = json.loads(traces.trace(made.candidate))
        except InvalidCandidate:
            continue
        yield made, trace


def _offers(traces: TraceSpace, means: Means, relatives: Sequence[Relative], close: float) -> Iterator[Relative]:
    """The static model's own choices, which have no workload, if one is ``close`` to what can be; then relatives."""
    unit, reader = means.unit, means.reader
    prior = prior_of(traces, means.target, means.calibration, unit, NESTS)
    space = traces.space
    if prior is not None:
        count = CONSTRUCTED if reader is None else 3 * READ
        guide = prior if reader is None else reader.guide(prior, unit)
        made = construct(space, guide, np.random.default_rng(SEED), count, DRAWN)
        cost: Floats = prior(made)
        order = np.argsort(ranks(cost if reader is None else guide(made)), kind="stable")
        order = order[np.isfinite(cost[order])]  # a log can hold no latency that is no number
        if not _reached(prior, made.take(order), close):
            return
        if reader is not None and len(order):
            best = order[:READ]
            order = np.concatenate([best[reader(traces, prior, made.take(best), unit)], order[READ:]])
        for row in order:
            (candidate,) = space.candidates(made.take(slice(row, row + 1)))
            yield Relative(candidate, "", float(cost[row]))
    known = space.known([relative.candidate for relative in relatives])
    yield from (relative for relative, mine in zip(relatives, known, strict=True) if mine)


def _reached(prior: StaticPrior, batch: PointBatch, close: float) -> bool:
    """Whether the best of some points is ``close`` to what no schedule goes below."""
    if close == np.inf:
        return True
    if not len(batch):
        return False
    best = int(prior(batch).argmin())
    return bool(prior.excess(batch.take(slice(best, best + 1)))[0] <= close)
