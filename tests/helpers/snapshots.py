"""Snapshots that a plan is made from."""

from __future__ import annotations

from services.coordinator.scheduling.snapshot import JobSnapshot, TaskSnapshot
from tunesmith.states import JobState

CLASS = "llvm-x-2"


def task(key: int, **values: object) -> TaskSnapshot:
    return TaskSnapshot(**{"id": key, "weight": 1.0, "flops": 1e9 / key, "family": "conv2d", **values})


def job(key: str = "a", tasks: int = 3, **values: object) -> JobSnapshot:
    base = {
        "id": key,
        "state": JobState.RUNNING,
        "device_class": CLASS,
        "budget_trials": 100,
        "tasks": tuple(task(i + 1) for i in range(tasks)),
    }
    return JobSnapshot(**{**base, **values})
