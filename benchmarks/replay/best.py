"""How far the portfolio is behind the best single searcher of each space."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.replay.searchers import BASELINE, HELD_OUT, Outcome, by_method
from benchmarks.replay.workloads import held_out
from benchmarks.report import Report

PORTFOLIO = "portfolio"


def report(outcomes: Sequence[Outcome], setup: dict[str, str]) -> Report:
    """One line per space, and one for the mean of all, without a cost model and with one."""
    unseen = held_out(o.recording.name for o in outcomes)
    rows: list[tuple[Any, ...]] = []
    for model in (False, True):
        mine = [o for o in outcomes if o.method.model == model or o.method.searcher == BASELINE]
        ranked = f"{'with' if model else 'without'} a cost model"
        for name in dict.fromkeys(o.recording.name for o in mine):
            found = {o.method.searcher: float(o.score.mean()) for o in mine if o.recording.name == name}
            rows.append((name, HELD_OUT[name in unseen], ranked, *_compared(found)))
        mean = {group[0].method.searcher: float(np.mean([o.score.mean() for o in group])) for group in by_method(mine)}
        rows.append(("mean of all", None, ranked, *_compared(mean)))
    summary = (
        "P of the best searcher of each space, which nobody knows before, and of the portfolio of several. The line of "
        "means compares it with the searcher that is best on average.")
    columns = ("space", "half", "ranked", "best single one", "its P", "the portfolio's P", "behind")
    return Report("replay-best", "The best searcher of each space", summary, columns, rows, setup)


def _compared(found: dict[str, float]) -> tuple[Any, ...]:
    """The best single searcher, its P, the portfolio's, and the distance; None without a portfolio."""
    single = {name: value for name, value in found.items() if name != PORTFOLIO}
    best = max(single or found, key=lambda name: found[name])
    own = found.get(PORTFOLIO)
    behind = None if own is None else round(found[best] - own, 4)
    return best, round(found[best], 4), None if own is None else round(own, 4), behind
