"""The dataset over all jobs: pages, counts, and which index each question walks."""

from __future__ import annotations

import datetime as dt
import itertools
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa
from rows import TARGET, add_job, add_task
from sqlalchemy.orm import Session

from db.engine import Sessions
from db.models import Record, TargetRow, WorkloadRow
from db.models.base import utcnow
from db.queries import dataset, exchange, record_imports
from db.queries.dataset import ANY_FAILURE, VALID, RecordFilter
from db.queries.totals import total
from db.queries.trial_counts import WorkloadCounts
from db.transactions import record_import
from db.transactions.record_import import Claim
from tunesmith.dataset.rows import About, digest
from tunesmith.types import CacheState, Origin

pytestmark = pytest.mark.parallel
START = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)
ENVIRONMENTS: tuple[dict[str, Any], ...] = (
    {"cpu": "A", "tvm": "0.27.0"},
    {"cpu": "B", "tvm": "0.27.0", "cache": "streamed"},
    {"cpu": "B", "simulated": True},
)


def fill(session: Session) -> None:
    """Twelve records of two workloads on two targets, one each minute."""
    for job in ("j1", "j2"):
        add_job(session, job)
    session.add(TargetRow(hash="u" * 64, json={"kind": "llvm", "tag": "raspberry-pi/5"}, device_class="llvm-pi-4"))
    tasks = [add_task(session, job, workload) for job, workload in (("j1", "w1"), ("j2", "w2"))]
    session.get_one(WorkloadRow, "w2").family = "conv2d"
    session.flush()
    kinds = itertools.product((0, 1), (TARGET, "u" * 64), ENVIRONMENTS)
    for number, (which, target, environment) in enumerate(kinds):
        failed = number % 4 == 3
        session.add(
            Record(
                job_id=tasks[which].job_id,
                job_task_id=tasks[which].id,
                index=number,
                workload_hash=tasks[which].workload_hash,
                family=("matmul", "conv2d")[which],
                precision=("float32", "bf16")[number % 5 == 4],
                target_hash=target,
                decisions=[number],
                samples=[],
                latency=None if failed else 1e-3 * (12 - number),
                failure="timeout" if failed else None,
                environment=environment,
                created_at=START + dt.timedelta(minutes=number),
            )
        )
    session.flush()


def numbers(found: list[dataset.RecordPart]) -> list[int]:
    return [part.record.index for part in found]


QUESTIONS = (
    (RecordFilter(), "", range(12)),
    (RecordFilter(workload="w1"), "workload_hash_id", range(6)),
    (RecordFilter(family="conv2d"), "family_id", range(6, 12)),
    (RecordFilter(target="llvm-pi-4"), "target_hash_id", (3, 4, 5, 9, 10, 11)),
    (RecordFilter(target="raspberry-pi/5", family="conv2d"), "target_hash_id", (9, 10, 11)),
    (RecordFilter(processor="A"), "processor_id", (0, 3, 6, 9)),
    (RecordFilter(precision="bf16"), "precision_id", (4, 9)),
    (RecordFilter(failure="timeout"), "failure_id", (3, 7, 11)),
    (RecordFilter(failure="timeout", family="conv2d", target="llvm-pi-4"), "failure_id", (11,)),
    (RecordFilter(failure=ANY_FAILURE), "", (3, 7, 11)),
    (RecordFilter(failure=VALID, job="j2"), "job_id_id", (6, 8, 9, 10)),
    (RecordFilter(simulated=True), "simulated_id", (2, 5, 8, 11)),
    (RecordFilter(cache=CacheState.STREAMED), "", (1, 4, 7, 10)),
    (RecordFilter(since=START + dt.timedelta(minutes=2), until=START + dt.timedelta(minutes=5)), "", (2, 3, 4)),
    (RecordFilter(target="nowhere"), "", ()),
)


def test_pages_of_records_walk_one_index(sessions: Sessions) -> None:
    with sessions.begin() as session:
        fill(session)
    with sessions() as session:
        for wanted, index, expected in QUESTIONS:
            assert numbers(dataset.oldest(session, wanted, after=None, limit=20)) == list(expected), wanted
            first = dataset.newest(session, wanted, before=None, limit=2)
            after = dataset.newest(session, wanted, before=first[-1].record.id, limit=20) if first else []
            assert numbers(first + after) == list(reversed(expected)), wanted
            plan = explain(session, walked(sa.select(Record.id).where(*dataset.conditions(session, wanted))))
            if plan is not None:
                assert "TEMP B-TREE" not in plan
                assert (f"ix_records_{index}" if index else "records") in plan
        best = RecordFilter(workload="w1", target=TARGET)
        ordered = dataset.fastest(session, best, after=None, limit=20)
        assert numbers(ordered) == [2, 1, 0]
        assert numbers(dataset.fastest(session, best, after=ordered[0].record.id, limit=20)) == [1, 0]
        assert numbers(dataset.fastest(session, replace(best, job="j2"), after=None, limit=20)) == []
        with pytest.raises(LookupError):
            dataset.fastest(session, best, after=10**6, limit=20)
        chosen = dataset.conditions(session, best, by_latency=True)
        plan = explain(session, walked(sa.select(Record.id).where(*chosen), Record.latency, Record.id))
        assert plan is None or ("ix_records_best" in plan and "TEMP B-TREE" not in plan)


