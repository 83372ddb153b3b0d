"""Rows of many jobs, as a service has them after months: written straight into the tables."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Engine

from benchmarks.dashboard import plan, surroundings
from benchmarks.dashboard.plan import JobPlan, Sizes
from db import models as tables
from db.models.base import utcnow
from tunesmith.states import RoundState, WorkState

ENVIRONMENT = {
    "device": "bench-0/cpu",
    "worker": "bench-0/cpu-1",
    "tvm": "0.27.0.post1",
    "noise_floor": 0.02,
    "cache": "warm",
    "simulated": False,
    "cores": 2,
    "cpu": "AMD EPYC",
    "versions": {"tunesmith": "0.1.0", "numpy": "2.4.6"},
}
FAILURES = ("build_timeout", "build_error", "run_error", "invalid")
EACH_FAILS = 20
"""One record of so many failed."""
ENVIRONMENT_TEXT = json.dumps(ENVIRONMENT)
TASK_COLUMNS = (
    "id job_id workload_hash family_id position name weight tunable sketches exhausted trials failures duplicates "
    "earlier_labels untuned_seconds best_seconds best_record_id told_record_id"
)
ROUND_COLUMNS = (
    "id job_id job_task_id number size baseline state reason metrics best_before best_after finished_at created_at "
    "attempt dispatched"
)
BATCH_COLUMNS = (
    "id round_id job_id device_class state candidates created_at finished_at attempt dispatched secret holders reported"
)
RECORD_COLUMNS = (
    "id job_id job_task_id batch_id index workload_hash target_hash sketch_hash decisions samples latency failure "
    "message build_seconds run_seconds device_seconds duplicate environment simulated cache family precision processor "
    "build origin content created_at"
)
FAMILY_COLUMNS = "id job_id name"
EVENT_COLUMNS = "job_id kind data created_at"


def fill(engine: Engine, sizes: Sizes) -> None:
    """Fill a migrated, empty database. Indexes of records are made when the records are there."""
    now = utcnow()
    indexes = sorted(tables.Record.__table__.indexes, key=lambda index: str(index.name))  # type: ignore[attr-defined]
    with engine.begin() as connection:
        for index in indexes:
            index.drop(connection)
        jobs = list(plan.plans(sizes, now))
        surroundings.before_jobs(connection, sizes, jobs)
        loader = Loader(connection)
        writer = JobWriter(loader, random.Random(0))
        for job in jobs:
            writer.write(job)
        for index in indexes:
            index.create(connection)
        surroundings.after_jobs(connection, jobs, writer.best, now)
        if connection.dialect.name == "postgresql":  # which does so by itself; SQLite keeps no statistics
            connection.exec_driver_sql("ANALYZE")


class Loader:
    """Inserts rows past SQLAlchemy, which would look at every value."""

    def __init__(self, connection: Connection) -> None:
        sqlite = connection.dialect.name == "sqlite"
        self._cursor: Any = connection.connection.cursor()
        self._mark, self._zone = ("?", "") if sqlite else ("%s", "+00")

    def time(self, at: dt.datetime) -> str:
        """A time as the database takes it."""
        return f"{at:%Y-%m-%d %H:%M:%S.%f}{self._zone}"

    def load(self, table: str, columns: str, rows: Iterable[tuple[Any, ...]]) -> None:
        """Insert rows; ``columns`` are names with spaces between them, and JSON comes as text."""
        each = columns.split()
        names = ", ".join(f'"{name}"' for name in each)
        marks = ", ".join([self._mark] * len(each))
        self._cursor.executemany(f"INSERT INTO {table} ({names}) VALUES ({marks})", rows)


@dataclass(frozen=True)
class _Task:
    """A task under way: ids, untuned seconds, and seconds of each of its records; None for one that failed."""

    id: int
    number: int
    untuned: float
    records: list[tuple[int, float | None]]

    @property
    def best(self) -> tuple[int, float] | None:
        """The fastest record's id and seconds."""
        ran = [(seconds, key) for key, seconds in self.records if seconds is not None]
        return (min(ran)[1], min(ran)[0]) if ran else None


