"""From outcomes to the tables and the plot. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.harness.comparison import Entry
from benchmarks.harness.contenders import METASCHEDULE, TUNESMITH, UNTUNED
from benchmarks.harness.limits import binding
from benchmarks.harness.means import micros, ratio, with_means
from benchmarks.harness.report import Report, Row, cell, tabular
from benchmarks.operators.cases import MAIN, RAGGED
from benchmarks.operators.comparison import FIRST_TEN, OperatorOutcome
from benchmarks.operators.recordings import TRIALS, versions_of
from workers.peers.comparison import FOREIGN

GOAL_SHARE = 0.93
"""Of the limit: nearer than this no schedule is asked to come, however slow MetaSchedule's is."""
GIVEN = 0.95
"""Of MetaSchedule's time: what counts as all of it."""
EQUAL_TIME, FIRST_CANDIDATES = "operators-equal-time", "operators-first-ten"
NAMES = (MAIN, RAGGED, EQUAL_TIME, FIRST_CANDIDATES)
"""Every report, in the order of the page."""
RATIOS = frozenset({"ratio", "of the goal", "kernels ratio", "kernels of the goal"})
SHARES_TEXT = """\
Latency in µs, and in brackets the share of the machine's limit in %. The limit is the longer of two times: the
arithmetic at best, and reading each of the operator's tensors once from the nearest level that holds them all (`set
by`; see [limits](#limits-of-the-machine)). `kernel` is the operator's own function alone, called repeatedly.
`conversions` are the functions around it that convert layouts of its tensors. All other latencies are end to end:
one inference of an ONNX model with only this operator, constant weights, batch 1, float32, including the runtime's
own calls. Where an operator's name ends in `bf16`, Tunesmith computed in it, and the limit is that of its instruction.
All runtimes were timed in turn, there and back, each several times in its own process; the median of all samples
counts. MetaSchedule's is the fastest of its runs. PyTorch is eager."""
EQUAL_TEXT = f"""\
MetaSchedule's `tune_tir` measured {TRIALS} candidates, at 16 and at 64 a round. Tunesmith had the wall time of the
shorter of these two runs. Its time includes the start of its stack and the import of the model; MetaSchedule's
includes the start of its process. MetaSchedule's runs are recorded. Its winners were built from the recorded traces
and timed now, in turn with Tunesmith's; the faster of the two counts. `ratio` is MetaSchedule's latency over
Tunesmith's. `goal` is half of MetaSchedule's latency, or the time at {GOAL_SHARE:.0%} of the machine's limit if that
is longer. `of the goal` is 1 or more where the goal is reached. `kernels`: all of them one by one, conversions of
layouts included, without the runtime's calls. Those are the same for both, and weigh much where a kernel takes
microseconds."""
FIRST_TEXT = f"""\
Tunesmith's best after ten candidates of each function, failed ones included, by its own measurements. It was built
and timed in turn with MetaSchedule's winner of {TRIALS} candidates. `ratio` is MetaSchedule's latency over
Tunesmith's, `kernels` as above."""


def reports(outcomes: Sequence[OperatorOutcome], details: Mapping[str, str]) -> list[Report]:
    """Every table that has rows.

    Args:
        outcomes: each with its ``peak``.
        details: machine, versions and settings.
    """
    setup = {**details, **versions_of(outcome.versions for outcome in outcomes)}
    shares = {table: [row for o in outcomes if o.case.table == table for row in _shares(o)] for table in (MAIN, RAGGED)}
    times = with_means([row for outcome in outcomes for row in _times(outcome)], RATIOS)
    firsts = with_means([row for outcome in outcomes for row in _firsts(outcome)], RATIOS)
    found = [
        Report.of(MAIN, "Single operators", SHARES_TEXT, shares[MAIN], setup),
        Report.of(RAGGED, "Operators of ragged shapes", "As above.", shares[RAGGED], setup),
        Report.of(EQUAL_TIME, "As long as MetaSchedule", _time_text(times), times, setup),
        Report.of(FIRST_CANDIDATES, "After ten candidates", FIRST_TEXT, firsts, setup),
    ]
    return [report for report in found if report.rows]


