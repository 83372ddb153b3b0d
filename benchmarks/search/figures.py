"""From outcomes to the tables and the plot. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.harness.kernels import PROCESSES
from benchmarks.harness.means import MEAN, geometric_mean, with_means
from benchmarks.harness.report import Report, Row, cell, tabular
from benchmarks.operators.recordings import TRIALS, versions_of
from benchmarks.search.comparison import COUNTS, SearchOutcome, TrialRun

SEARCH, TIME, BESIDE = "search", "search-time", "search-beside"
NAMES = (SEARCH, TIME, BESIDE)
"""Every report, in the order of a page."""
AFTER = tuple(f"after {count}" for count in COUNTS)
SHARE, OF_TIME = "share of trials", "share of the time"
OWN_SPACE = "everything on"
RATIOS = frozenset({*AFTER, "ratio", OWN_SPACE})
SHARES = frozenset({SHARE, OF_TIME})
TRIED_TEXT = f"""\
Tunesmith with `--space tvm`, so with MetaSchedule's program and design space, compared with MetaSchedule's
`tune_tir` at 16 and at 64 a round, {TRIALS} candidates each. `after N`: Tunesmith's latency over that of the better
MetaSchedule after N trials; below 1 Tunesmith is faster. The best of each after {TRIALS}, and Tunesmith's after 32
and 64, was built and timed now, all kernels in turn, in {PROCESSES} processes: MetaSchedule's fastest measurement,
and Tunesmith's champion, which was measured again next to the one before it. MetaSchedule's runs are recorded, and a
recording has only the winner's trace. So its latency after 32 and 64 trials is the recorded one, times what its
winner takes now over what was recorded for it. `{SHARE}`: the share of {TRIALS} trials after which Tunesmith's
champion was as fast as the better MetaSchedule's winner, by its own measurements scaled likewise. A dash means that
it found none; it counts as 1 in the mean, which is too little. Failed candidates count as trials. Warm start is off."""
TIME_TEXT = f"""\
The same goal with everything on: layouts, fast math, Winograd convolutions, Tunesmith's own rules. `tunesmith s` is
the wall time until a schedule as fast as the better MetaSchedule's winner of {TRIALS} trials was known. It counts
from the submission of the job to the end of the round that found the schedule, on a stack that had run one tiny job
and had imported the model. `metaschedule s` is the time of that MetaSchedule run for its {TRIALS} trials, without
the start of its process, its imports and making the program. `{OF_TIME}` is one over the other. A dash means that
the goal was not reached in time; it counts as 1 in the mean. `ratio`: Tunesmith's latency at the end of that time,
conversions of layouts included, over MetaSchedule's."""

NO_RUN = TrialRun((), {})
BESIDE_TEXT = f"""\
Tunesmith's searchers compared with the one that was named first, without MetaSchedule. `after N`: latency over that
one's with `--space tvm` after N candidates. `{OWN_SPACE}`: in Tunesmith's own space, after the same wall time. Below
1 the searcher is the better one. Everything was built and timed now, all kernels in turn, in {PROCESSES} processes.
The two columns of microseconds are those after {TRIALS} candidates."""


def reports(outcomes: Sequence[SearchOutcome], details: Mapping[str, str]) -> list[Report]:
    """Every table that has rows.

    Args:
        outcomes: of all operators and seeds.
        details: machine, versions and settings.
    """
    setup = {**details, **versions_of(outcome.versions for outcome in outcomes)}
    tables = (
        (SEARCH, "The search alone", TRIED_TEXT, _tried),
        (TIME, "How soon it is as fast as MetaSchedule", TIME_TEXT, _times),
        (BESIDE, "Searchers side by side", BESIDE_TEXT, _paired),
    )
    found = []
    for name, title, text, rows_of in tables:
        rows = [row for outcome in outcomes for row in rows_of(outcome)]
        found.append(Report.of(name, title, text, with_means(rows, RATIOS, shares=SHARES, group="searcher"), setup))
    return [report for report in found if report.rows]


def _tried(outcome: SearchOutcome) -> Iterator[Row]:
    baseline = outcome.baseline
    for searcher, trial_run in outcome.trial_runs.items():
        if baseline is not None:
            needed = trial_run.needed(baseline.timed)
            ours = trial_run.timed.get(TRIALS)
            theirs = [min(each.after(count) for each in outcome.baselines) for count in COUNTS]
            yield {
                "operator": outcome.case.name,
                "searcher": searcher,
                "seed": outcome.seed,
                "metaschedule µs": baseline.timed * 1e6,
                "tunesmith µs": ours and ours * 1e6,
                **_after(trial_run, theirs),
                SHARE: needed and needed / TRIALS,
            }


