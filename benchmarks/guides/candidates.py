"""Candidates of an operator before anything is measured, by who proposes them, and what they take."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.harness.measurer import LocalMeasurer, discard, race
from benchmarks.harness.operators import Operator, load
from benchmarks.replay.timing import LIMITS, Timing
from tunesmith.analysis.prior import StaticPrior
from tunesmith.errors import TargetUnavailable
from tunesmith.messages import Calibration
from tunesmith.names import FLOAT32
from tunesmith.search.base import Prior
from tunesmith.search.construction import construct, ranks
from tunesmith.space.base import Floats, PointBatch
from tunesmith.space.space import concat
from tunesmith.targets import Target
from workers.core.code_reader import CodeReader, reader
from workers.core.guide import shipped
from workers.tvm_backend.design_space.space import TraceSpace
from workers.tvm_backend.design_space.static_model import prior_of
from workers.tvm_backend.design_space.unmeasured import DRAWN, READ, Means, offers

NESTS = 64
"""Nests that the static model may make, as in a batch of eight."""
CUTOFF = LIMITS.model_copy(update={"cutoff": 8.0})


@dataclass(frozen=True)
class Unmeasured:
    """An operator of which nothing is measured.

    Attributes:
        operator: its program and its sketches.
        traces: its design space.
        target, calibration: whose first candidates these are.
        prior: the static model, with the calibration.
        read: what reads candidates before one is taken.
    """

    operator: Operator
    traces: TraceSpace
    target: Target
    calibration: Calibration
    prior: StaticPrior
    read: CodeReader

    @classmethod
    def open(cls, spec: str, target: Target, calibration: Calibration) -> Unmeasured:
        """Generate its design space.

        Raises:
            TargetUnavailable: nothing that is shipped was learned for this processor.
        """
        operator = load(spec, target)
        traces = TraceSpace(operator.task.module, target, list(operator.bodies.values()))
        prior = prior_of(traces, target, calibration, nests=NESTS)
        read = reader(operator.task.workload.family, [FLOAT32], target)
        if prior is None or read is None:
            raise TargetUnavailable(f"nothing that is shipped was learned for {target.to_json()}: it needs AVX-512")
        return cls(operator, traces, target, calibration, prior, read)

    def in_turn(self) -> Prior:
        """The static model and the shipped ranker in turn, as in the first batches of a job."""
        family = self.operator.task.workload.family
        both = shipped(self.prior, family, FLOAT32, self.target, contextlib.nullcontext)
        assert both is not None, "where there is something to read with, there is a ranker"
        return both

    def first(self, guide: Prior, count: int) -> PointBatch:
        """What is constructed from a guide."""
        return construct(self.traces.space, guide, np.random.default_rng(0), count, DRAWN)

    def best(self) -> PointBatch:
        """The static model's choice; empty where it knows nothing."""
        made = self.first(self.prior, 3 * READ)
        return made.take(np.argsort(ranks(self.prior(made)), kind="stable")[:1])

    def chosen(self) -> PointBatch:
        """What is taken where nothing is measured; empty where the static model knows nothing."""
        means = Means(self.target, self.calibration, reader=self.read)
        made = offers(self.operator.task.module, means, list(self.operator.bodies.values()))
        return self.traces.space.batch([offer.candidate for offer, _ in itertools.islice(made, 1)])

    def latencies(self, measurer: LocalMeasurer, lists: Sequence[PointBatch]) -> list[Floats]:
        """Latencies of the points of each list in seconds, infinity for a failure; each program is built and raced
        once."""
        space, every = self.traces.space, concat(lists)
        canonical, valid = self.traces.resolve(every)
        keys = space.keys(canonical)
        _, first = np.unique(keys, return_index=True)
        rows = first[valid[first]]
        built = measurer.build(self.operator, space.candidates(canonical.take(rows)))
        with measurer.device() as runner:
            outcomes = race(runner, built, CUTOFF, None)
        known: Mapping[int, float] = {
            int(key): Timing.of(each, outcome).seconds
            for key, each, outcome in zip(keys[rows], built, outcomes, strict=True)
        }
        discard(built)
        seconds = np.array([known.get(int(key), np.inf) for key in keys])
        return np.split(seconds, np.cumsum([len(each) for each in lists])[:-1])
