"""From outcomes to the table, the ratios and the plot. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.harness.limits import Peak, share_of_peak
from benchmarks.harness.means import geometric_mean, ratio
from benchmarks.harness.report import Report, Row, cell, table
from benchmarks.tuners.outcome import UNTUNED, Final, TunerRun
from benchmarks.tuners.plan import PER_ROUND, RANDOM, TUNERS, TUNESMITH, Ledger

ROUNDS = tuple(PER_ROUND)
Figure = Callable[[TunerRun], float | None]


def report(ledger: Ledger, operators: Sequence[str], setup: Mapping[str, str], peak: Peak | None, notes: str) -> Report:
    """The comparison as far as it has come.

    Args:
        ledger: what was found.
        operators: which, in order.
        setup: machine, versions and settings.
        peak: the machine's limits, when they are known.
        notes: Markdown to put at the end of the summary.
    """
    rows = [_row(ledger, operator, tuner, peak) for operator in operators for tuner in TUNERS]
    return Report.of("tuners", "Tuners side by side", _summary(ledger, operators, notes), rows, setup)


def _of(ledger: Ledger, operator: str, tuner: str) -> list[TunerRun]:
    found = [o for (known, _, name), o in sorted(ledger.outcomes.items()) if (known, name) == (operator, tuner)]
    return [outcome for outcome in found if not outcome.failure]


def _finals(ledger: Ledger, operator: str) -> list[Final]:
    return [final for (known, _), final in sorted(ledger.finals.items()) if known == operator]


def _mean(outcomes: Sequence[TunerRun], figure: Figure) -> float | None:
    """Mean over the seeds; None without any."""
    known = [value for value in map(figure, outcomes) if value is not None]
    return statistics.fmean(known) if known else None


def _latency(ledger: Ledger, operator: str, tuner: str) -> float | None:
    """Median over the seeds of the re-measured best; the default schedule's where a tuner found nothing better."""
    found = []
    for final in _finals(ledger, operator):
        known = final.latencies
        outcome = ledger.outcomes.get((operator, final.seed, tuner))
        if outcome is not None and not outcome.failure:
            found.append(known.get(tuner, known[UNTUNED]))
    return statistics.median(found) if found else None


def _row(ledger: Ledger, operator: str, tuner: str, peak: Peak | None) -> Row:
    outcomes = _of(ledger, operator, tuner)
    latency = _latency(ledger, operator, tuner)
    finals = _finals(ledger, operator)
    flops, bytes_ = (finals[0].flops, finals[0].bytes) if finals else (0.0, 0.0)
    untuned = statistics.median(final.latencies[UNTUNED] for final in finals) if finals else None

    def share(part: str) -> float | None:
        return _percent(_mean(outcomes, lambda o: o.parts.get(part, 0.0) / o.elapsed if o.elapsed else None))

    return {
        "operator": operator,
        "tuner": tuner,
        "runs": len(outcomes),
        "candidates": sum(outcome.counted for outcome in outcomes),
        "failed": sum(outcome.failed for outcome in outcomes),
        "duplicates": sum(outcome.duplicates for outcome in outcomes),
        "per minute": _mean(outcomes, lambda o: o.rate()),
        "with start-up": _mean(outcomes, lambda o: o.rate(with_startup=True)),
        "start-up s": _mean(outcomes, lambda o: o.startup),
        "busy %": _percent(_mean(outcomes, lambda o: o.busy)),
        **{f"{part} %": share(part) for part in ("build", "run", "kernel", "search")},
        "best µs": latency * 1e6 if latency else None,
        "GFLOP/s": flops / latency / 1e9 if latency and flops else None,
        "share of peak %": _percent(share_of_peak(flops, bytes_, latency, peak)) if latency and peak else None,
        "speed-up": untuned / latency if latency and untuned else None,
    }


def _percent(share: float | None) -> float | None:
    return None if share is None else 100.0 * share


def ratios(ledger: Ledger, operator: str) -> dict[str, float | None]:
    """Tunesmith over the others for one operator; above 1 is better throughout.

    ``rate-16`` and ``rate-64``: candidates per minute; ``latency`` and ``busy``: against the better of the two;
    ``random``: how much faster the best schedule is than random search's.
    """
    ours = _of(ledger, operator, TUNESMITH)
    rates = {name: _mean(_of(ledger, operator, name), lambda o: o.rate()) for name in (TUNESMITH, *ROUNDS)}
    found = {f"rate-{PER_ROUND[name]}": ratio(rates[TUNESMITH], rates[name]) for name in ROUNDS}
    best = {name: _latency(ledger, operator, name) for name in (TUNESMITH, RANDOM, *ROUNDS)}
    theirs = min((value for name in ROUNDS if (value := best[name]) is not None), default=None)
    busy = [value for name in ROUNDS if (value := _mean(_of(ledger, operator, name), lambda o: o.busy)) is not None]
    return {
        **found,
        "rate": ratio(rates[TUNESMITH], max((rates[name] or 0.0 for name in ROUNDS), default=None)),
        "latency": ratio(theirs, best[TUNESMITH]),
        "random": ratio(best[RANDOM], best[TUNESMITH]),
        "busy": ratio(_mean(ours, lambda o: o.busy), max(busy, default=None)),
    }


RATIOS = {
    "rate-64": "candidates/min, over 64 a round",
    "rate-16": "over 16 a round",
    "rate": "over the better",
    "busy": "busy share, over the better",
    "latency": "faster than the better",
    "random": "faster than random",
}