def walked(query: sa.Select[Any], *order: Any) -> sa.Select[Any]:
    """A page of them, newest first or in another order."""
    return query.order_by(*(order or (Record.id.desc(),))).limit(50)


def explain(session: Session, query: sa.Select[Any]) -> str | None:
    """SQLite's plan; None on PostgreSQL, which reads small tables without any index."""
    if session.get_bind().dialect.name != "sqlite":
        return None
    compiled = query.compile(session.get_bind(), compile_kwargs={"literal_binds": True})
    return " ".join(row[-1] for row in session.connection().exec_driver_sql(f"EXPLAIN QUERY PLAN {compiled}"))


def test_imported_records_are_stored_once(sessions: Sessions) -> None:
    environment = {"cpu": "A", "tvm": "0.27.0", "cache": "streamed"}
    with sessions.begin() as session:
        fill(session)
        first = session.scalars(sa.select(Record).order_by(Record.id)).all()[1]
        row = exchange.row_of(first, digest(environment))
        ran = replace(row, sketch=None, stopped="hopeless", decisions=[[1, 2], 3], samples=[1e-5, 0.25], latency=0.125)
        failed = replace(row, samples=[], latency=None, failure="timeout")
        about = About.of("conv2d", environment)
        claims = [Claim(each, each.content, environment, about) for each in (ran, failed)]
        for some in (claims[:1], claims, claims):
            record_import.add_records(session, "ri-1", some)
        assert record_imports.added(session, "ri-1", utcnow()) == (2, 1)
        assert record_imports.added(session, "ri-1", utcnow() + dt.timedelta(days=1)) == (0, 0)
        assert record_import.fill_contents(session, 20) == 12
        assert record_import.fill_contents(session, 20) == 0
        own = exchange.exported(first).row.content
        imported = [claim.content for claim in claims]
        assert record_imports.measured_contents(session, [own, "x", *imported]) == {own}
    with sessions() as session:
        found = session.scalars(sa.select(Record).where(Record.import_id == "ri-1").order_by(Record.id)).all()
        assert [exchange.exported(each).row.content for each in found] == [claim.content for claim in claims]
        assert [(each.origin, each.cache, each.message) for each in found] == [("imported", "streamed", "")] * 2


def test_imports_look_for_records_by_index(sessions: Sessions) -> None:
    many = Record.content.in_([f"{number:064d}" for number in range(5000)])
    missing = sa.select(Record.content).where(record_imports.MEASURED, Record.content.is_(None))
    questions = (
        (sa.select(Record.content).where(record_imports.MEASURED, many), "ix_records_content_id"),
        (missing.order_by(Record.id).limit(50), "ix_records_content_id"),
    )
    with sessions() as session:
        newest = walked(sa.select(Record.id).where(*dataset.conditions(session, RecordFilter(origin=Origin.IMPORTED))))
        for query, index in (*questions, (newest, "ix_records_imported_id")):
            plan = explain(session, query)
            assert plan is None or (index in plan and "TEMP B-TREE" not in plan)


def test_postgresql_looks_for_measured_records_by_index(sessions: Sessions) -> None:
    with sessions.begin() as session:
        fill(session)
        record_imports.measured_contents(session, ["x"])
        if session.get_bind().dialect.name == "postgresql":
            query = record_imports.looked_up([f"{number:064d}" for number in range(5000)])
            compiled = query.compile(session.get_bind(), compile_kwargs={"literal_binds": True})
            plan = " ".join(session.scalars(sa.text(f"EXPLAIN {compiled}")))
            assert "ix_records_content_id" in plan
            assert "Seq Scan" not in plan


def test_workloads_are_those_with_records(sessions: Sessions) -> None:
    with sessions.begin() as session:
        fill(session)
        add_task(session, "j1", "w3")  # never measured
        every: dict[str, Any] = {"family": None, "target": None, "text": None}

        def listed(before: Any = None, **changed: str) -> list[WorkloadRow]:
            wanted = dataset.measured_workloads(session, **{**every, **changed})
            rows = list(dataset.workloads(session, wanted, before=before, limit=9))
            assert before or len(rows) == total(session, wanted)
            return rows

        found = listed()
        assert {row.hash for row in found} == {"w1", "w2"}
        rest = listed(before=(found[0].created_at, found[0].hash))
        assert [row.hash for row in rest] == [found[1].hash]
        for changed, hashes in (({"family": "conv2d"}, ["w2"]), ({"text": "W1"}, ["w1"]), ({"target": "nowhere"}, [])):
            assert [row.hash for row in listed(**changed)] == hashes
        groups = WorkloadCounts(unsettled=2).of(session, ["w1"])
        assert [(group.device_class, group.precision, group.records, group.failures) for group in groups] == [
            ("llvm-x-2", "float32", 2, 0),
            ("llvm-pi-4", "bf16", 1, 0),
            ("llvm-pi-4", "float32", 1, 1),
        ]
        counted = dataset.summary(session, RecordFilter(family="conv2d", revoked=False))
        assert (counted.records, counted.failed, counted.simulated) == (6, 2, 2)
        assert counted.targets == {"llvm-x-2": 3, "llvm-pi-4": 3}
        assert (counted.processors, counted.builds) == ({"A": 2, "B": 4}, {"0.27.0": 4})
        assert (counted.failures, counted.first) == ({"timeout": 2}, START + dt.timedelta(minutes=6))
        assert (dataset.has_records(session, "w2"), dataset.has_records(session, "w3")) == (True, False)
