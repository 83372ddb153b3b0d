"""The first candidates of operators that nobody measured, by who proposes them; all are measured, in one race each."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.harness.measurer import LocalMeasurer, discard, open_measurer, race
from benchmarks.harness.operators import Operator, load
from benchmarks.harness.report import Report, Row
from benchmarks.replay.timing import LIMITS, Timing
from tunesmith.analysis.prior import StaticPrior
from tunesmith.dataset.families import FAMILIES, draw_operators
from tunesmith.errors import TargetUnavailable
from tunesmith.messages import Calibration
from tunesmith.names import FLOAT32
from tunesmith.search.base import Prior
from tunesmith.search.construction import construct, ranks
from tunesmith.space.base import Floats, PointBatch
from tunesmith.space.space import concat
from tunesmith.testing import score
from workers.core.code_reader import CodeReader, reader
from workers.core.guide import shipped
from workers.tvm_backend.design_space.space import TraceSpace
from workers.tvm_backend.design_space.static_model import prior_of
from workers.tvm_backend.design_space.unmeasured import DRAWN, READ

NAME = "guides"
MEASUREMENTS = (1, 2, 4, 8)
"""Measurements after which the best is looked at."""
NESTS = 64
"""Nests that the static model may make, as in a batch of eight."""
SAME = 0.03
"""A smaller difference is none."""
CUTOFF = LIMITS.model_copy(update={"cutoff": 8.0})


@dataclass(frozen=True)
class Measured:
    """An operator.

    Attributes:
        spec: its text.
        static, both: latencies of what the static model constructs, and of what it does in turn with the shipped
            ranker, in order; seconds, infinity for a failure.
        best: latency of the static model's choice where nothing is measured.
        chosen: that of the choice that is read before it is taken.
    """

    spec: str
    static: Floats
    both: Floats
    best: float
    chosen: float

    def ratio(self, first: int) -> float:
        """Best of the first candidates of both over that of the static model's."""
        return float(_best(self.both, first) / _best(self.static, first))


def measured(count: int, seed: int) -> Iterator[Measured]:
    """Draw operators, and measure what is proposed of each on this machine's device.

    Raises:
        TargetUnavailable: nothing that is shipped was learned for this processor.
    """
    with open_measurer() as measurer:
        calibration = measurer.calibration()
        for spec in draw_operators(list(FAMILIES), count, seed):
            found = _of(measurer, calibration, spec.canonical)
            if found is not None:
                yield found


def _of(measurer: LocalMeasurer, calibration: Calibration, spec: str) -> Measured | None:
    """None for an operator of which the static model knows nothing."""
    operator, target = load(spec, measurer.target), measurer.target
    traces = TraceSpace(operator.task.module, target, list(operator.bodies.values()))
    prior = prior_of(traces, target, calibration, nests=NESTS)
    family = operator.task.workload.family
    read = reader(family, [FLOAT32], target)
    if prior is None or read is None:
        raise TargetUnavailable(f"nothing that is shipped was learned for {target.to_json()}: it needs AVX-512")
    both = shipped(prior, family, FLOAT32, target, contextlib.nullcontext)
    assert both is not None
    lists = [_first(traces, guide, max(MEASUREMENTS)) for guide in (prior, both)]
    best, chosen = _sorted(traces, prior).take(slice(0, 1)), _chosen(traces, prior, read)
    if not all(map(len, (*lists, best, chosen))):
        return None
    seconds = _latencies(measurer, operator, traces, [*lists, best, chosen])
    return Measured(spec, seconds[0], seconds[1], float(seconds[2][0]), float(seconds[3][0]))


def _first(traces: TraceSpace, guide: Prior, count: int) -> PointBatch:
    return construct(traces.space, guide, np.random.default_rng(0), count, DRAWN)


def _sorted(traces: TraceSpace, guide: Prior) -> PointBatch:
    """Constructed points, the best by their guide first."""
    made = _first(traces, guide, 3 * READ)
    return made.take(np.argsort(ranks(guide(made)), kind="stable"))


def _chosen(traces: TraceSpace, prior: StaticPrior, read: CodeReader) -> PointBatch:
    """What is taken where nothing is measured."""
    made = _sorted(traces, read.guide(prior, contextlib.nullcontext)).take(slice(0, READ))
    return made.take(read(traces, prior, made, contextlib.nullcontext)[:1])


def _latencies(
    measurer: LocalMeasurer, operator: Operator, traces: TraceSpace, lists: Sequence[PointBatch]
) -> list[Floats]:
    """Latencies of the points of each list; each program is built and raced once."""
    space, every = traces.space, concat(lists)
    canonical, valid = traces.resolve(every)
    keys = space.keys(canonical)
    _, first = np.unique(keys, return_index=True)
    rows = first[valid[first]]
    built = measurer.build(operator, space.candidates(canonical.take(rows)))
    with measurer.device() as runner:
        outcomes = race(runner, built, CUTOFF, None)
    known: Mapping[int, float] = {
        int(key): Timing.of(each, outcome).seconds
        for key, each, outcome in zip(keys[rows], built, outcomes, strict=True)
    }
    discard(built)
    seconds = np.array([known.get(int(key), np.inf) for key in keys])
    return np.split(seconds, np.cumsum([len(each) for each in lists])[:-1])


def _best(seconds: Floats, first: int) -> float:
    """The best of the first that ran; infinity where none did."""
    ran = seconds[np.isfinite(seconds)][:first]
    return float(ran.min()) if len(ran) else float("inf")


def line(found: Measured) -> str:
    """A line of progress."""
    ratios = ", ".join(f"{found.ratio(first):.2f}" for first in MEASUREMENTS)
    return f"{found.spec}: choice {found.chosen / found.best:.2f}, first {', '.join(map(str, MEASUREMENTS))}: {ratios}"


def report(found: Sequence[Measured], setup: Mapping[str, str]) -> Report:
    """One line per moment."""
    rows = [_row("choice, nothing measured", [each.chosen / each.best for each in found])]
    rows += [_row(f"best of the first {first}", [each.ratio(first) for each in found]) for first in MEASUREMENTS]
    summary = (
        f"{len(found)} drawn operators, none of which was learned from. What is proposed before anything is measured "
        "was built and measured, in one race for each operator.\n\n"
        "- The ratio is the latency with the shipped models over that of the static model alone, geometric mean with a "
        "95 % bootstrap over operators.\n"
        "- `choice`: of `tunesmith compile` without a log. `first`: the first candidates of a job.\n"
        f"- Faster, slower: by more than {SAME:.0%}."
    )
    return Report.of(NAME, "First candidates, measured", summary, rows, setup)


def _row(what: str, ratios: Sequence[float]) -> Row:
    logs = np.log([ratio for ratio in ratios if np.isfinite(ratio) and ratio > 0])
    band = score.bootstrap(logs.reshape(-1, 1), spaces_too=True)
    return {
        "when": what,
        "ratio": round(math.exp(band.mean), 3),
        "95 % from": round(math.exp(band.low), 3),
        "to": round(math.exp(band.high), 3),
        "faster": int((logs < np.log(1 - SAME)).sum()),
        "slower": int((logs > np.log(1 + SAME)).sum()),
        "worst": round(float(np.exp(logs.max())), 2),
    }
