"""Chooses by machine code among candidates that nobody measures.

LLVM makes slow code of one schedule in ten or so, for reasons that are its own: accumulators that leave the registers,
elements gathered one by one. The static model does not see that, and its choice may then take several times as long as
the next. So its choice is compiled to be read before it is taken.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import numpy as np

from costmodels.base import CostModel, Features, Floats32
from costmodels.pretrained import code_ranker, ranker
from tunesmith.analysis import machine_code
from tunesmith.analysis.prior import StaticPrior, Unit
from tunesmith.analysis.rows import BLOCKS, PLACE, STATIC
from tunesmith.names import FLOAT32
from tunesmith.search.base import Prior
from tunesmith.space.base import Ints, PointBatch
from tunesmith.targets import Target
from tunesmith.types import Candidate
from workers.core.guide import in_turn, known
from workers.tvm_backend.build.assembly import assembly_within
from workers.tvm_backend.design_space.space import TraceSpace

ALWAYS = 2
"""Candidates of a task that are read, unless one is both guides' first."""
DOUBT = 0.5
"""How much more another candidate must score, in logarithms to base two. Chosen by held-out workloads, see
docs/benchmarks.md."""
SECONDS = 2.0
"""Time after which no further candidate of a task is read: long straight code may take LLVM seconds."""
CONVOLUTION, OTHER_ALGORITHM = "conv2d", 8
"""Blocks from which a convolution is computed by another algorithm, Winograd's. The models learned of none: they prefer
programs of several parallel loops that hand over much from core to core, which code does not show."""
COMPILER_SECONDS = 5.0
"""Time after which a candidate counts as one that cannot be compiled: building a library with it would take as long."""


def reader(family: str, dtypes: Iterable[str], target: Target) -> CodeReader | None:
    """What reads candidates of a workload; None where nothing was learned of such programs.

    Args:
        family: the workload's.
        dtypes: types of the workload's arguments.
    """
    if {*dtypes} != {FLOAT32} or not known(family, target):
        return None
    return CodeReader(code_ranker(), ranker(), family)


class CodeReader:
    """Compiles candidates to read their code; nothing is linked or run.

    Args:
        model: takes decision rows with counts of machine code.
        ranker: takes decision rows; the first candidates are its own and the static model's.
        family: the workload's.
        clock: seconds that pass.
    """

    def __init__(
        self, model: CostModel, ranker: CostModel, family: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._model, self._ranker, self._family, self._clock = model, ranker, family, clock

    def guide(self, prior: StaticPrior, unit: Unit) -> Prior:
        """What candidates are constructed from: the static model and the ranker in turn."""
        return in_turn(prior, self._ranker, self._family, FLOAT32, unit)

    def __call__(self, traces: TraceSpace, prior: StaticPrior, batch: PointBatch, unit: Unit) -> Ints:
        """Rows of a batch: the one to take first, then the others as they are, without those that cannot be compiled.

        The first ``ALWAYS`` are read, which are the static model's and the ranker's, but only one where both like it
        best. The next one is only while its estimate is better than what was read of the best, and while there is time:
        mostly no more are compiled. Scores of different workloads cannot be compared, so it is a rule of thumb.
        Convolutions by another algorithm are left as they are.
        """
        rows = prior.rows(batch, self._family, FLOAT32)
        if self._family == CONVOLUTION and rows[:, PLACE[BLOCKS]].max() >= OTHER_ALGORITHM:
            return np.arange(len(batch))
        hoped = -rows[:, PLACE[STATIC]].astype(np.float64)
        ranked, _ = self._ranker.predict(Features(rows, np.arange(len(rows) + 1)))
        always = 1 if hoped.argmax() == ranked.argmax() == 0 else ALWAYS
        best, found, failed, began = -1, -np.inf, set[int](), self._clock()
        for at, candidate in enumerate(traces.space.candidates(batch)):
            if at and self._clock() - began > SECONDS:
                break
            if at >= always and hoped[at] <= found + DOUBT:
                break
            with unit():
                score = self._score(rows[at], traces, candidate)
            if score is None:
                failed.add(at)
            elif best < 0 or score > found + DOUBT:
                best, found = at, score
        left = [at for at in range(len(batch)) if at not in failed]
        return np.array(sorted(left, key=lambda at: at != best), dtype=np.int64)

    def _score(self, row: Floats32, traces: TraceSpace, candidate: Candidate) -> float | None:
        """What the model says of a candidate, and the static model where it says nothing; None of one that cannot be
        compiled."""
        try:
            counts = machine_code.code_row(assembly_within(traces, candidate, COMPILER_SECONDS))
        except Exception:  # compilers raise many classes, and each is a reason to take another candidate
            return None
        score = float(self._model.predict(Features(row[None], np.arange(2), counts[None]))[0][0])
        return score if score == score else -float(row[PLACE[STATIC]])
