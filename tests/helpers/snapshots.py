"""Snapshots that a plan is made from."""

from __future__ import annotations

from typing import Any

from services.coordinator.scheduling.snapshot import JobSnapshot, TaskSnapshot
from tunesmith.options import JobOptions
from tunesmith.states import JobState

CLASS = "llvm-x-2"


def task(key: int, **values: object) -> TaskSnapshot:
    return TaskSnapshot(**{"id": key, "weight": 1.0, "flops": 1e9 / key, "family": "conv2d", **values})


PLAIN = JobOptions(allocator="gradient", cost_model="none")
"""Of jobs that say nothing else: no training is due between their rounds."""


def with_options(values: dict[str, Any]) -> dict[str, Any]:
    """``values`` of a job's snapshot, those among them that are options put together."""
    options = {name: value for name, value in values.items() if name in JobOptions.model_fields}
    others = {name: value for name, value in values.items() if name not in options}
    return {**others, "options": PLAIN.model_copy(update=options)}


def job(key: str = "a", tasks: int = 3, **values: Any) -> JobSnapshot:
    base = {
        "id": key,
        "state": JobState.RUNNING,
        "device_class": CLASS,
        "budget_trials": 100,
        "tasks": tuple(task(i + 1) for i in range(tasks)),
    }
    return JobSnapshot(**{**base, **with_options(values)})
