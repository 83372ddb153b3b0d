"""Which operators are compared, on how many threads, and who takes part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.tuners.plan import OPERATORS, QUICK_OPERATORS
from tunesmith.names import FLOAT32
from tunesmith.operators import parse_operator

MAIN, RAGGED = "operators", "operators-ragged"
"""The tables that a case may stand in."""
ONE_THREAD = OPERATORS[0]
FURTHER = ("conv2d:1x128x28x28,128x128x3x3,s1,p1:float32",)
RAGGED_OPERATORS = (
    "gemm:1000x1000x1000:float32",
    "gemm:197x768x768:float32",
    "conv2d:1x96x27x27,256x96x5x5,s1,p2:float32",
    "conv2d:1x3x224x224,64x3x7x7,s2,p3:float32",
)
"""Extents that no power of two divides, and the odd convolutions that image models begin with."""


@dataclass(frozen=True)
class Case:
    """One operator on some threads.

    Attributes:
        operator: its spec, written out.
        threads: cores of the target.
        record_missing: MetaSchedule is run where there is no recording; else it takes part where there is one.
        table: ``MAIN`` or ``RAGGED``.
    """

    operator: str
    threads: int
    record_missing: bool = False
    table: str = MAIN

    @property
    def precision(self) -> str:
        """The precision in which Tunesmith computes it; other runtimes take float32."""
        return parse_operator(self.operator).precision

    @property
    def name(self) -> str:
        """The spec without float32, which most are of; the threads where it is one."""
        return self.operator.removesuffix(f":{FLOAT32}") + (", one thread" if self.threads == 1 else "")


def chosen(operators: Sequence[str] | None, quick: bool, threads: int | None, cores: int) -> list[Case]:
    """The cases of a run.

    Args:
        operators: specs that were asked for.
        quick: two operators, and nothing that takes MetaSchedule's time.
        threads: that were asked for.
        cores: of this machine.

    Raises:
        InvalidOperator: a spec does not parse.
    """
    count = threads or cores
    if operators:
        return [_asked(parse_operator(text).canonical, count) for text in operators]
    if quick:
        return [Case(text, count) for text in QUICK_OPERATORS]
    alone = [Case(ONE_THREAD, 1)] if threads is None and cores > 1 else []
    return [
        *(Case(text, count, record_missing=True) for text in OPERATORS),
        *(Case(text, count) for text in FURTHER),
        *alone,
        *(Case(text, count, table=RAGGED) for text in RAGGED_OPERATORS),
    ]


def _asked(operator: str, threads: int) -> Case:
    return Case(operator, threads, record_missing=True, table=RAGGED if operator in RAGGED_OPERATORS else MAIN)
