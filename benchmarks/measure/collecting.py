"""Measures schedules with the real engine: at length once for the study of the rules, and shortly several times."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.harness.measurer import LocalMeasurer, race
from benchmarks.harness.operators import Operator, load
from benchmarks.harness.progress import Progress
from benchmarks.measure.recording import Recording, Repeat, Stream, Timed
from tunesmith.messages import MeasureLimits
from tunesmith.search.genetic import GeneticSearcher
from tunesmith.types import FailureKind, Measurement
from workers.measure.batches import WAVE
from workers.protocol import Built, Runner
from workers.tvm_backend.run.race import SHORT_SECONDS

TINY = 1e-12
"""An incumbent that everything is clearly slower than: what runs against it keeps its first run."""


@dataclass(frozen=True)
class MeasurePlan:
    """How much to measure.

    Attributes:
        operators: specs.
        rounds, size: of a search without a cost model, per operator; its candidates are measured at length, those of
            a round in turn.
        samples: of each of those, as far as ``seconds`` of kernel time reach.
        schedules: of each operator that are measured again.
        passes: how often.
    """

    operators: tuple[str, ...]
    rounds: int = 4
    size: int = 16
    samples: int = 30
    seconds: float = 1.0
    schedules: int = 20
    passes: int = 3
    seed: int = 0


@dataclass(frozen=True)
class Schedule:
    """A built candidate and what it took."""

    operator: str
    built: Built
    timed: Timed


def collect(
    measurer: LocalMeasurer, plan: MeasurePlan, limits: MeasureLimits, setup: dict[str, str], progress: Progress
) -> Recording:
    """Measure everything that the plan asks for.

    Args:
        measurer: where.
        plan: what.
        limits: of the repeated measurements, as the service takes them.
        setup: to keep with the record.
        progress: takes a line for people now and then.
    """
    streams, chosen = [], list[Schedule]()
    for number, spec in enumerate(plan.operators):
        stream, schedules = _search(measurer, load(spec, measurer.target), plan, number)
        streams.append(stream)
        chosen += spread(schedules, plan.schedules)
        progress(f"{spec}: {len(schedules)} schedules at {plan.samples} samples")
    floor, repeats = _repeat(measurer, chosen, plan, limits, progress)
    return Recording(floor, tuple(streams), repeats, setup)


def _search(
    measurer: LocalMeasurer, operator: Operator, plan: MeasurePlan, number: int
) -> tuple[Stream, list[Schedule]]:
    searcher = GeneticSearcher(operator.space, plan.seed + number)
    rounds, schedules, seen = [], list[Schedule](), set[str]()
    for _ in range(plan.rounds):
        candidates = searcher.ask(plan.size)
        if not candidates:
            break
        found = []
        outcomes = measurer.build(operator, candidates)
        measurer.calibration()  # as the worker does before a batch: each look at the device adds to what is known of it
        own = {built.code_hash: built for built in outcomes if built.path is not None and built.code_hash not in seen}
        seen |= set(own)
        with measurer.device() as runner:
            known = dict(zip(own, at_length(runner, list(own.values()), plan), strict=True))
        for candidate, built in zip(candidates, outcomes, strict=True):
            timed = known.pop(built.code_hash, None)
            if timed is None:
                kind = built.failure or FailureKind.RUN_ERROR
                searcher.tell([Measurement(candidate, failure=kind, message=built.message)])
                continue
            searcher.tell([Measurement(candidate, timed.samples)])
            found.append(timed)
            schedules.append(Schedule(operator.spec, built, timed))
        if found:
            rounds.append(tuple(found))
    return Stream(operator.spec, tuple(rounds)), schedules


def unraced(limits: MeasureLimits) -> MeasureLimits:
    """The same limits, but nobody is cut off, dropped or outrun: each gets the samples that it takes by itself."""
    return limits.model_copy(update={"cutoff": math.inf, "margin": math.inf, "abort": math.inf})


def at_length(runner: Runner, built: Sequence[Built], plan: MeasurePlan) -> list[Timed | None]:
    """First run, short run and many samples of each candidate, these in turn as the engine takes them; None for one
    that fails."""
    limits = MeasureLimits(
        repeats=plan.samples, min_repeats=plan.samples, variation=0.0, max_measure_seconds=plan.seconds
    )
    once = unraced(limits).model_copy(update={"repeats": 1, "min_repeats": 1, "min_repeat_seconds": SHORT_SECONDS})
    first = _samples(runner, built, limits.model_copy(update={"abort": math.inf}), TINY)
    short = _samples(runner, built, once, None)
    samples = _samples(runner, built, unraced(limits), None)
    return [Timed(a[0], b[0], c) if a and b and c else None for a, b, c in zip(first, short, samples, strict=True)]


def spread(schedules: Sequence[Schedule], count: int) -> list[Schedule]:
    """The faster half of ``count`` from the top, where neighbours are close, the rest evenly from those below."""
    ranked = sorted(schedules, key=lambda schedule: schedule.timed.latency)
    top, rest = ranked[: (count + 1) // 2], ranked[(count + 1) // 2 :]
    places = np.linspace(0, len(rest) - 1, min(count - len(top), len(rest))).round().astype(int) if rest else []
    return top + [rest[place] for place in dict.fromkeys(places)]


def _repeat(
    measurer: LocalMeasurer, schedules: list[Schedule], plan: MeasurePlan, limits: MeasureLimits, progress: Progress
) -> tuple[float, tuple[Repeat, ...]]:
    """The noise floor that was known before the last wave, and all passes."""
    rng, limits, floor = np.random.default_rng(plan.seed), unraced(limits), math.nan
    passes: list[list[tuple[float, ...]]] = [[] for _ in schedules]
    for number in range(plan.passes):
        for wave in waves(schedules, rng):
            floor = measurer.calibration().noise_floor
            built = [schedules[place].built for place in wave]
            with measurer.device() as runner:
                for place, found in zip(wave, _samples(runner, built, limits, None), strict=True):
                    passes[place].append(found)
        progress(
            f"pass {number + 1} of {plan.passes}: {len(schedules)} schedules in random order, noise floor {floor:.2%}"
        )
    kept = [(schedule, found) for schedule, found in zip(schedules, passes, strict=True) if all(found)]
    return floor, tuple(Repeat(schedule.operator, tuple(found)) for schedule, found in kept)


def waves(schedules: Sequence[Schedule], rng: np.random.Generator) -> list[list[int]]:
    """Places of the schedules in random order, as many in a wave as the service takes, all of one operator."""
    order = rng.permutation(len(schedules)).tolist()
    names = list(dict.fromkeys(schedules[place].operator for place in order))
    groups = [[place for place in order if schedules[place].operator == name] for name in names]
    return [group[start : start + WAVE] for group in groups for start in range(0, len(group), WAVE)]


def _samples(
    runner: Runner, built: Sequence[Built], limits: MeasureLimits, incumbent: float | None
) -> list[tuple[float, ...]]:
    """What one race found of each; nothing after a failure."""
    return [outcome.samples for outcome in race(runner, built, limits, incumbent)]
