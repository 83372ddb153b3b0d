"""From trials to a table. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.faults.scenarios import SCENARIOS
from benchmarks.faults.trial import Trial
from benchmarks.harness.report import Report

NAME = "faults"


def median(trials: Sequence[Trial]) -> Trial:
    """The run whose recovery is the median; of an even number the lower one."""
    return sorted(trials, key=lambda trial: trial.recovery)[(len(trials) - 1) // 2]


def faults(found: Mapping[str, Sequence[Trial]], facts: Mapping[str, str]) -> Report:
    """One line per scenario: the median run, and what all of its runs lost."""
    rows = []
    for name, trials in found.items():
        chosen = median(trials)
        rows.append(
            {
                "scenario": name,
                "before /s": round(chosen.before, 1),
                "during /s": round(chosen.during, 1),
                "after /s": round(chosen.after, 1),
                "recovery": round(chosen.recovery, 3),
                "of all runs": ", ".join(f"{trial.recovery:.2f}" for trial in trials),
                "first result after s": None if chosen.first is None else round(chosen.first, 1),
                "attempts > 1": sum(trial.retried for trial in trials),
                **{key: sum(getattr(trial, key) for trial in trials) for key in ("lost", "doubled", "abandoned")},
            }
        )
    described = "; ".join(f"`{name}`: {SCENARIOS[name].what}" for name in found)
    summary = (
        "PostgreSQL, Redis and two replicas each of the coordinator and of the workers `record` and `search` are "
        "real. "
        "Devices are simulated: they answer real messages with real reports, and offer at least half of the "
        "measured capacity of the service. A run has three phases of the same length: before, fault, after. "
        "'After' begins "
        "when the fault ends, and recovery is its rate over the rate before. The median of the runs counts. "
        "A recovery above 1 includes work that had waited. Attempts, lost, doubled and abandoned are sums over all "
        f"runs, counted in the database.\n\n{described}."
    )
    return Report.of(NAME, "Faults", summary, rows, facts)
