"""How far the portfolio is behind the best single searcher of each space, and behind the one best on average.

Of many searchers the one with the best mean is also the luckiest one, so half of the seeds choose it, and all that is
said of it comes from the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.harness.report import Report
from benchmarks.replay.searchers import BASELINE, HELD_OUT, Outcome
from benchmarks.replay.workloads import held_out
from tunesmith.space.base import Floats
from tunesmith.testing import score

PORTFOLIO = "portfolio"
SUMMARY = (
    "P of the best searcher of each space, which nobody knows in advance, and of the portfolio of several. Half "
    "of the seeds choose that searcher, and every figure here comes from the other half, because the best of many "
    "is best partly by chance. `behind`: how much smaller the portfolio's P is, with the 95 % band of a bootstrap "
    "over these seeds, each of which both started from. `behind the leader`: the same for the searcher that is "
    "best on average, which is in the line of means. The last line combines each space's own best."
)
COLUMNS = (
    "space",
    "half",
    "ranked",
    "best single one",
    "its P",
    "the portfolio's P",
    "behind",
    "95 % from",
    "to",
    "behind the leader",
)

Found = Mapping[str, Floats]
"""P of each run by searcher, float64 [seeds], or [spaces, seeds]."""


def report(outcomes: Sequence[Outcome], setup: dict[str, str]) -> Report:
    """One line per space, one for the mean of all and one for that of all bests, with a cost model and without."""
    unseen = held_out(o.recording.name for o in outcomes)
    rows: list[tuple[Any, ...]] = []
    for model in (False, True):
        mine = [o for o in outcomes if o.method.model == model or o.method.searcher == BASELINE]
        ranked = f"{'with' if model else 'without'} a cost model"
        spaces = {
            name: {o.method.searcher: o.by_seed for o in mine if o.recording.name == name}
            for name in dict.fromkeys(o.recording.name for o in mine)
        }
        together = {name: np.stack([found[name] for found in spaces.values()]) for name in next(iter(spaces.values()))}
        leader = _best(together)
        best = {name: _best(found) for name, found in spaces.items()}
        rows += [
            (name, HELD_OUT[name in unseen], ranked, best[name], *_compared(found, found[best[name]], leader))
            for name, found in spaces.items()
        ]
        rows.append(("mean of all", None, ranked, leader, *_compared(together, together[leader], leader)))
        bests = np.stack([found[best[name]] for name, found in spaces.items()])
        rows.append(("mean of all", None, ranked, "each space's own", *_compared(together, bests, leader)))
    return Report("replay-best", "The best searcher of each space", SUMMARY, COLUMNS, rows, setup)


def _best(found: Found) -> str:
    """The best single searcher by the seeds that choose; the portfolio where it is alone."""
    return max(
        (name for name in found if name != PORTFOLIO),
        key=lambda name: float(found[name][..., ::2].mean()),
        default=PORTFOLIO,
    )


def _compared(found: Found, best: Floats, leader: str) -> tuple[Any, ...]:
    """The best one's P, the portfolio's, and how far that is behind it and the leader, by the seeds that judge; None
    where there is no portfolio."""
    judged = best[..., 1::2]
    if PORTFOLIO not in found:
        return (round(float(judged.mean()), 4), *[None] * 5)
    own = found[PORTFOLIO][..., 1::2]
    behind = score.bootstrap(np.atleast_2d(judged - own))
    lag = found[leader][..., 1::2] - own
    return tuple(
        round(float(x), 4) for x in (judged.mean(), own.mean(), behind.mean, behind.low, behind.high, lag.mean())
    )
