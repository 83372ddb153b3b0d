"""Searchers on recorded spaces, alone and with a cost model."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from benchmarks.harness.report import Report, Row
from benchmarks.replay.clocked import Clocked
from benchmarks.replay.ranking import Ranker
from benchmarks.replay.workloads import held_out
from tunesmith.names import SAMPLERS
from tunesmith.search.registry import SEARCHERS, make_searcher
from tunesmith.space.base import Floats
from tunesmith.testing import score
from tunesmith.testing.replay import Recording, replay

POINTS = 50
"""Places along a budget where the plot has a value."""
QUALITY = 0.95
BASELINE = "random"
HELD_OUT = {True: "held out", False: "tuning"}
"""What tables call the two halves of the spaces."""


@dataclass(frozen=True)
class Method:
    """A searcher, ranked by a cost model or not, with settings of its own type or, None, the default ones."""

    searcher: str
    model: bool
    options: Any = None

    @property
    def name(self) -> str:
        """For tables."""
        return f"{self.searcher} + cost model" if self.model else self.searcher


def methods(names: Sequence[str] = ()) -> list[Method]:
    """These searchers; where none is named, all that look for the fastest program. All but random search, which ignores
    ranks, come with a cost model as well."""
    return [
        Method(name, model)
        for name in names or [name for name in SEARCHERS if name not in SAMPLERS]
        for model in (False, True)
        if not (model and name == BASELINE)
    ]


@dataclass(frozen=True)
class Runs:
    """Replays of one method on one space.

    Attributes:
        curves: best latency in seconds after each evaluation, float64 [seeds, budget].
        thinking: processor seconds per candidate that the searcher itself took, float64 [seeds].
        scored: points that it had scored, per candidate, float64 [seeds].
    """

    curves: Floats
    thinking: Floats
    scored: Floats


def join(parts: Sequence[Runs]) -> Runs:
    """One after another."""
    return Runs(*(np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(Runs)))


def run(recording: Recording, method: Method, seeds: Sequence[int], budget: int, batch: int) -> Runs:
    """One replay for each seed."""
    curves, thinking, scored = [], [], []
    for seed in seeds:
        searcher = Clocked(make_searcher(method.searcher, recording.space, seed, method.options), recording.space)
        ranker = Ranker(recording, seed) if method.model else None
        curves.append(
            replay(
                searcher,
                recording,
                budget=budget,
                batch=batch,
                score=ranker.score if ranker else None,
                learn=ranker.learn if ranker else None,
                seed=seed,
            )
        )
        thinking.append(searcher.seconds / max(searcher.proposed, 1))
        scored.append(len(searcher.scored) / max(searcher.proposed, 1))
    return Runs(np.stack(curves), np.array(thinking), np.array(scored))


@dataclass(frozen=True)
class JudgedRuns:
    """One method on one space.

    Attributes:
        runs: up to the end of the space's budget.
        score: of Willemsen after each evaluation, float64 [seeds, budget].
    """

    recording: Recording
    method: Method
    runs: Runs
    score: Floats

    @property
    def curves(self) -> Floats:
        """Best latency in seconds after each evaluation, float64 [seeds, budget]."""
        return self.runs.curves

    @property
    def by_seed(self) -> Floats:
        """P of each run, float64 [seeds]."""
        mean: Floats = self.score.mean(axis=1)
        return mean


def judge(recording: Recording, method: Method, runs: Runs) -> JudgedRuns:
    """Score what :func:`run` found, up to the end of the space's budget."""
    runs = replace(runs, curves=runs.curves[:, : budget_of(recording)])
    return JudgedRuns(recording, method, runs, score.score(runs.curves, recording.seconds[recording.points]))


def budget_of(recording: Recording) -> int:
    """Evaluations after which random search is nearly there."""
    return score.budget(recording.seconds[recording.points])


