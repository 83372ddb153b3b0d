"""How far the portfolio is behind the best single searcher of each space, and behind the one best on average.

Of many searchers the one with the best mean is also the luckiest one, so half of the seeds choose it, and all that is
said of it comes from the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.harness.report import Report
from benchmarks.replay.searchers import BASELINE, HELD_OUT, JudgedRuns
from benchmarks.replay.workloads import held_out
from tunesmith.space.base import Floats
from tunesmith.testing import score

PORTFOLIO = "portfolio"
COMPARED = ("its P", "the portfolio's P", "behind", "95 % from", "to", "behind the leader")
SUMMARY = (
    "P of the best searcher of each space, which nobody knows in advance, and of the portfolio of several. Half "
    "of the seeds choose that searcher, and every figure here comes from the other half, because the best of many "
    "is best partly by chance. `behind`: how much smaller the portfolio's P is, with the 95 % band of a bootstrap "
    "over these seeds, each of which both started from. `behind the leader`: the same for the searcher that is "
    "best on average, which is in the line of means. The last line combines each space's own best."
)

Found = Mapping[str, Floats]
"""P of each run by searcher, float64 [seeds], or [spaces, seeds]."""


def report(outcomes: Sequence[JudgedRuns], setup: dict[str, str]) -> Report:
    """One line per space, one for the mean of all and one for that of all bests, with a cost model and without."""
    unseen = held_out(o.recording.name for o in outcomes)
    rows: list[dict[str, Any]] = []
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
            _row(name, HELD_OUT[name in unseen], ranked, best[name]) | _compared(found, found[best[name]], leader)
            for name, found in spaces.items()
        ]
        bests = np.stack([found[best[name]] for name, found in spaces.items()])
        for which, own in ((leader, together[leader]), ("each space's own", bests)):
            rows.append(_row("mean of all", None, ranked, which) | _compared(together, own, leader))
    return Report.of("replay-best", "The best searcher of each space", SUMMARY, rows, setup)


def _row(space: str, half: str | None, ranked: str, best: str) -> dict[str, Any]:
    return {"space": space, "half": half, "ranked": ranked, "best single one": best}


def _best(found: Found) -> str:
    """The best single searcher by the seeds that choose; the portfolio where it is alone."""
    return max(
        (name for name in found if name != PORTFOLIO),
        key=lambda name: float(found[name][..., ::2].mean()),
        default=PORTFOLIO,
    )


def _compared(found: Found, best: Floats, leader: str) -> dict[str, Any]:
    """P of the best one and of the portfolio, and how far that is behind it and the leader. The seeds that judge count;
    None where there is no portfolio."""
    judged = best[..., 1::2]
    if PORTFOLIO not in found:
        return dict.fromkeys(COMPARED) | {COMPARED[0]: round(float(judged.mean()), 4)}
    own = found[PORTFOLIO][..., 1::2]
    behind = score.bootstrap(np.atleast_2d(judged - own))
    lag = found[leader][..., 1::2] - own
    figures = (judged.mean(), own.mean(), behind.mean, behind.low, behind.high, lag.mean())
    return {name: round(float(figure), 4) for name, figure in zip(COMPARED, figures, strict=True)}
