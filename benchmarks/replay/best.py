"""How far the portfolio is behind the best single searcher of each space, and behind the one best on average."""

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
        mean = {group[0].method.searcher: float(np.mean([o.score.mean() for o in group])) for group in by_method(mine)}
        leader = _best(mean)
        for name in dict.fromkeys(o.recording.name for o in mine):
            found = {o.method.searcher: float(o.score.mean()) for o in mine if o.recording.name == name}
            rows.append((name, HELD_OUT[name in unseen], ranked, *_compared(found, leader)))
        rows.append(("mean of all", None, ranked, *_compared(mean, leader)))
    summary = (
        "P of the best searcher of each space, which nobody knows before, and of the portfolio of several: how far it "
        "is behind that one, and behind the searcher that is best on average, which stands in the line of means.")
    columns = ("space", "half", "ranked", "best single one", "its P", "the portfolio's P", "behind",
               "behind the best on average")
    return Report("replay-best", "The best searcher of each space", summary, columns, rows, setup)


def _best(found: dict[str, float]) -> str:
    """The best single searcher; the portfolio where it is alone."""
    return max((name for name in found if name != PORTFOLIO), key=lambda name: found[name], default=PORTFOLIO)


def _compared(found: dict[str, float], leader: str) -> tuple[Any, ...]:
    """The best single searcher, its P, the portfolio's, and how far that is behind the best and the leader; None where
    there is no portfolio."""
    best = _best(found)
    own = found.get(PORTFOLIO)
    if own is None:
        return best, round(found[best], 4), None, None, None
    return best, round(found[best], 4), round(own, 4), round(found[best] - own, 4), round(found[leader] - own, 4)
