"""Choose who is next: devices are shared equally by users, and a user's share by the user's jobs. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from services.coordinator.scheduling.snapshot import ROUND_SIZE, JobSnapshot, Snapshot, TaskSnapshot


@dataclass(frozen=True)
class Limits:
    """How much may be in flight per device class: ``per_slot`` rounds for each live device and ``spare`` more.

    ``ahead``: first rounds of a job that has the devices for itself, beyond these. They are constructed without a cost
    model, so that none of them would know more later, and searchers have nothing else to do while devices are busy with
    the default schedules.
    """

    per_slot: int = 2
    spare: int = 1
    minimum: int = 2
    ahead: int = 5

    def rounds(self, slots: int) -> int:
        """Rounds that may be under way for a class with ``slots`` live devices."""
        return max(self.minimum, self.per_slot * slots + self.spare)


@dataclass(frozen=True)
class Pace:
    """What rounds of a device class are like.

    A round in flight waits for the others and then has a device for ``d`` seconds. By Little's law a user with n rounds
    in flight has ``n d / (wait + d)`` devices, so that is what a round counts for.

    Attributes:
        usual: seconds that a candidate takes on average.
        size: candidates of a round, on average.
        queue: rounds that wait for each one that has a device.
    """

    usual: float = 1.0
    size: float = 1.0
    queue: float = 1.0

    @classmethod
    def of(cls, jobs: Sequence[JobSnapshot], slots: int, limits: Limits) -> Pace:
        """Pace of the jobs of one class."""
        trials, spent = 0, 0.0
        for job in jobs:
            for task in job.tasks:
                if seconds := task.seconds:
                    count = task.trials
                    trials += count
                    spent += count * seconds
        usual = spent / trials if trials else 1.0
        rounds, flying = (sum(getattr(job, name) for job in jobs) for name in ("rounds_in_flight", "trials_in_flight"))
        queue = max(0.0, limits.rounds(slots) / slots - 1.0) if slots else 0.0
        return cls(usual, flying / rounds if rounds and flying else float(ROUND_SIZE), queue)

    def weight(self, task: TaskSnapshot, size: float) -> float:
        """What a round of so many candidates of the task counts for; 1 for a usual one."""
        seconds, usual = (task.seconds or self.usual) * size, self.usual * self.size
        return (1.0 + self.queue) * seconds / (self.queue * usual + seconds)


@dataclass
class Load:
    """Rounds under way, counted on while the plan opens more.

    Attributes:
        paces: by device class.
        rounds: number by device class.
        users: their weights, summed up by device class and owner.
        jobs: likewise by job.
        newest: id of a user's newest round, by device class and owner.
        turns: when this plan opened a round for a user, or for a job, counted from 1.
    """

    paces: Mapping[str, Pace]
    rounds: Counter[str] = field(default_factory=Counter)
    users: defaultdict[tuple[str, str], float] = field(default_factory=lambda: defaultdict(float))
    jobs: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    newest: dict[tuple[str, str], int] = field(default_factory=dict)
    turns: dict[tuple[str, ...], int] = field(default_factory=dict)

    @classmethod
    def of(cls, snapshot: Snapshot, limits: Limits) -> Load:
        """Before anything more is opened."""
        classes: dict[str, list[JobSnapshot]] = {}
        for job in snapshot.jobs:
            classes.setdefault(job.device_class, []).append(job)
        load = cls({name: Pace.of(jobs, snapshot.slots.get(name, 0), limits) for name, jobs in classes.items()})
        for job in snapshot.jobs:
            pace = load.paces[job.device_class]
            size = job.trials_in_flight / (job.rounds_in_flight or 1) or pace.size
            for task in job.flying:
                load._count(job, task.in_flight, task.in_flight * pace.weight(task, size))
            load.newest[_user(job)] = max(load.newest.get(_user(job), 0), job.last_round)
        return load

    def opened(self, job: JobSnapshot, task_id: int, size: int) -> None:
        """One more round, of ``size`` candidates, for a task of ``job``."""
        task = next(task for task in job.tasks if task.id == task_id)
        self._count(job, 1, self.paces[job.device_class].weight(task, size))
        self.turns[_user(job)] = self.turns[(job.id,)] = 1 + max(self.turns.values(), default=0)

    def urgency(self, job: JobSnapshot) -> tuple[Any, ...]:
        """Smallest for the job that is next. The user with the least under way on such devices goes first, then that
        user's job with the least by its priority, then whoever was served longest ago.
        """
        user = _user(job)
        share = self.jobs[job.id] / 2.0 ** max(-10, min(10, job.options.priority))
        return (
            self.users[user],
            self.turns.get(user, 0),
            self.newest.get(user, 0),
            share,
            -job.options.priority,
            self.turns.get((job.id,), 0),
            job.last_round,
            job.id,
        )

    def _count(self, job: JobSnapshot, rounds: int, weight: float) -> None:
        self.rounds[job.device_class] += rounds
        self.users[_user(job)] += weight
        self.jobs[job.id] += weight


def _user(job: JobSnapshot) -> tuple[str, str]:
    return job.device_class, job.owner
