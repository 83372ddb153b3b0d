"""What the benchmark's database holds: how many of what, and what each job is like. Pure."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from tunesmith.states import JobState

LONG, WIDE = "bench-long", "bench-wide"
MODELS, TASKS = 20, 20
"""Models that most jobs tune, and tasks of each."""
BATCH = 16
"""Candidates of a round."""
FAMILIES = ("conv2d", "dense", "depthwise_conv2d", "softmax", "layer_norm", "batch_matmul")
RUNNING = 3
"""Jobs that run and wait for a device."""
WIDE_BATCH = 2
TARGETS = {"llvm-bench-2": "a" * 64, "llvm-bench-16": "b" * 64}
"""Hashes by device class. Devices are of the first class, running jobs of the second."""
FIRST_TARGET, SECOND_TARGET = TARGETS.values()


@dataclass(frozen=True)
class Sizes:
    """How much there is.

    Attributes:
        records: of all jobs together.
        jobs: the two large ones among them.
        trials: of the long job.
        tasks: of the wide job.
    """

    records: int
    jobs: int
    trials: int
    tasks: int

    @property
    def each(self) -> int:
        """Records of each of the other jobs."""
        left = self.records - self.trials - WIDE_BATCH * self.tasks
        return max(BATCH, left // max(1, self.jobs - 2))


@dataclass(frozen=True)
class JobPlan:
    """A job to make.

    Attributes:
        key: its id.
        model: number of its model.
        workloads: numbers of its tasks' workloads.
        records: it has so many.
        batch: candidates of a round.
        state: what it is in.
        target: hash.
        began: when it was submitted.
    """

    key: str
    model: int
    workloads: range
    records: int
    batch: int
    state: JobState
    target: str
    began: dt.datetime

    @property
    def rounds(self) -> int:
        """How many of them, the last one perhaps smaller."""
        return -(-self.records // self.batch)


def plans(sizes: Sizes, now: dt.datetime) -> Iterator[JobPlan]:
    """Every job, the oldest first; the wide and the long one are the newest."""
    others = sizes.jobs - 2
    for number in range(others):
        model = number % MODELS
        began = now - dt.timedelta(minutes=10 * (others - number) + 60)
        state, target = JobState.SUCCEEDED, FIRST_TARGET
        if number >= others - RUNNING:
            state, target = JobState.RUNNING, SECOND_TARGET
        elif number % 20 == 7:
            state = JobState.CANCELLED
        yield JobPlan(f"bench-{number:06d}", model, tasks_of(model), sizes.each, BATCH, state, target, began)
    wide = range(MODELS * TASKS, MODELS * TASKS + sizes.tasks)
    hour = now - dt.timedelta(hours=1)
    yield JobPlan(WIDE, MODELS, wide, WIDE_BATCH * sizes.tasks, WIDE_BATCH, JobState.SUCCEEDED, FIRST_TARGET, hour)
    yield JobPlan(
        LONG, 0, tasks_of(0), sizes.trials, BATCH, JobState.SUCCEEDED, FIRST_TARGET, now - dt.timedelta(minutes=50)
    )


def tasks_of(model: int) -> range:
    """Numbers of a model's workloads."""
    return range(TASKS * model, TASKS * (model + 1))


def workload(number: int) -> str:
    """Hash of a workload."""
    return hashlib.sha256(f"workload {number}".encode()).hexdigest()


def sketch(number: int) -> str:
    """Hash of a workload's only sketch."""
    return hashlib.sha256(f"sketch {number}".encode()).hexdigest()


def task_name(number: int) -> str:
    """What a task is called."""
    return f"fused_{family(number)}{number}_add_relu"


def family(number: int) -> str:
    """Operator of a workload."""
    return FAMILIES[number % len(FAMILIES)]
