"""The first candidates of operators that nobody measured, by who proposes them; all are measured, in one race each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.guides.candidates import Unmeasured
from benchmarks.harness.means import band_columns
from benchmarks.harness.measurer import LocalMeasurer, open_measurer
from benchmarks.harness.report import Report, Row
from tunesmith.dataset.families import FAMILIES, draw_operators
from tunesmith.messages import Calibration
from tunesmith.space.base import Floats

NAME = "guides"
MEASUREMENTS = (1, 2, 4, 8)
"""Measurements after which the best is looked at."""
SAME = 0.03
"""A smaller difference is none."""


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
    found = Unmeasured.open(spec, measurer.target, calibration)
    lists = [found.first(guide, max(MEASUREMENTS)) for guide in (found.prior, found.in_turn())]
    best, chosen = found.best(), found.chosen()
    if not all(map(len, (*lists, best, chosen))):
        return None
    seconds = found.latencies(measurer, [*lists, best, chosen])
    return Measured(spec, seconds[0], seconds[1], float(seconds[2][0]), float(seconds[3][0]))


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
    known = [ratio for ratio in ratios if np.isfinite(ratio) and ratio > 0]
    return {
        "when": what,
        **band_columns(known),
        "faster": sum(ratio < 1 - SAME for ratio in known),
        "slower": sum(ratio > 1 + SAME for ratio in known),
        "worst": round(max(known), 2) if known else None,
    }
