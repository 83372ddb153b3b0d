"""MetaSchedule's runs, which take minutes each: made once for an operator, target, seed and size of the rounds.

A file holds one run as a JSON object: what was asked for, wall time, every candidate's latency and when it was known,
the best trace, and the versions. Times are in seconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness.report import setup
from benchmarks.tuners import metaschedule
from benchmarks.tuners.metaschedule import EVENTS, read_lines
from benchmarks.tuners.outcome import Trial, TunerRun
from benchmarks.tuners.plan import Ask, Deadline
from tunesmith.errors import InvalidInput, MeasurementFailed
from tunesmith.targets import Target, slug

TRIALS = 128
RUN_SECONDS = 1800.0
"""Seconds after which a run is given up."""
VERSIONS = ("CPU", "apache-tvm")
"""What a recording says of the machine and the packages."""


@dataclass(frozen=True)
class Recording:
    """One run of ``tune_tir``.

    Attributes:
        outcome: what it found; its ``trace`` is never None.
        versions: of the machine and the packages that it ran with, by name.
    """

    outcome: TunerRun
    versions: Mapping[str, str]

    @property
    def seconds(self) -> float:
        """Wall time from the start of its process to its last result."""
        return self.outcome.startup + self.outcome.elapsed

    def to_json(self) -> dict[str, Any]:
        """Plain values; latencies to four digits, which is more than they are worth."""
        found = self.outcome
        return {
            "operator": found.operator,
            "tuner": found.tuner,
            "seed": found.seed,
            "target": json.loads(found.target),
            "startup": round(found.startup, 2),
            "elapsed": round(found.elapsed, 2),
            "workload": found.workload,
            "versions": dict(self.versions),
            "trials": [_row(trial) for trial in found.trials],
            "trace": json.loads(found.trace or "null"),
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Recording:
        """Inverse of :meth:`to_json`.

        Raises:
            KeyError, TypeError, ValueError: it is no recording.
        """
        trials = tuple(Trial(at, latency, duplicate=bool(duplicate)) for at, latency, duplicate in body["trials"])
        ask = Ask(body["operator"], body["seed"], body["tuner"], Target(body["target"]), RUN_SECONDS)
        trace = json.dumps(body["trace"])
        return cls(
            ask.outcome(
                startup=body["startup"], elapsed=body["elapsed"], trials=trials, workload=body["workload"], trace=trace
            ),
            body["versions"],
        )


def versions_of(recorded: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """What MetaSchedule's runs were recorded with, for the setup of a report."""
    return {f"MetaSchedule's runs recorded with {name}": text for one in recorded for name, text in one.items()}


def _row(trial: Trial) -> list[Any]:
    latency = None if trial.latency is None else float(f"{trial.latency:.4g}")
    return [round(trial.at, 2), latency, int(trial.duplicate)]


def ask_for(operator: str, target: Target, tuner: str, seed: int) -> Ask:
    """The run that a recording is of; ``tuner`` is ``metaschedule-16`` or ``metaschedule-64``."""
    return Ask(operator, seed, tuner, target, RUN_SECONDS)


def path_of(ask: Ask, folder: Path) -> Path:
    """Where a run's recording lies."""
    machine = f"{ask.target.to_json().get('mcpu', 'cpu')}-{ask.target.num_cores}"
    return folder / f"{slug(ask.operator.rsplit(':', 1)[0])}_{machine}_{ask.tuner}_{ask.seed}.json"


def find(ask: Ask, folder: Path) -> Recording | None:
    """The recording of a run, when there is one.

    Raises:
        InvalidInput: the file is not a recording, or one of another run.
    """
    path = path_of(ask, folder)
    if not path.exists():
        return None
    try:
        found = Recording.from_json(json.loads(path.read_text("utf-8")))
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidInput(f"{path.name} is not a recording: {error}", field="runs", value=path.name) from error
    known = found.outcome
    if (known.key, known.target) != ((ask.operator, ask.seed, ask.tuner), ask.target.canonical):
        raise InvalidInput(
            f"{path.name} is of another run: {known.operator} for {known.target}", field="runs", value=path.name
        )
    return found


def make(ask: Ask, folder: Path, scratch: Path) -> Recording:
    """Run MetaSchedule for ``TRIALS`` candidates and keep what it found.

    Args:
        ask: what to run.
        folder: of the recordings, made when missing.
        scratch: an empty folder.

    Raises:
        MeasurementFailed: it did not come to its end, or found nothing.
    """
    outcome = metaschedule.run(ask, scratch, Deadline(RUN_SECONDS), trials=TRIALS)
    events = read_lines(scratch / EVENTS)
    if outcome.failure or outcome.trace is None or events[-1]["kind"] != "end":
        reason = outcome.failure or f"after {len(outcome.trials)} of {TRIALS} candidates"
        raise MeasurementFailed(f"MetaSchedule ended early: {reason}")
    versions = setup()
    return keep(Recording(outcome, {name: versions[name] for name in VERSIONS}), ask, folder)


def keep(recording: Recording, ask: Ask, folder: Path) -> Recording:
    """Write a recording to its place; returns it as :func:`find` will."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(recording.to_json(), separators=(",", ":"))
    path_of(ask, folder).write_text(f"{text}\n", encoding="utf-8")
    return Recording.from_json(json.loads(text))