def latencies(outcomes: Sequence[OperatorOutcome]) -> list[tuple[Any, ...]]:
    """A row for every runtime and seed, in seconds, heads first: everything that the tables are made of."""
    columns, rows = tabular([_latency(outcome, entry) for outcome in outcomes for entry in outcome.entries])
    return [columns, *rows]


def _latency(outcome: OperatorOutcome, entry: Entry) -> Row:
    result, inside = entry.result, entry.kernels
    return {
        "operator": outcome.case.operator,
        "threads": outcome.case.threads,
        "runtime": entry.runtime,
        "seed": entry.seed,
        "latency": result.latency,
        "lowest pass": min(result.medians, default=None),
        "highest pass": max(result.medians, default=None),
        "kernel": inside and inside.main,
        "other kernels": inside and inside.others,
        "limit": outcome.limit,
        "share": outcome.share(result.latency),
        "candidates": entry.candidates,
        "tuned for": entry.tuned_seconds,
        "output error": result.error,
        "failure": result.failure,
    }


def _shares(outcome: OperatorOutcome) -> Iterator[Row]:
    """A row for each seed; what has no seed stands in the first."""
    seeds: list[int | None] = [*dict.fromkeys(entry.seed for entry in outcome.entries if entry.seed is not None)]
    baseline = outcome.fastest(METASCHEDULE)
    others = {"metaschedule": _seconds(baseline), "metaschedule kernel": _kernel(baseline)}
    others |= {name: _seconds(outcome.entry(name)) for name in (*FOREIGN, UNTUNED)}
    for number, seed in enumerate(seeds or [None]):
        ours = outcome.entry(TUNESMITH, seed)
        inside = ours.kernels if ours else None
        yield {
            "operator": outcome.case.name,
            "limit µs": micros(outcome.limit),
            "set by": outcome.peak and binding(outcome.flops, outcome.bytes_, outcome.peak),
            "seed": seed,
            "tunesmith": _with_share(outcome, _seconds(ours)),
            "tunesmith kernel": _with_share(outcome, _kernel(ours)),
            "conversions µs": micros(inside.others) if inside else None,
            **{name: _with_share(outcome, None if number else value) for name, value in others.items()},
            "note": _note(outcome, seed, number == 0),
        }


def _seconds(entry: Entry | None) -> float | None:
    return entry.latency if entry else None


def _kernel(entry: Entry | None) -> float | None:
    return entry.kernels.main if entry and entry.kernels else None


def _total(entry: Entry | None) -> float | None:
    return entry.kernels.total if entry and entry.kernels else None


def _with_share(outcome: OperatorOutcome, seconds: float | None) -> str | None:
    """``812 (64.2)``: µs, and the share of the limit in %."""
    share = outcome.share(seconds)
    if seconds is None:
        return None
    return cell(seconds * 1e6) + (f" ({cell(100.0 * share)})" if share is not None else "")


def _note(outcome: OperatorOutcome, seed: int | None, rest: bool) -> str:
    """What failed or computed something else, of the seed's entries and in its row of those without a seed."""
    notes = []
    for entry in outcome.entries:
        result = entry.result
        if entry.seed == seed or (rest and entry.seed is None):
            text = result.failure or (f"other outputs ({result.error:.1e})" if entry.wrong else "")
            notes += [f"{entry.runtime}: {text}"] if text else []
    return "; ".join(notes)


def _pairs(outcome: OperatorOutcome, runtime: str) -> Iterator[tuple[int, Entry, Entry]]:
    """The seeds for which there are both MetaSchedule's winner and the runtime's, with these two."""
    for entry in outcome.entries:
        if entry.runtime == runtime and entry.seed is not None and entry.latency:
            baseline = outcome.fastest(METASCHEDULE, entry.seed)
            if baseline is not None:
                yield entry.seed, baseline, entry


