"""Stores records as an import does, and asks for them as the routes do."""

from __future__ import annotations

import datetime as dt
import hashlib
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db import models as tables
from db.chunks import chunks
from db.engine import Sessions, create_engine, migrate, session_factory
from db.models.base import utcnow
from db.queries import dataset, jobs, record_imports
from db.queries.dataset import RecordFilter
from db.transactions import record_import
from db.transactions.record_import import Claim
from tunesmith.dataset.rows import About, RecordRow, digest
from tunesmith.names import FLOAT32
from tunesmith.preparation import PLAIN
from tunesmith.states import JobState, ModelState

CHUNK = 5000
"""Records of one transaction, as in an import."""
WORKLOADS, FAMILIES, SKETCHES = 200, 10, 2
"""Sketches of each workload."""
TARGETS = ("a" * 64, "b" * 64)
SHA = "0" * 64
JOB = "bench"
EACH_OF_JOB = 10
"""One record of so many belongs to the job."""
ENVIRONMENT = {"cpu": "AMD EPYC 9V74", "cores": 2, "threads": 2, "tvm": "0.27.0.post1", "noise_floor": 0.02}
PAGE, BEST = 200, 10


def _workload(number: int) -> str:
    """A hash as long as TVM's are."""
    return str(10**19 + number * 40_014_020_003_000_001)


def _sketch(workload: int, number: int) -> str:
    return hashlib.sha256(f"{workload} {number}".encode()).hexdigest()


QUESTIONS: dict[str, Callable[[Session], Sequence[Any]]] = {
    f"{BEST} best of a workload": lambda session: dataset.fastest(
        session, RecordFilter(workload=_workload(7), target=TARGETS[0]), after=None, limit=BEST
    ),
    f"page of a job, {PAGE} rows": lambda session: jobs.trials(session, JOB, after=0, limit=PAGE),
    f"fastest of a job, {PAGE} rows": lambda session: jobs.trials(session, JOB, after=None, limit=PAGE, sort="latency"),
    f"newest records, {PAGE} rows": lambda session: _newest(session),
    "of an operator": lambda session: _newest(session, family="family3"),
    "of a target": lambda session: _newest(session, target="llvm-bench-1"),
    "of a failure": lambda session: _newest(session, failure="timeout"),
}
"""What is asked for, by its name in the table."""


@dataclass(frozen=True)
class Timed:
    """What a database took.

    Attributes:
        rate: rows stored in a second.
        among: rows that were there when it was asked.
        looks: milliseconds of each question's looks but the first, shortest first.
    """

    rate: float
    among: int
    looks: dict[str, tuple[float, ...]]


def measure(url: str, records: int, looks: int, among: int = 0) -> Timed:
    """Fill an empty database with records, and ask; with ``among`` once there are so many, copies of those stored."""
    migrate(url)
    engine = create_engine(url)
    sessions = session_factory(engine)
    with sessions.begin() as session:
        _rest(session)
    took = 0.0
    for claims in chunks(_claims(records), CHUNK):
        began = time.perf_counter()
        with sessions.begin() as session:
            record_imports.measured_contents(session, [claim.content for claim in claims])
            record_import.add_records(session, "ri-bench", claims)
        took += time.perf_counter() - began
    rate = records / took
    with sessions.begin() as session:
        mine = sa.update(tables.Record).where(tables.Record.id % EACH_OF_JOB == 0)
        session.execute(mine.values(job_id=JOB).execution_options(synchronize_session=False))
    if among > records:
        multiply(url, records, among)
    if url.startswith("postgresql"):  # as its autovacuum does by itself
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(sa.text("VACUUM ANALYZE records"))
    timed = {name: _timed(sessions, question, looks) for name, question in QUESTIONS.items()}
    engine.dispose()
    return Timed(rate, max(records, among), timed)


