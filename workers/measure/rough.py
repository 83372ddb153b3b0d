"""What a model takes before anything is tuned: the default schedule of each of its tasks, timed once and early."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tunesmith.errors import DeviceLost
from tunesmith.messages import DefaultLatency, DefaultSchedule, MeasureBatch
from workers.measure.batches import Tools
from workers.measure.builds import DEFAULT, Builds, outcome_of
from workers.protocol import Built, RunOutcome

WAVE = 16
"""Default schedules that are built before any of them runs: building and running alternate, as in a batch."""
LEAST_SECONDS = 1.0
"""What one may take in any case: cutting a run off costs as much."""
SHORT = {"min_repeats": 1, "repeats": 1, "max_measure_seconds": 0.01, "min_repeat_seconds": 0.0}
"""Limits for a figure that is right within some tenths."""


def latencies(batch: MeasureBatch, tools: Tools, folder: Path) -> list[DefaultLatency]:
    """The rough latencies of ``batch.defaults``, as many as there is time for. Their libraries are kept, so that
    the first rounds of their tasks need not build them.

    Args:
        folder: for the libraries.

    Raises:
        DeviceLost: the device is gone.
    """
    end = time.monotonic() + batch.limits.defaults_seconds
    found = list(_timed(batch, tools, folder, end)) if batch.defaults else []
    tools.runner.release()
    return found


def _timed(batch: MeasureBatch, tools: Tools, folder: Path, end: float) -> Iterator[DefaultLatency]:
    waves = [batch.defaults[start : start + WAVE] for start in range(0, len(batch.defaults), WAVE)]
    for number, wave in enumerate(waves):
        if time.monotonic() >= end:
            return
        tools.runner.open(batch.target)
        for schedule, built in _built(wave, batch, tools, folder / f"rough{number}"):
            left = end - time.monotonic()
            outcome = _run(built, batch, tools, left) if left > 0 else RunOutcome()
            if outcome.samples:
                yield DefaultLatency(workload=schedule.workload, seconds=statistics.median(outcome.samples))


def _built(
    wave: Sequence[DefaultSchedule], batch: MeasureBatch, tools: Tools, folder: Path
) -> list[tuple[DefaultSchedule, Built]]:
    """Keep those whose build succeeded."""
    futures = []
    for number, schedule in enumerate(wave):
        place = folder / str(number)
        place.mkdir(parents=True)
        alone = batch.model_copy(update={"workload": schedule.workload})
        builds = Builds(alone, tools.load(schedule.module), {}, tools.builders, tools.libraries, place)
        futures.append((schedule, builds, builds.submit(DEFAULT)))
    made = [(schedule, builds, outcome_of(future)) for schedule, builds, future in futures]
    return [(schedule, builds.keep(DEFAULT, built)) for schedule, builds, built in made if built.path is not None]


def _run(built: Built, batch: MeasureBatch, tools: Tools, left: float) -> RunOutcome:
    """One short sample, within the seconds that are left."""
    timeout = min(batch.limits.run_timeout, max(left, LEAST_SECONDS))
    known = tools.book.outcome(built.code_hash, timeout)
    if known is not None or tools.book.suspected(built.code_hash):
        return RunOutcome()
    limits = batch.limits.model_copy(update={**SHORT, "run_timeout": timeout})
    tools.book.begin(built.code_hash, timeout)
    request = built.to_run(limits, default=True)
    try:
        (raw,) = tools.runner.race([request], None)
    except DeviceLost:
        tools.book.lost()
        raise
    tools.book.end(built.code_hash, raw)
    return tools.check(raw, built, batch)
