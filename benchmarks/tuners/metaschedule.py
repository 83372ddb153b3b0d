"""MetaSchedule as one of the tuners: its process, watched and ended at the budget."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness.processes import Tree, environment
from benchmarks.tuners.evaluator import LOG
from benchmarks.tuners.metaschedule_child import MANY, Job
from benchmarks.tuners.outcome import Trial, TunerRun
from benchmarks.tuners.plan import PER_ROUND, Ask, Deadline
from tunesmith.safe_path import python

START_LIMIT = 180.0
FIRST_ROUND_LIMIT = 4.0
"""Budgets that the first round may take: a tuner that is killed before it has told anything has no rate."""
POLL = 0.2
EVENTS = "events.jsonl"
"""What the child tells; see there."""
CHILD = "benchmarks.tuners.metaschedule_child"


def run(
    ask: Ask, folder: Path, deadline: Deadline, child: Sequence[str] = python(CHILD), trials: int = MANY
) -> TunerRun:
    """Tune with MetaSchedule until the budget or the trials are over, longer only while its first round is under way.

    Args:
        ask: what to run.
        folder: an empty folder for its database and temporary files.
        deadline: of everything.
        child: the command that gets the job.
        trials: candidates at most.
    """
    events, evaluations, scratch = folder / EVENTS, folder / "evaluations.jsonl", folder / "tmp"
    scratch.mkdir(parents=True)
    job = Job(
        ask.operator,
        ask.target.to_json(),
        ask.target.num_cores,
        PER_ROUND[ask.tuner],
        ask.seed,
        str(folder / "db"),
        str(events),
        trials,
    )
    settings = {LOG: str(evaluations), "TMPDIR": str(scratch)}
    env = environment(TVM_NUM_THREADS=str(ask.target.num_cores), **settings)
    started = time.monotonic()
    command = [*child, json.dumps(asdict(job))]
    with Tree(command, log=folder / "log", folder=folder, env=env) as tree:
        _watch(tree, events, ask.budget, deadline)
        status, said = tree.poll(), tree.tail()
    found = read_lines(events)
    if not any(event["kind"] == "ready" for event in found):
        return ask.outcome(failure=f"MetaSchedule did not start: {said}")
    outcome = outcome_of(ask, started, found, read_lines(evaluations))
    if outcome.trials:
        return outcome
    ended = "ran no candidate in its time" if status is None else f"ended with {status}: {said}"
    return ask.outcome(startup=outcome.startup, failure=f"MetaSchedule {ended}")


def _watch(tree: Tree, events: Path, budget: float, deadline: Deadline) -> None:
    """Return when the tuner has had its time, or has ended."""
    start = Deadline(deadline.left(START_LIMIT))
    ready: Deadline | None = None
    first: Deadline | None = None
    size, kinds = 0, set[str]()
    while tree.wait(POLL) is None and deadline.left(1.0):
        if events.exists() and events.stat().st_size != size:  # the cores are the tuner's: no reading without need
            size, kinds = events.stat().st_size, {event["kind"] for event in read_lines(events)}
        if ready is None or first is None:
            if "ready" in kinds:
                ready, first = Deadline(budget), Deadline(budget * FIRST_ROUND_LIMIT)
            elif not start.left(1.0):
                return
        elif not (ready if "round" in kinds else first).left(1.0):
            return


def read_lines(path: Path) -> list[Any]:
    """The JSON values of the lines that are complete."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text("utf-8").split("\n")[:-1]]


def outcome_of(
    ask: Ask, started: float, events: Sequence[Mapping[str, Any]], evaluations: Sequence[tuple[float, float]]
) -> TunerRun:
    """What the child told, as an outcome.

    A round's results come together, as they do for MetaSchedule itself: its model and its database see them then. Where
    no round was completed, the candidates that ran are counted as they ended.

    Args:
        ask: what was asked for.
        started: when the process was started.
        events: its events, see ``metaschedule_child``.
        evaluations: end and seconds of each run of a candidate.
    """
    ready = next(event for event in events if event["kind"] == "ready")
    begin = float(ready["at"])
    rounds = _rounds([event for event in events if event["kind"] == "round"], begin, evaluations)
    trials = [trial for round_ in rounds for trial in round_.trials]
    if not rounds:
        trials = [Trial(end - begin, seconds, seconds) for end, seconds in evaluations]
    # The first round counts however long it took, later ones when they were complete at the end of the budget.
    counted = [round_ for round_ in rounds if round_.at <= ask.budget] or rounds[:1]
    elapsed = counted[-1].at if counted else max((trial.at for trial in trials), default=0.0)
    traces = [round_.trace for round_ in counted if round_.trace is not None]
    return ask.outcome(
        startup=begin - started,
        elapsed=elapsed,
        trials=tuple(trials),
        workload=str(ready["hash"]),
        trace=traces[-1] if traces else None,
        parts=_parts(counted[-1].profile if counted else {}, elapsed, trials),
    )


@dataclass(frozen=True)
class _Round:
    at: float
    trials: list[Trial]
    trace: str | None
    profile: Mapping[str, float]


def _rounds(
    events: Sequence[Mapping[str, Any]], begin: float, evaluations: Sequence[tuple[float, float]]
) -> list[_Round]:
    rounds, spent, before = [], 0.0, begin
    for event in events:
        end = float(event["at"])
        at = end - begin - spent
        spent += float(event["spent"])  # our own bookkeeping is not the tuner's time
        kernel = sum(seconds for done, seconds in evaluations if before < done <= end)
        rounds.append(_Round(at, _trials(event["results"], at, kernel), event["trace"], event["profile"]))
        before = end
    return rounds


def _trials(results: Sequence[tuple[float | None, bool]], at: float, kernel: float) -> list[Trial]:
    ran = sum(latency is not None for latency, _ in results)
    return [
        Trial(at, latency, kernel / ran if latency is not None else 0.0, bool(duplicate))
        for latency, duplicate in results
    ]


def _parts(profile: Mapping[str, float], elapsed: float, trials: Sequence[Trial]) -> dict[str, float]:
    """Its loop does one thing after the other: what is neither building nor running is the search and its model."""
    build, run = profile.get("SendToBuilder", 0.0), profile.get("SendToRunner", 0.0)
    kernel = sum(trial.device for trial in trials if trial.at <= elapsed)
    return {"build": build, "run": run, "kernel": kernel, "search": max(0.0, elapsed - build - run)}
