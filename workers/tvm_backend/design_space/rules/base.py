"""The contract of a design-space rule."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator

from tvm.s_tir import Schedule

from tunesmith.analysis.cpu_model import CpuModel

Variant = Callable[[Schedule], None]
"""Schedules a workload; what it samples becomes a sketch's knobs, what it does not is fixed in that sketch."""


class Rule(ABC):
    """Makes sketches of the workloads that it fits.

    Contract, checked by ``tests/integration/design_space/test_rules.py``: deterministic; primitives and sampling
    instructions only; compute locations keep unit loops (``preserve_unit_loops``), so that other decisions replay.
    """

    @abstractmethod
    def variants(self, sch: Schedule, cpu: CpuModel) -> Iterator[Variant]:
        """One for each sketch; none where the rule does not apply.

        Args:
            sch: schedule of the workload, to look at.
            cpu: CPU that the sketches are for.
        """
