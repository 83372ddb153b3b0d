"""What is kept of jobs that have ended: it is read once, and again when something happened to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa
from api_driver import Api
from sqlalchemy.orm import Session

from benchmarks.pages.rows import LargeJob
from db.models import JobTask, Record
from db.queries.trial_counts import WorkloadCounts
from db.transactions import revocations
from db.transactions.pruning import delete_jobs
from tunesmith.states import JobState

pytestmark = pytest.mark.parallel


def measure(session: Session) -> None:
    """One more record of the first task, as the first one is."""
    task = session.scalars(sa.select(JobTask).order_by(JobTask.id)).first()
    assert task is not None
    first = session.scalars(sa.select(Record).where(Record.job_task_id == task.id).order_by(Record.id)).first()
    assert first is not None
    names = {column.key for column in sa.inspect(Record).column_attrs} - {"id", "batch_id"}
    session.add(Record(**{name: getattr(first, name) for name in names}))
    task.trials += 1


def reads_of_tasks(api: Api, look: Callable[[], Any]) -> int:
    """Statements of a look that read tasks."""
    seen: list[str] = []

    def statement(_c: Any, _k: Any, text: str, *_: Any) -> None:
        seen.append(text)

    sa.event.listen(api.context.reader_engine, "before_cursor_execute", statement)
    look()
    sa.event.remove(api.context.reader_engine, "before_cursor_execute", statement)
    return sum("FROM job_tasks" in text for text in seen)


@pytest.mark.parametrize("route", ["", "/curve", "/forecast"])
def test_tasks_of_an_ended_job_are_read_once(both: Api, route: str) -> None:
    LargeJob("job-0", 20, 40, JobState.SUCCEEDED).write(both.context.engine)
    LargeJob("job-1", 20, 40, JobState.RUNNING).write(both.context.engine)
    look = lambda job: lambda: both.client.get(f"/v1/jobs/{job}{route}").json()  # noqa: E731
    ended, running = look("job-0"), look("job-1")
    first = ended()
    assert reads_of_tasks(both, ended) == 0
    assert ended() == first
    assert reads_of_tasks(both, running) == reads_of_tasks(both, running) > 0


def test_what_happens_to_an_ended_job_is_told(both: Api) -> None:
    LargeJob("job-0", 20, 40, JobState.SUCCEEDED).write(both.context.engine)

    def shown() -> dict[str, Any]:
        (listed,) = both.client.get("/v1/jobs").json()["items"]
        assert both.client.get("/v1/jobs/job-0").json() == listed
        found: dict[str, Any] = listed
        return found

    before = shown()
    both.client.patch("/v1/jobs/job-0", json={"name": "kept", "tags": ["a"], "comment": "c"})
    assert (shown()["name"], shown()["tags"], shown()["comment"]) == ("kept", ["a"], "c")
    both.client.patch("/v1/jobs/job-0", json={"tags": ["b"]})
    assert shown()["tags"] == ["b"]
    with both.context.sessions.begin() as session:  # a result that was late
        measure(session)
    assert shown()["progress"]["trials"] == before["progress"]["trials"] + 1
    with both.context.sessions.begin() as session:
        best = session.scalar(sa.select(JobTask.best_record_id).where(JobTask.best_record_id.is_not(None)))
        revocations.revoke_records(session, [best or 0], "broken clock")
    assert shown()["latency"] != before["latency"]


def test_records_of_workloads_are_counted_once_and_with_those_that_came_or_went(both: Api) -> None:
    LargeJob("job-0", 2, 40, JobState.SUCCEEDED).write(both.context.engine)
    counts = WorkloadCounts(unsettled=6)

    def counted() -> list[tuple[int, int]]:
        with both.context.reading() as session:
            hashes = session.scalars(sa.select(JobTask.workload_hash).order_by(JobTask.id)).all()
            found = {group.workload: (group.records, group.failures) for group in counts.of(session, hashes)}
            query = sa.select(Record.workload_hash, sa.func.count(), sa.func.count(Record.failure))
            rows = session.execute(query.group_by(Record.workload_hash)).all()
            assert found == {key: (records, failures) for key, records, failures in rows if key in hashes}
            return [found.get(key, (0, 0)) for key in hashes]

    first = counted()
    assert counted() == first
    for _ in range(15):  # beyond what is counted anew each time
        with both.context.sessions.begin() as session:
            measure(session)
        counted()
    assert counted()[0][0] == first[0][0] + 15
    LargeJob("job-1", 2, 4, JobState.SUCCEEDED).write(both.context.engine)
    counted()
    with both.context.sessions.begin() as session:
        session.execute(sa.delete(Record).where(Record.job_id == "job-0", Record.latency.is_not(None)))
        delete_jobs(session, ["job-1"], records=True)
    assert sum(records for records, _ in counted()) == 0