class JobWriter:
    """Writes jobs' tasks, rounds, batches, records and events, with ids that count up.

    Attributes:
        best: record and latency of the champion, by number of the workload and target.
    """

    def __init__(self, loader: Loader, draw: random.Random) -> None:
        self._loader, self._draw = loader, draw
        self._task, self._round, self._record, self._family = 1, 1, 1, 1
        self.best: dict[tuple[int, str], tuple[int, float]] = {}

    def write(self, job: JobPlan) -> None:
        """Write one job's."""
        tasks = self._tasks(job)
        for task in tasks:
            self._note_best(job, task)
        load = self._loader.load
        first, names = self._family, enumerate(plan.FAMILIES, self._family)
        load("families", FAMILY_COLUMNS, ((key, job.key, name) for key, name in names))
        load("job_tasks", TASK_COLUMNS, (_task_row(job, at, task, first) for at, task in enumerate(tasks)))
        self._family += len(plan.FAMILIES)
        rounds = list(self._rounds(job, tasks))
        load("rounds", ROUND_COLUMNS, (row for row, _ in rounds))
        load("batches", BATCH_COLUMNS, (row for _, row in rounds))
        load("records", RECORD_COLUMNS, self._records(job, tasks))
        load("events", EVENT_COLUMNS, self._events(job, tasks))
        self._round += job.rounds
        self._record += job.records

    def _tasks(self, job: JobPlan) -> list[_Task]:
        tasks = []
        for number in job.workloads:
            tasks.append(_Task(self._task, number, 10 ** self._draw.uniform(-4, -2), []))
            self._task += 1
        for at in range(job.records):
            task = tasks[(at // job.batch) % len(tasks)]
            n = len(task.records)
            seconds: float | None = task.untuned
            if n > 0:
                failed = at % EACH_FAILS == EACH_FAILS - 1
                seconds = None if failed else task.untuned * (0.05 + self._draw.random()) / (1 + n / 64)
            task.records.append((self._record + at, seconds))
        return tasks

    def _note_best(self, job: JobPlan, task: _Task) -> None:
        place, found = (task.number, job.target), task.best
        if found is not None and (place not in self.best or found[1] < self.best[place][1]):
            self.best[place] = found

    def _rounds(self, job: JobPlan, tasks: list[_Task]) -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...]]]:
        """Rows of rounds, each with its batch's."""
        device_class = next(name for name, key in plan.TARGETS.items() if key == job.target)
        seen = [0] * len(tasks)
        best: list[float | None] = [None] * len(tasks)
        for at in range(job.rounds):
            slot, key = at % len(tasks), self._round + at
            task, size, before = tasks[slot], min(job.batch, job.records - at * job.batch), best[slot]
            ran = [seconds for _, seconds in task.records[seen[slot] : seen[slot] + size] if seconds is not None]
            best[slot] = min(ran if before is None else [before, *ran], default=None)
            seen[slot] += size
            when = self._loader.time(_when(job, at))
            reason = {"reason": "largest expected gain", "gain": 1e-4, "scores": {str(task.id): 1e-4}}
            metrics = {"measured": size, "failed": size - len(ran), "build_seconds": 4.0, "run_seconds": 2.0}
            yield (
                (
                    key,
                    job.key,
                    task.id,
                    at + 1,
                    size,
                    at < len(tasks),
                    RoundState.DONE.value,
                    json.dumps(reason),
                    json.dumps(metrics),
                    before,
                    best[slot],
                    when,
                    when,
                    1,
                    1,
                ),
                (
                    key,
                    key,
                    job.key,
                    device_class,
                    WorkState.DONE.value,
                    _candidates(task, size),
                    when,
                    when,
                    1,
                    1,
                    f"{key:032x}",
                    "{}",
                    0,
                ),
            )

    def _records(self, job: JobPlan, tasks: list[_Task]) -> Iterator[tuple[Any, ...]]:
        names = [(plan.workload(task.number), plan.sketch(task.number), plan.family(task.number)) for task in tasks]
        place = [0] * len(tasks)
        when = ""
        for at in range(job.records):
            round_, index = divmod(at, job.batch)
            slot = round_ % len(tasks)
            task, (workload, sketch, family) = tasks[slot], names[slot]
            key, seconds = task.records[place[slot]]
            first = place[slot] == 0
            place[slot] += 1
            if index == 0:
                when = self._loader.time(_when(job, round_))
            failure = FAILURES[at // EACH_FAILS % len(FAILURES)] if seconds is None else None
            samples = "[]" if seconds is None else f"[{seconds * 0.99}, {seconds}, {seconds * 1.01}]"
            yield (
                (
                    key,
                    job.key,
                    task.id,
                    self._round + round_,
                    index,
                    workload,
                    job.target,
                    None if first else sketch,
                    f"[{key % 5}, {key % 8}]",
                    samples,
                    seconds,
                    failure,
                    "it took longer than 10 s" if failure else "",
                    0.25,
                    0.125,
                    0.05,
                    False,
                    ENVIRONMENT_TEXT,
                    False,
                    "warm",
                    family,
                    "float32",
                    "AMD EPYC",
                    "0.27.0.post1",
                    "measured",
                    hashlib.sha256(b"%d" % key).hexdigest(),
                    when,
                )
            )

    def _events(self, job: JobPlan, tasks: list[_Task]) -> Iterator[tuple[Any, ...]]:
        began = self._loader.time(job.began)
        for kind in ("job_queued", "job_running"):
            yield job.key, kind, json.dumps({"id": job.key, "from": "queued", "to": "running"}), began
        for at in range(job.rounds):
            task = tasks[at % len(tasks)]
            data = {
                "id": self._round + at,
                "task": task.id,
                "number": at + 1,
                "name": plan.task_name(task.number),
                "measured": job.batch,
                "failed": 1,
                "best_before": task.untuned,
                "best_after": task.untuned / 2,
                "trials": at * job.batch,
            }
            yield job.key, "round_finished", json.dumps(data), self._loader.time(_when(job, at))


def _task_row(job: JobPlan, at: int, task: _Task, families: int) -> tuple[Any, ...]:
    best = task.best
    failed = sum(seconds is None for _, seconds in task.records)
    return (
        task.id,
        job.key,
        plan.workload(task.number),
        families + task.number % len(plan.FAMILIES),
        at,
        plan.task_name(task.number),
        1 + at % 3,
        True,
        json.dumps([plan.sketch(task.number)]),
        False,
        max(0, len(task.records) - 1),
        failed,
        0,
        0,
        task.untuned if best else None,
        best[1] if best else None,
        best[0] if best else None,
        0,
    )


def _when(job: JobPlan, at: int) -> dt.datetime:
    """When a round ended: all of a job's end within half an hour."""
    return job.began + dt.timedelta(seconds=1800 * (at + 1) / (job.rounds + 1))


def _candidates(task: _Task, size: int) -> str:
    return json.dumps([[plan.sketch(task.number), [index % 5, index % 8]] for index in range(size)])


def count(engine: Engine) -> int:
    """Jobs in the database."""
    with engine.connect() as connection:
        return connection.scalar(sa.select(sa.func.count()).select_from(tables.Job)) or 0
