"""How our narrow precisions compare with the fastest other runtime, race by race."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.harness.contenders import DEFAULT, OURS, TUNESMITH, precision_of
from benchmarks.harness.means import geometric_mean
from tunesmith.names import BF16, INT8

if TYPE_CHECKING:
    from benchmarks.harness.comparison import Entry
    from benchmarks.models.comparison import ModelOutcome

THEIRS = {BF16: (BF16, DEFAULT), INT8: (INT8,)}
"""By precision: those of the other runtimes that are compared with."""


@dataclass(frozen=True)
class Verdict:
    """One model in one precision.

    Attributes:
        runtime: ours.
        peer: the fastest other runtime at that precision, over all races.
        ratios: our latency over the peer's, one of each race.
        own: our latency over that of our float32; None where that took no part.
    """

    model: str
    runtime: str
    peer: str
    ratios: tuple[float, ...]
    own: float | None

    @property
    def ratio(self) -> float:
        """The median of the races."""
        return statistics.median(self.ratios)


def races(medians: Sequence[float], passes: int) -> tuple[float, ...]:
    """Latency of each race, the median of its passes, in seconds.

    Args:
        medians: of the processes, in their order.
        passes: processes of a race.
    """
    return tuple(statistics.median(medians[at : at + passes]) for at in range(0, len(medians), passes))


def by_race(one: Entry, other: Entry, passes: int) -> tuple[float, ...]:
    """The latency of one over the other's, of each race that both ran in."""
    mine, theirs = (races(entry.result.medians, passes) for entry in (one, other))
    return tuple(mine[at] / theirs[at] for at in range(min(len(mine), len(theirs))))


def verdicts(outcomes: Sequence[ModelOutcome]) -> list[Verdict]:
    """One for each model and precision in which both sides have a latency."""
    found = []
    for outcome in outcomes:
        for entry in outcome.entries:
            precision = precision_of(entry.runtime)
            if entry.runtime in OURS and precision in THEIRS and entry.result.latency:
                peer = _fastest([e for e in outcome.entries if is_peer(e, precision)])
                if peer is not None:
                    found.append(_verdict(outcome, entry, peer))
    return found


def text(outcomes: Sequence[ModelOutcome]) -> str:
    """The verdicts as lines of Markdown, and the mean of each runtime of several models; empty without one."""
    found = verdicts(outcomes)
    lines = [
        f"- **{each.model}**: `{each.runtime}` takes {each.ratio:.2f} times as long as `{each.peer}`"
        + (f" (races: {', '.join(f'{ratio:.2f}' for ratio in each.ratios)})" if len(each.ratios) > 1 else "")
        + (f", and {each.own:.2f} times as long as our float32" if each.own else "")
        + "."
        for each in found
    ]
    for runtime in dict.fromkeys(each.runtime for each in found):
        ratios = [each.ratio for each in found if each.runtime == runtime]
        if len(ratios) > 1:
            mean = geometric_mean(ratios)
            lines.append(f"- `{runtime}`, geometric mean of {len(ratios)} models: {mean:.2f}; worst {max(ratios):.2f}.")
    return "\n".join(lines)


def is_peer(entry: Entry, precision: str) -> bool:
    """True for another runtime that our narrow precision is compared with."""
    return entry.runtime not in OURS and precision_of(entry.runtime) in THEIRS[precision]


def _fastest(entries: Sequence[Entry]) -> Entry | None:
    ran = [(entry.result.latency, entry) for entry in entries if entry.result.latency]
    return min(ran, key=lambda each: each[0], default=(0.0, None))[1]


def _verdict(outcome: ModelOutcome, ours: Entry, peer: Entry) -> Verdict:
    own = next((e.result.latency for e in outcome.entries if e.runtime == TUNESMITH), None)
    latency = ours.result.latency
    return Verdict(
        outcome.model,
        ours.runtime,
        peer.runtime,
        by_race(ours, peer, outcome.passes),
        latency / own if own and latency else None,
    )
