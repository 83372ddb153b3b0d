"""Per-store features by TVM's extractor (Zheng et al., "Ansor", 2020, appendix B)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from tvm.s_tir import Schedule
from tvm.s_tir import meta_schedule as ms

from workers.tvm_backend.design_space.replay import Replayer

WIDTH = 164
"""Columns of a store's features."""


class Extractor:
    """Features of scheduled programs of one workload; the work is done in C++ without the GIL."""

    def __init__(self, replayer: Replayer) -> None:
        self._context = replayer.context
        self._args = ms.arg_info.ArgInfo.from_entry_func(replayer.mod, remove_preproc=True)
        self._extractor = ms.feature_extractor.PerStoreFeature()

    def extract(self, sch: Schedule) -> NDArray[np.float32] | None:
        """float32 [stores, WIDTH]; None when the program does not lower."""
        candidate = ms.MeasureCandidate(sch, self._args)
        try:
            found: Any = self._extractor.extract_from(self._context, [candidate])
        except Exception:
            # Lowering raises whatever class the failing pass has; such a program would not build either.
            return None
        rows = found[0].numpy()
        return rows.astype(np.float32) if len(rows) else None