def report(outcomes: Sequence[JudgedRuns], setup: dict[str, str]) -> Report:
    """One line per method over all spaces, the best first."""
    unseen = held_out(o.recording.name for o in outcomes)
    rows = sorted((_row(mine, unseen) for mine in by_method(outcomes)), key=lambda row: -row["P"])
    spaces, seeds = len({o.recording.name for o in outcomes}), len(outcomes[0].curves)
    summary = (
        f"Search on {spaces} recorded spaces, {seeds} seeds each, without hardware.\n\n"
        "- P is the score of Willemsen et al.: 0 is the computed expectation of random search, 1 the optimum at once, "
        "below 0 worse than random. It is averaged over a space's evaluations, then over spaces. A space ends where "
        "random search has come 90 % of the way from the median to the optimum in the logarithm of latency.\n"
        "- The band is a 95 % bootstrap over seeds. On spaces that are held out, no settings are tuned.\n"
        "- Quality is optimum over best found at the end of the budget. Then: how many runs come within 5 % of the "
        "optimum, and where in the budget the median run does.\n"
        "- The last columns: distinct points that were scored or only checked, and the searcher's own processor time.\n"
        "- The cost model sees encoded decisions, not TVM's features, and is smaller than the service's."
    )
    return Report.of("replay", "Searchers, replayed", summary, rows, setup)


def _row(mine: Sequence[JudgedRuns], unseen: Collection[str]) -> Row:
    """One method's line."""
    mean = score.bootstrap(np.stack([o.by_seed for o in mine]))
    fresh = [o.by_seed.mean() for o in mine if o.recording.name in unseen]
    left = [float(np.mean(o.recording.optimum / o.curves[:, -1])) for o in mine]
    effort = np.concatenate([score.reach(o.curves, o.recording.optimum, QUALITY) / o.curves.shape[1] for o in mine])
    middle = float(np.median(effort))
    better = sum(bool(o.score.mean() > 0) for o in mine)
    scored, thinking = (float(np.mean([getattr(o.runs, name).mean() for o in mine])) for name in ("scored", "thinking"))
    return {
        "searcher": mine[0].method.name,
        **banded("P", mean),
        "P, held out": round(float(np.mean(fresh)), 4) if fresh else None,
        "spaces above random": f"{better} of {len(mine)}",
        "quality, %": round(100 * float(np.mean(left)), 2),
        f"runs that reach {QUALITY:.0%}, %": round(100 * float(np.isfinite(effort).mean()), 2),
        "after, % of the budget": round(100 * middle, 1) if np.isfinite(middle) else None,
        "scores a candidate": round(scored, 2),
        "ms a candidate": round(1e3 * thinking, 2),
    }


def banded(name: str, figure: score.Interval) -> dict[str, float]:
    """The three cells of a figure with its band."""
    return {name: round(figure.mean, 4), "95 % from": round(figure.low, 4), "to": round(figure.high, 4)}


def details(outcomes: Sequence[JudgedRuns], setup: dict[str, str]) -> Report:
    """One line per space and method."""
    unseen = held_out(o.recording.name for o in outcomes)
    rows = [
        {
            "space": o.recording.name,
            "half": HELD_OUT[o.recording.name in unseen],
            "points": len(o.recording.points),
            "budget": o.curves.shape[1],
            "optimum, µs": round(1e6 * o.recording.optimum, 2),
            "searcher": o.method.name,
            **banded("P", score.bootstrap(o.by_seed[None])),
            "quality": round(float(np.mean(o.recording.optimum / o.curves[:, -1])), 4),
        }
        for o in outcomes
    ]
    return Report.of("replay-spaces", "Searchers, space by space", "", rows, setup)


def draw(outcomes: Sequence[JudgedRuns], axes: Any) -> None:
    """P over the share of the budget, with the bootstrap's band."""
    where = np.linspace(0, 1, POINTS)
    for mine in by_method(outcomes):
        curves = np.stack([_resampled(o.score, where) for o in mine])  # [spaces, seeds, POINTS]
        bands = [score.bootstrap(curves[:, :, i], draws=400) for i in range(POINTS)]
        (line,) = axes.plot(100 * where, [b.mean for b in bands], label=mine[0].method.name)
        low, high = [b.low for b in bands], [b.high for b in bands]
        axes.fill_between(100 * where, low, high, alpha=0.2, color=line.get_color())
    axes.axhline(0, color="grey", linewidth=0.8)
    axes.set(xlabel="share of the budget, %", ylabel="P (0: random search, 1: optimum)", ylim=(None, 1.0))
    axes.legend()


def _resampled(values: Floats, where: Floats) -> Floats:
    """Rows at shares of their length."""
    columns = np.round(where * (values.shape[1] - 1)).astype(np.int64)
    out: Floats = values[:, columns]
    return out


def by_method(outcomes: Sequence[JudgedRuns]) -> list[list[JudgedRuns]]:
    """Outcomes of the same method together."""
    return [[o for o in outcomes if o.method == method] for method in dict.fromkeys(o.method for o in outcomes)]