def _times(outcome: OperatorOutcome) -> Iterator[Row]:
    for seed, baseline, ours in _pairs(outcome, TUNESMITH):
        sooner = [e.tuned_seconds for e in outcome.entries if e.seed == seed and e.runtime in METASCHEDULE]
        aim = _goal(_seconds(baseline), outcome.limit)
        yield {
            "operator": outcome.case.name,
            "seed": seed,
            "metaschedule s": min((s for s in sooner if s), default=None),
            "tunesmith s": ours.tuned_seconds,
            "candidates": ours.candidates,
            **_against(_seconds(baseline), _seconds(ours), "tunesmith"),
            "goal µs": micros(aim),
            "of the goal": ratio(aim, _seconds(ours)),
            **_against(_total(baseline), _total(ours), "tunesmith", "kernels "),
            "kernels of the goal": ratio(_goal(_total(baseline), outcome.limit), _total(ours)),
        }


def _time_text(rows: Sequence[Row]) -> str:
    """What the table of times says of itself: also where Tunesmith was given less time than it might have had."""
    times = [(row["tunesmith s"], row["metaschedule s"]) for row in rows]
    parts = [ours / theirs for ours, theirs in times if isinstance(ours, float) and isinstance(theirs, float)]
    if not parts or max(parts) >= GIVEN:
        return EQUAL_TEXT
    less = f"In this run Tunesmith had less: {min(parts):.0%} to {max(parts):.0%} of that time (`--seconds`)."
    return f"{EQUAL_TEXT}\n\n{less}"


def _goal(theirs: float | None, limit: float | None) -> float | None:
    """Seconds that are to be reached."""
    return max(theirs / 2.0, limit / GOAL_SHARE) if theirs and limit else None


def _against(theirs: float | None, ours: float | None, name: str, of: str = "") -> Row:
    """Both latencies in µs and their ratio."""
    return {f"metaschedule {of}µs": micros(theirs), f"{name} {of}µs": micros(ours), f"{of}ratio": ratio(theirs, ours)}


def _firsts(outcome: OperatorOutcome) -> Iterator[Row]:
    for seed, baseline, ours in _pairs(outcome, FIRST_TEN):
        yield {
            "operator": outcome.case.name,
            "seed": seed,
            **_against(_seconds(baseline), _seconds(ours), "after ten"),
            **_against(_total(baseline), _total(ours), "after ten", "kernels "),
        }


def verdict(outcomes: Sequence[OperatorOutcome]) -> str:
    """The geometric means in a line, for the terminal."""
    found = []
    for name, rows in (("as long as MetaSchedule", _times), ("after ten candidates", _firsts)):
        means = with_means([row for outcome in outcomes for row in rows(outcome)], RATIOS)[-1:]
        found += [f"{name} {cell(row['ratio'])} times as fast" for row in means]
    return "geometric means: " + ", ".join(found) if found else ""


def draw(axes: Any, outcomes: Sequence[OperatorOutcome]) -> None:
    """Shares of the limit as bars, a group for each operator; of several seeds the best."""
    runtimes = (TUNESMITH, "metaschedule", *FOREIGN)
    height = 0.8 / len(runtimes)
    for place, runtime in enumerate(runtimes):
        shares = [100.0 * (outcome.share(_best(outcome, runtime)) or 0.0) for outcome in outcomes]
        axes.barh(
            [at + (place - len(runtimes) / 2) * height for at in range(len(outcomes))],
            shares,
            height,
            label=runtime,
            color=f"C{place}",
        )
    axes.figure.set_size_inches(8.0, 1.5 + 0.55 * len(outcomes))
    axes.set_yticks(range(len(outcomes)), [outcome.case.name for outcome in outcomes])
    axes.invert_yaxis()
    axes.set(xlabel="share of the machine's limit, end to end, %")
    axes.legend(fontsize="small")


def _best(outcome: OperatorOutcome, runtime: str) -> float | None:
    if runtime == "metaschedule":
        return _seconds(outcome.fastest(METASCHEDULE))
    return min((e.latency for e in outcome.entries if e.runtime == runtime and e.latency), default=None)
