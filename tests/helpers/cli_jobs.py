"""A running job as the command line gets it."""

from __future__ import annotations

from typing import Any

from answers import whole

from tunesmith.client import Job


def job(
    trials: int = 0,
    measured: int = 0,
    tunable: int = 23,
    current: float | None = None,
    eta: float | None = None,
    **values: Any,
) -> Job:
    """A job of 400 trials that measured some of its tasks; ``values`` are further fields of the answer."""
    given = {
        "id": "j-1",
        "state": "running",
        **values,
        "progress": {
            "trials": trials,
            "trials_budget": 400,
            "seconds": trials,
            "tasks_tunable": tunable,
            "tasks_measured": measured,
            "eta_seconds": eta,
        },
        "latency": {"untuned": current and 0.2, "current": current, "speedup": current and 0.2 / current},
    }
    return Job.read(whole(Job, given))
