"""A forest on decision rows and on what the compiler made of them, for the last few candidates of a batch.

Reading the machine code of a program costs its compilation, some tenth of a second. So the ranker chooses among all,
and this one among those that it likes best.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import ClassVar

import numpy as np

from costmodels.base import Features, Floats, Guard, TrainingSet
from costmodels.metrics import filled
from costmodels.ranker import RankerModel
from tunesmith.analysis import machine_code
from tunesmith.analysis.rows import COLUMNS, VERSION
from tunesmith.names import CODE_RANKER

READ = 16
"""Programs of a batch whose machine code is read."""


class CodeRankerModel(RankerModel):
    """The ranker with columns of machine code; takes decision rows and counts, one of each for a program."""

    kind: ClassVar[str] = CODE_RANKER
    rows: ClassVar[str] = f"{VERSION} and {machine_code.VERSION}"
    columns: ClassVar[tuple[str, ...]] = (*COLUMNS, *machine_code.FEATURES)

    def fit(self, data: TrainingSet, guard: Guard = nullcontext) -> None:
        """See :class:`CostModel`. Programs whose machine code nobody read are left out.

        Raises:
            ValueError: there is none with a valid latency whose machine code was read.
        """
        read = np.flatnonzero(_read(data.features))
        data = data.take(read)
        super().fit(replace(data, features=_wide(data.features)), guard)

    def predict(self, features: Features) -> tuple[Floats, Floats]:
        """See :class:`CostModel`; NaN where the static model knows nothing or the machine code was not read."""
        scores, deviation = np.full(len(features), np.nan), np.zeros(len(features))
        read = np.flatnonzero(_read(features))
        scores[read], deviation[read] = super().predict(_wide(features.take(read)))
        return scores, deviation


def chosen_again(scores: Floats, second: Floats, count: int = READ) -> Floats:
    """Scores in whose order the best ``count`` come first, as ``second`` ranks them; float64 [n].

    Args:
        scores: float64 [n], of all; NaN is taken for the median.
        second: float64 [n], an opinion on the best ones; where it is NaN, they stay behind those that have one.
    """
    order = np.argsort(-filled(scores), kind="stable")
    best = order[:count]
    again = best[np.argsort(-np.where(np.isnan(second[best]), -np.inf, second[best]), kind="stable")]
    out = np.empty(len(scores))
    out[np.concatenate([again, order[count:]])] = -np.arange(len(scores), dtype=np.float64)
    return out


def _read(features: Features) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    if features.code is None:
        return np.zeros(len(features), dtype=np.bool_)
    return np.asarray(~np.isnan(features.code).any(axis=1))


def _wide(features: Features) -> Features:
    """Decision rows with what is seen of the machine code beside them."""
    assert features.code is not None or not len(features), "unread programs are left out"
    code = np.zeros((0, len(machine_code.COLUMNS)), np.float32) if features.code is None else features.code
    return Features(np.column_stack([features.rows, machine_code.features(code, features.rows)]), features.offsets)
