"""Tunesmith as one of the tuners: its embedded stack, driven through the REST API as a user would."""

from __future__ import annotations

import datetime as dt
import json
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.harness.jobs import FROM_SCRATCH, SAME_TASK, START_LIMIT, WARM_UP_LIMIT, service, warm_up
from benchmarks.tuners.outcome import Trial, TunerRun
from benchmarks.tuners.plan import RANDOM, Ask, Deadline
from tunesmith.client import Client
from tunesmith.errors import TunesmithError
from tunesmith.names import NO_COST_MODEL

END_LIMIT = 120.0
"""Seconds after the budget in which the last round must be over."""
OPTIONS: Mapping[str, Mapping[str, Any]] = {RANDOM: {"search": "random", "cost_model": NO_COST_MODEL}}
"""What differs from the defaults, by tuner."""


def run(ask: Ask, folder: Path, deadline: Deadline) -> TunerRun:
    """Tune with a stack of its own, started for this run, in an empty data directory.

    A tiny job goes before, which a service does once. It belongs to the start-up, as MetaSchedule's imports do.

    Args:
        ask: what to run.
        folder: an empty folder.
        deadline: of everything.
    """
    started = time.monotonic()
    try:
        with service(folder, max(1.0, deadline.left(START_LIMIT))) as client:
            warm_up(client, ask.target, deadline.left(WARM_UP_LIMIT), **SAME_TASK, **OPTIONS.get(ask.tuner, {}))
            return _tune(client, ask, time.monotonic() - started, deadline)
    except TunesmithError as error:
        return ask.outcome(failure=f"{error.code}: {error.detail}")


def _tune(client: Client, ask: Ask, startup: float, deadline: Deadline) -> TunerRun:
    begin = time.time()
    job = client.submit(
        operator=ask.operator,
        target=ask.target.to_json(),
        seconds=ask.budget,
        seed=ask.seed,
        **FROM_SCRATCH,
        **SAME_TASK,
        **OPTIONS.get(ask.tuner, {}),
    )
    try:
        job = client.wait(job.id, timeout=deadline.left(ask.budget + END_LIMIT))
    except TunesmithError:
        client.cancel(job.id)  # what it measured until now is told all the same
    stopped = time.time()
    if job.error:
        return ask.outcome(failure=f"{job.error.get('code')}: {job.error.get('detail')}")
    best = client.best(job.id)
    over = _seconds(job.finished_at) if job.finished_at else stopped
    return outcome_of(
        ask,
        startup,
        begin,
        over,
        client.trials(job.id),
        client.rounds(job.id),
        best[0] if best else {},
    )


def outcome_of(
    ask: Ask,
    startup: float,
    begin: float,
    over: float,
    trials: Iterable[Mapping[str, Any]],
    rounds: Iterable[Mapping[str, Any]],
    best: Mapping[str, Any],
) -> TunerRun:
    """What the API tells, as an outcome.

    Args:
        ask: what was asked for.
        startup: seconds until the stack was ready.
        begin, over: when the job was submitted and when it ended, in seconds of the epoch.
        trials, rounds, best: of the job, as the API has them.
    """
    records = list(trials)
    candidates = [record for record in records if record["sketch"] is not None]  # the default schedule is no trial
    found = [_trial(record, begin) for record in candidates]
    # A space that was used up ends the job early; else the whole budget counts, its last seconds without results too.
    elapsed = min(ask.budget, over - begin)
    timely = [record for record, trial in zip(candidates, found, strict=True) if trial.at <= elapsed]
    parts = {
        "build": sum(record["build_seconds"] for record in timely),
        "run": sum(record["run_seconds"] for record in timely),
        "kernel": sum(record.get("device_seconds") or 0.0 for record in timely),
        "search": sum(float((row["metrics"] or {}).get("propose_seconds", 0.0)) for row in rounds),
    }
    trace = best.get("trace")
    return ask.outcome(
        startup=startup,
        elapsed=elapsed,
        trials=tuple(found),
        parts=parts,
        workload=str(best.get("workload", {}).get("hash", "")),
        trace=None if trace is None else json.dumps(trace),
    )


def _trial(record: Mapping[str, Any], begin: float) -> Trial:
    at = _seconds(dt.datetime.fromisoformat(str(record["created_at"]).replace("Z", "+00:00"))) - begin
    return Trial(
        at, record["latency"], float(record.get("device_seconds") or 0.0), bool(record.get("duplicate", False))
    )


def _seconds(moment: dt.datetime) -> float:
    return (moment if moment.tzinfo else moment.replace(tzinfo=dt.timezone.utc)).timestamp()