def multiply(url: str, records: int, among: int) -> None:
    """Copies of the records with contents and latencies of their own, until there are ``among``.

    The indexes are made anew afterwards, and PostgreSQL's references are gone: this is only to have many rows soon.
    """
    engine = create_engine(url, foreign_keys=False)
    table = tables.Record.__table__
    assert isinstance(table, sa.Table)
    indexes = sorted(table.indexes, key=lambda index: str(index.name))
    names = [column.name for column in table.columns if column.name != "id"]
    step: sa.BindParameter[int] = sa.bindparam("turn", type_=sa.Integer)
    changed: dict[str, sa.ColumnElement[Any]] = {
        "content": sa.func.substr(table.c.content, 1, 54) + sa.cast(step + 1_000_000_000, sa.String),
        "latency": table.c.latency * (1 + step / 1000),
    }
    copies = sa.select(*(changed.get(name, table.c[name]) for name in names)).where(table.c.id <= sa.bindparam("last"))
    with engine.begin() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(sa.text("SET LOCAL maintenance_work_mem = '1GB'"))
            for key in sa.inspect(connection).get_foreign_keys("records"):
                connection.execute(sa.text(f"ALTER TABLE records DROP CONSTRAINT {key['name']}"))
        for index in indexes:
            index.drop(connection)
        for turn, there in enumerate(range(records, among, records), start=1):
            values = {"turn": turn, "last": min(records, among - there)}
            connection.execute(sa.insert(table).from_select(names, copies), values)
        for index in indexes:
            index.create(connection)
    engine.dispose()


def _timed(sessions: Sessions, question: Callable[[Session], Sequence[Any]], looks: int) -> tuple[float, ...]:
    took = []
    for _ in range(looks + 1):
        began = time.perf_counter()
        with sessions() as session:
            found = question(session)
        took.append((time.perf_counter() - began) * 1e3)
        assert found, "a question that finds nothing takes no time"
    return tuple(sorted(took[1:]))


def _newest(session: Session, **wanted: str) -> Sequence[Any]:
    return dataset.newest(session, RecordFilter(**wanted), before=None, limit=PAGE)  # type: ignore[arg-type]


def _rest(session: Session) -> None:
    """What records refer to."""
    for number, target in enumerate(TARGETS):
        session.add(tables.TargetRow(hash=target, json={"kind": "llvm"}, device_class=f"llvm-bench-{number + 1}"))
    for number in range(WORKLOADS):
        session.add(
            tables.WorkloadRow(
                hash=_workload(number),
                name=f"fused_{number}",
                family=f"family{number % FAMILIES}",
                args=[["float32", [1, 8]]],
                flops=1e6,
                module_blob=SHA,
                metaschedule_blob=SHA,
            )
        )
    session.flush()
    for number in range(WORKLOADS):
        for each in range(SKETCHES):
            session.add(
                tables.SketchRow(hash=_sketch(number, each), workload_hash=_workload(number), body={"knobs": []})
            )
    session.add(
        tables.Model(
            id="m", name="m", source="onnx", sha256=SHA, state=ModelState.READY, preparation=PLAIN.key, owner="local"
        )
    )
    session.flush()
    options = {"search": "random", "cost_model": "none", "allocator": "bandit"}
    session.add(tables.Job(id=JOB, model_id="m", target_spec="cpu", state=JobState.SUCCEEDED, **options))


def _claims(records: int) -> Iterator[Claim]:
    draw, now = random.Random(0), utcnow()
    environment = digest(ENVIRONMENT)
    for number in range(records):
        workload = draw.randrange(WORKLOADS)
        failure = "timeout" if number % 2000 == 7 else None
        latency = draw.uniform(1e-4, 1e-2)
        row = RecordRow(
            workload=_workload(workload),
            target=TARGETS[draw.randrange(2)],
            sketch=_sketch(workload, draw.randrange(SKETCHES)),
            decisions=[[draw.randrange(64) for _ in range(4)] for _ in range(5)],
            samples=[] if failure else [latency * 0.99, latency, latency * 1.01],
            latency=None if failure else latency,
            failure=failure,
            stopped=None,
            duplicate=False,
            build_seconds=0.1,
            run_seconds=0.05,
            device_seconds=0.02,
            precision=FLOAT32,
            environment=environment,
            measured_at=now - dt.timedelta(seconds=records - number),
        )
        yield Claim(row, row.content, ENVIRONMENT, About.of(f"family{workload % FAMILIES}", ENVIRONMENT))
