"""The two tables of ``tunesmith bench measure`` and their plots."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from benchmarks.harness.report import Draw, Report
from benchmarks.measure.recording import Recording, Repeat
from benchmarks.measure.repeating import judge
from benchmarks.measure.study import Effect, compare
from tunesmith.messages import MeasureLimits
from workers.measure.batches import WAVE

ORDER, COVERAGE, SAVED = 0.95, 0.90, 0.50
"""What has to be reached: pairs in order, intervals that cover, device time saved."""


def reports(recording: Recording, limits: MeasureLimits, draws: int, seed: int) -> Iterator[tuple[Report, Draw]]:
    """The reports on repeated measurements and on the rules, as far as the record has data for them."""
    if recording.repeats:
        yield repeated(recording), lambda axes: draw_repeats(axes, recording)
    effects = [compare(stream, limits, draws, seed) for stream in recording.streams if stream.rounds]
    if effects:
        yield ruled(recording, effects, limits, draws), lambda axes: draw_effects(axes, effects, recording.noise_floor)


def repeated(recording: Recording) -> Report:
    """Order and coverage, by operator and over all."""
    groups = {name: [r for r in recording.repeats if r.operator == name] for name in _names(recording.repeats)}
    groups["all"] = list(recording.repeats)
    verdicts = {name: judge(repeats, recording.noise_floor) for name, repeats in groups.items()}
    overall = verdicts["all"]
    passes = len(recording.repeats[0].passes)
    summary = f"""The engine measured {overall.schedules} schedules {passes} times in random order, in waves of up to {WAVE} of
one operator, each in a session of its own, that are sampled in turn, as the service does it; but here none is dropped for being slow. The
device states a noise floor of {recording.noise_floor:.2%}, looked at before the last wave. Of {overall.pairs} pairs (two schedules of one operator, two
passes) whose medians differ by more than it, **{overall.order:.1%}** keep their order (wanted: {ORDER:.0%}). The interval of one
pass holds the median of another in **{overall.coverage:.1%}** of {overall.intervals} cases (wanted: {COVERAGE:.0%}). The noise
floor that these measurements show themselves, with their own scatter in it: {overall.observed_floor:.2%}."""  # noqa: E501
    rows = [
        {
            "operator": name,
            "schedules": it.schedules,
            "pairs": it.pairs,
            "keep their order, %": 100 * it.order if it.pairs else None,
            "intervals": it.intervals,
            "cover, %": 100 * it.coverage if it.intervals else None,
            "half-width, %": 100 * it.width,
            "observed noise floor, %": 100 * it.observed_floor,
        }
        for name, it in verdicts.items()
    ]
    return Report.of("measure", "Repeated measurements", summary, rows, recording.setup)


def ruled(recording: Recording, effects: Sequence[Effect], limits: MeasureLimits, draws: int) -> Report:
    """Device time saved and what it costs, by operator and over all."""
    saved = statistics.fmean(effect.saved for effect in effects)
    changed = [value for effect in effects for value in effect.changed]
    within = statistics.fmean(value <= recording.noise_floor for value in changed)
    longest = max(len(timed.samples) for stream in recording.streams for timed in stream.timed)
    summary = f"""{sum(effect.candidates for effect in effects)} candidates of searches without a cost model, measured at length (up to {longest} samples each, a round's
candidates in turn), and the engine's own race played on that record, {draws} times from other samples on. Where it drops
most of a round, the others' samples would lie closer together than in the record. Full measurement: {limits.repeats} samples of every
candidate within {limits.max_measure_seconds:g} s of kernel time; confirming finalists, which either needs, is left out. Racing and adaptive stop save **{saved:.1%}** of its kernel time (mean over
operators; wanted: {SAVED:.0%}). The schedule that they choose is {statistics.fmean(changed):.2%} slower on average than the one
that full measurement chooses, {np.quantile(changed, 0.95):.2%} at the 95th percentile; in {within:.1%} of the draws by less than the
noise floor of {recording.noise_floor:.2%}."""  # noqa: E501
    rows = [
        {
            "operator": effect.operator,
            "candidates": effect.candidates,
            "saved, %": 100 * effect.saved,
            "samples each": effect.samples,
            "change of the chosen, %": 100 * statistics.fmean(effect.changed),
            "95th percentile, %": 100 * float(np.quantile(effect.changed, 0.95)),
            "regret, %": 100 * statistics.fmean(effect.regret),
            "regret of full, %": 100 * statistics.fmean(effect.full_regret),
        }
        for effect in effects
    ]
    return Report.of("racing", "Racing and adaptive stop", summary, rows, recording.setup)


def draw_repeats(axes: Any, recording: Recording) -> None:
    """Each later median against the first, by operator."""
    for name in _names(recording.repeats):
        medians = [repeat.medians for repeat in recording.repeats if repeat.operator == name]
        x = [found[0] * 1e3 for found in medians for _ in found[1:]]
        axes.plot(x, [100 * (later / found[0] - 1) for found in medians for later in found[1:]], "o", ms=3, label=name)
    floor = 100 * recording.noise_floor
    axes.axhspan(-floor, floor, color="0.9", zorder=0, label="noise floor")
    axes.set_xscale("log")
    axes.set_xlabel("median of the first pass, ms")
    axes.set_ylabel("later passes, % above it")
    axes.legend(fontsize=7)


def draw_effects(axes: Any, effects: Sequence[Effect], floor: float) -> None:
    """Device time saved, and the distribution of the change of the chosen best."""
    figure = axes.figure
    axes.remove()
    left, right = figure.subplots(1, 2)
    names = [effect.operator for effect in effects]
    left.barh(names, [100 * effect.saved for effect in effects])
    left.axvline(100 * SAVED, color="0.4", lw=1)
    left.set_xlabel("kernel time saved, %")
    right.boxplot([[100 * value for value in effect.changed] for effect in effects], whis=(5, 95))
    right.axhspan(-100 * floor, 100 * floor, color="0.9", zorder=0)
    right.set_xticks(range(1, len(names) + 1), [name.partition(":")[0] for name in names])
    right.set_ylabel("chosen best, % slower than by full measurement")


def _names(repeats: Sequence[Repeat]) -> list[str]:
    return list(dict.fromkeys(repeat.operator for repeat in repeats))