def _times(outcome: SearchOutcome) -> Iterator[Row]:
    baseline = outcome.baseline
    for searcher, timed_run in outcome.timed_runs.items():
        if baseline is not None:
            reached = timed_run.reached(baseline.timed)
            yield {
                "operator": outcome.case.name,
                "searcher": searcher,
                "seed": outcome.seed,
                "metaschedule s": baseline.wall,
                "tunesmith s": reached,
                OF_TIME: _over(reached, baseline.wall),
                "metaschedule µs": baseline.timed * 1e6,
                "tunesmith µs": timed_run.timed * 1e6,
                "ratio": timed_run.timed / baseline.timed,
            }


def _paired(outcome: SearchOutcome) -> Iterator[Row]:
    """Every searcher but the first beside that one."""
    first = next(iter(outcome.searchers), "")
    base, start = outcome.trial_runs.get(first, NO_RUN), outcome.timed_runs.get(first)
    for searcher in outcome.searchers[1:]:
        trial_run, timed_run = outcome.trial_runs.get(searcher, NO_RUN), outcome.timed_runs.get(searcher)
        theirs, ours = base.timed.get(TRIALS), trial_run.timed.get(TRIALS)
        yield {
            "operator": outcome.case.name,
            "searcher": searcher,
            "seed": outcome.seed,
            "compared with": first,
            "its µs": theirs and theirs * 1e6,
            "µs": ours and ours * 1e6,
            **_after(trial_run, [base.timed.get(count, math.inf) for count in COUNTS]),
            OWN_SPACE: timed_run and start and timed_run.timed / start.timed,
        }


def _after(run: TrialRun, theirs: Sequence[float]) -> Row:
    """Latencies after each of ``COUNTS`` trials over the others'."""
    return {name: _over(run.timed.get(count), other) for name, count, other in zip(AFTER, COUNTS, theirs, strict=True)}


def _over(ours: float | None, theirs: float) -> float | None:
    return None if ours is None or not math.isfinite(theirs) else ours / theirs


def latencies(outcomes: Sequence[SearchOutcome]) -> list[tuple[Any, ...]]:
    """A row for everything that was timed, in seconds, heads first."""
    cells: list[Row] = [
        {
            "operator": outcome.case.operator,
            "seed": entry.seed,
            "entry": entry.runtime,
            "kernels": entry.kernels and entry.kernels.total,
            "end to end": entry.result.latency,
            "output error": entry.result.error,
            "failure": entry.result.failure,
        }
        for outcome in outcomes
        for entry in outcome.entries
    ]
    columns, rows = tabular(cells)
    return [columns, *rows]


def verdict(found: Sequence[Report]) -> str:
    """The geometric means in lines, for the terminal."""
    return "\n".join(
        f"{row[1]}: "
        + ", ".join(
            f"{column} {cell(row[at])}" for at, column in enumerate(report.columns) if column in RATIOS | SHARES
        )
        for report in found
        for row in report.rows
        if row[0] == MEAN
    )


def draw(axes: Any, outcomes: Sequence[SearchOutcome]) -> None:
    """The best so far over MetaSchedule's best of all trials, by trial: geometric means over operators and seeds."""
    known = [outcome for outcome in outcomes if outcome.baseline is not None]
    for searcher in dict.fromkeys(name for outcome in known for name in outcome.trial_runs):
        lines = [_relative(outcome, searcher) for outcome in known]
        means = _means_by_trial([line for line in lines if line])
        axes.plot(range(1, TRIALS + 1), means, label=f"tunesmith, {searcher}")
    theirs = [
        [min(each.after(count) for each in outcome.baselines) / outcome.baseline.timed for count in COUNTS]
        for outcome in known
        if outcome.baseline
    ]
    axes.plot(
        COUNTS,
        [geometric_mean(values) for values in zip(*theirs, strict=True)] or [math.nan] * len(COUNTS),
        "o--",
        label="the better MetaSchedule",
    )
    axes.axhline(1.0, color="0.7", linewidth=0.8)
    axes.set(xlabel="trials", ylabel=f"latency over MetaSchedule's best of {TRIALS}", yscale="log")
    axes.legend(fontsize="small")


def _relative(outcome: SearchOutcome, searcher: str) -> list[float]:
    """Latency after each trial over MetaSchedule's winner; the last one goes on where the space was used up before."""
    trial_run, baseline = outcome.trial_runs.get(searcher), outcome.baseline
    if trial_run is None or baseline is None or TRIALS not in trial_run.timed:
        return []
    scale = trial_run.timed[TRIALS] / trial_run.bests[-1] / baseline.timed
    return [best * scale for best in (*trial_run.bests, *[trial_run.bests[-1]] * (TRIALS - len(trial_run.bests)))]


def _means_by_trial(lines: Sequence[Sequence[float]]) -> list[float]:
    """Nothing to draw (NaN) until every line has a candidate that ran."""
    return [
        geometric_mean(values) or math.nan if all(map(math.isfinite, values)) else math.nan
        for values in zip(*lines, strict=True)
    ] or [math.nan] * TRIALS