def ratio_table(ledger: Ledger, operators: Sequence[str]) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    """Columns and rows: one row per operator, the geometric means last."""
    found = {operator: ratios(ledger, operator) for operator in operators}
    rows: list[tuple[Any, ...]] = [(op, *(values[name] for name in RATIOS)) for op, values in found.items()]
    known = {name: [v for values in found.values() if (v := values[name]) is not None] for name in RATIOS}
    all_known = all(len(values) == len(found) for values in known.values())
    label = "geometric mean" if all_known else "geometric mean of what is known"
    means = [geometric_mean(values) for values in known.values()]
    return ("Tunesmith against MetaSchedule", *RATIOS.values()), [*rows, (label, *means)]


METHOD = """\
Each tuner had the same program, target, threads and wall-clock budget, one after the other. Tunesmith's stack runs only
while it tunes.

- A candidate counts when it was built, run and recorded; failures and programs measured before do not count.
- MetaSchedule's rate is taken up to its last complete round, or to the end of its first one if that took longer than
  the budget.
- *With start-up* also counts what each tuner does once. For MetaSchedule that is its imports; for Tunesmith the start
  of the whole service, and a first tiny job that loads TVM in its workers and calibrates the device.
- *Busy* is the time in which a candidate's kernel ran over the time of tuning. Build, run, kernel (part of run) and
  search are work over wall time. Tunesmith does several at once, so its shares may add up to more than 100 %.
  MetaSchedule does one after the other; its search is everything except building and running.
- *Best* is the schedule that each tuner chose; all of them were measured again in turn in one process."""


def _summary(ledger: Ledger, operators: Sequence[str], notes: str) -> str:
    columns, rows = ratio_table(ledger, operators)
    failures = [f"- {o.operator}, {o.tuner}, seed {o.seed}: {o.failure}" for o in ledger.outcomes.values() if o.failure]
    different = [
        f"- {operator}: the tuners did not tune the same program"
        for operator in operators
        if len({o.workload for tuner in TUNERS for o in _of(ledger, operator, tuner) if o.workload}) > 1
    ]
    wrong = [
        f"- {operator}, {name}: the best schedule's outputs are not those of the default one ({error:.1e}); left out"
        for operator in operators
        for final in _finals(ledger, operator)
        for name, error in final.wrong.items()
    ]
    parts = [METHOD, table(columns, rows), "\n".join(failures + different + wrong), notes]
    return "\n\n".join(part for part in parts if part)


AXES = {"seconds": 0, "device seconds": 1, "trials": 2}
"""What the best latency is shown against: places in a step of ``TunerRun.steps``."""


def curves(ledger: Ledger) -> list[tuple[Any, ...]]:
    """Best-so-far of every run, as the tuner itself measured it, heads first."""
    head = ("operator", "seed", "tuner", *AXES, "latency")
    return [head, *((*o.key, *step) for _, o in sorted(ledger.outcomes.items()) for step in o.steps())]


def draw(ledger: Ledger, operators: Sequence[str], axis: str = "seconds") -> Callable[[Any], None]:
    """The plot: best latency against ``axis``, one panel per operator; a line per tuner and seed."""
    colours = dict(zip(TUNERS, ("C3", "C7", "C0", "C2"), strict=True))

    def paint(axes: Any) -> None:
        figure = axes.figure
        axes.remove()
        columns = min(4, max(1, len(operators)))
        lines = math.ceil(len(operators) / columns) or 1
        figure.set_size_inches(3.0 * columns, 2.6 * lines + 0.4)
        panels = figure.subplots(lines, columns, squeeze=False).flat
        for panel, operator in zip(panels, operators, strict=False):
            _panel(panel, ledger, operator, colours, axis)
        handles = {
            label: line for panel in figure.axes for line, label in zip(*panel.get_legend_handles_labels(), strict=True)
        }
        figure.legend(list(handles.values()), list(handles), loc="outside upper center", ncols=len(TUNERS))

    return paint


def _panel(panel: Any, ledger: Ledger, operator: str, colours: Mapping[str, str], axis: str) -> None:
    panel.set_title(operator.rsplit(":", 1)[0], fontsize="small")
    panel.set_yscale("log")
    panel.set_xlabel(axis)
    panel.set_ylabel("best latency, µs")
    for tuner in TUNERS:
        for outcome in _of(ledger, operator, tuner):
            # Results that came together are one step: the last of them is the best.
            steps = list({step[AXES[axis]]: step[-1] * 1e6 for step in outcome.steps()}.items())
            if steps:
                end = max(_whole(outcome, axis), steps[-1][0])
                panel.step(
                    *zip(*[*steps, (end, steps[-1][1])], strict=True),
                    where="post",
                    color=colours[tuner],
                    label=tuner,
                    marker="." if len(steps) == 1 else None,
                )


def _whole(outcome: TunerRun, axis: str) -> float:
    """Where a run's line ends."""
    if axis == "seconds":
        return outcome.budget
    return len(outcome.trials) if axis == "trials" else sum(trial.device for trial in outcome.trials)


def verdict(ledger: Ledger, operators: Sequence[str]) -> str:
    """The geometric means in one line, for the terminal."""
    _, rows = ratio_table(ledger, operators)
    return ", ".join(f"{text}: {cell(value)}" for text, value in zip(RATIOS.values(), rows[-1][1:], strict=True))
