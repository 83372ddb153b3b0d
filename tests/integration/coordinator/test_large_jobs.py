"""Pages of a job with many tasks: sums that the database forms, and work that grows no faster than the tasks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple
from pathlib import Path
from random import Random
from typing import Any

import pytest
import sqlalchemy as sa
from api_driver import Api
from databases import PostgresServer
from fake_fleet import Folder
from rows import add_job, add_round, add_task

from benchmarks.pages.rows import LargeJob
from db.engine import Sessions
from db.models import Base, JobTask, Record, Round
from db.models.base import utcnow
from db.queries import jobs, task_columns
from db.queries import sums as sum_rows
from db.queries.trial_counts import TrialCounts
from services.coordinator.scheduling.history import Histories
from services.coordinator.scheduling.load import load
from tunesmith.alternatives import TaskLatency, in_use, places
from tunesmith.states import JobState, RoundState

pytestmark = pytest.mark.parallel
ROUTES = ("", "/tasks", "/families", "/curve", "/forecast", "/rounds", "/trials", "/decisions", "/failures", "/events")


def some_tasks(sessions: Sessions, seed: int) -> list[JobTask]:
    """Tasks with and without latencies, alternatives and places in search."""
    draw = Random(seed)
    maybe = lambda: draw.choice([None, draw.randint(1, 9) / 8])  # noqa: E731
    with sessions.begin() as session:
        add_job(session)
        for i in range(24):
            alternative = i % 3 == 2
            task = add_task(
                session,
                workload=f"w{i}",
                position=i,
                weight=1 + i // 3 % 4,
                tunable=draw.random() < 0.8,
                untuned_seconds=maybe(),
                best_seconds=maybe(),
                trials=draw.randint(0, 9),
                failures=draw.randint(0, 3),
                alternative_of=f"w{i - draw.choice([1, 2])}" if alternative else None,
            )
            if not task.tunable:
                task.untuned_seconds = task.best_seconds = None
            if draw.random() < 0.4:
                add_round(session, task, i + 1, state=draw.choice(list(RoundState)))
        return list(session.scalars(sa.select(JobTask).order_by(JobTask.position)))


def latencies_of(tasks: list[JobTask]) -> dict[int, TaskLatency[int]]:
    """What the tasks of one job contribute to the latency of its model, by id."""
    ids: dict[str | None, int] = {task.workload_hash: task.id for task in tasks}
    return {
        task.id: TaskLatency(task.weight, task.untuned_seconds, task.best_seconds, ids.get(task.alternative_of))
        for task in tasks
    }


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.both_databases
def test_the_database_sums_up_as_the_definition_does(sessions: Sessions, seed: int) -> None:
    tasks = some_tasks(sessions, seed)
    tunable = [task for task in tasks if task.tunable]
    latencies = latencies_of(tasks)
    found = [place for place in places({task.id: latencies[task.id] for task in tunable}).values() if place.known]
    used = in_use(latencies)
    with sessions() as session:
        ended = {
            row.job_task_id
            for row in session.scalars(sa.select(Round))
            if row.state in (RoundState.DONE, RoundState.FAILED)
        }
        sums, families = sum_rows.sums(session, ["j1"])["j1"], sum_rows.families(session, "j1")
        ((_, columns),) = task_columns.columns(session, ["j1"])
    assert (sums.tasks, sums.tunable) == (24, len(tunable))
    assert (sums.trials, sums.failures) == (sum(t.trials for t in tasks), sum(t.failures for t in tasks))
    assert sums.untuned == pytest.approx(sum(p.weight * p.start for p in found))
    assert sums.best == pytest.approx(sum(p.weight * (p.current or 0.0) for p in found))
    best = {task.workload_hash: task.best_seconds for task in tasks}
    helped = {t.alternative_of for t in tasks if t.best_seconds} | {
        t.workload_hash for t in tasks if best.get(t.alternative_of or "")
    }
    assert sums.measured == sum(latencies[t.id].known or t.id in ended or t.workload_hash in helped for t in tunable)
    assert [family.name for family in families] == [f"family of w{i}" for i in range(24)]
    for task, family in zip(tasks, families, strict=True):
        mine = latencies[task.id].current if task.id in used else None
        assert family.best == (None if mine is None else pytest.approx(task.weight * mine))

    assert set(columns.ids[columns.in_use].tolist()) == used


def test_a_list_of_jobs_holds_few_of_their_tasks_at_once(both: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {"job-0": 40, "job-1": 70, "job-2": 30}
    for key, tasks in sizes.items():
        LargeJob(key, tasks, tasks, JobState.SUCCEEDED).write(both.context.engine)
    held: list[int] = []
    real = task_columns.TaskColumns

    def spy(*columns: Any) -> task_columns.TaskColumns:
        held.append(len(columns[0]))
        return real(*columns)

    with both.context.reading() as session:
        alone = {key: pytest.approx(astuple(sum_rows.sums(session, [key])[key])) for key in sizes}
        for most, statements in ((1000, 2), (110, 3), (1, 4)):
            monkeypatch.setattr(task_columns, "ROWS", most)
            monkeypatch.setattr(task_columns, "TaskColumns", spy)
            with counted(both.context.reader_engine) as work:
                found = sum_rows.sums(session, list(sizes))
            assert {key: astuple(found[key]) for key in sizes} == alone
            assert (work.statements, sorted(held)) == (statements, sorted(sizes.values()))
            held.clear()
            monkeypatch.undo()


def test_statistics_from_before_a_job_make_no_page_go_through_its_tasks_for_each_of_them(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    """PostgreSQL believes them: that a job which came since has no rows, so that any way through them is as good."""
    url = postgres.create()
    api = Api(Folder(tmp_path, url))
    tasks = 800
    LargeJob("job-0", 50, 50, JobState.SUCCEEDED).write(api.context.engine)
    with api.context.engine.begin() as connection:
        for table in Base.metadata.sorted_tables:
            connection.exec_driver_sql(f'ALTER TABLE "{table.name}" SET (autovacuum_enabled = off)')
    LargeJob("job-1", tasks, tasks, JobState.RUNNING, known=0.5).write(api.context.engine, analyze=False)

    def rows() -> int:
        with api.context.reading() as session:
            session.execute(sa.text("SELECT pg_stat_force_next_flush()"))
        with api.context.reading() as session:
            read = sa.text("SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) FROM pg_stat_user_tables")
            return int(session.scalar(read) or 0)

    for route in (*ROUTES, "?limit=9"):
        before = rows()
        path = "/v1/jobs" if route == "?limit=9" else f"/v1/jobs/job-1{route}"
        assert api.client.get(path).status_code == 200
        assert 0 < rows() - before < 20 * tasks, route
    before = rows()
    with api.context.reading() as session:
        load(session, Histories(), 15.0)
    assert 0 < rows() - before < 20 * tasks, "plan"
    api.close()
    postgres.drop(url)


class Work:
    """Statements, and steps of SQLite's machine."""

    def __init__(self) -> None:
        self.statements, self.steps = 0, 0


@contextmanager
def counted(engine: sa.Engine) -> Iterator[Work]:
    work = Work()

    def step() -> int:
        work.steps += 100
        return 0

    def statement(*_: Any) -> None:
        work.statements += 1

    def checkout(connection: Any, *_: Any) -> None:
        if engine.dialect.name != "sqlite":
            return
        connection.set_progress_handler(step, 100)

    sa.event.listen(engine, "before_cursor_execute", statement)
    sa.event.listen(engine, "checkout", checkout)
    try:
        yield work
    finally:
        sa.event.remove(engine, "before_cursor_execute", statement)
        sa.event.remove(engine, "checkout", checkout)


def test_no_page_takes_more_statements_or_more_than_linear_work_for_more_tasks(tmp_path: Path, sqlite_url: str) -> None:
    api = Api(Folder(tmp_path, sqlite_url))
    small, large = 60, 600
    for number, tasks in enumerate((small, large)):
        LargeJob(f"job-{number}", tasks, tasks, JobState.RUNNING, known=0.5).write(api.context.engine)
    found: dict[str, list[Work]] = {}
    for route in ROUTES:
        for number in (0, 1):
            with counted(api.context.reader_engine) as work:
                assert api.client.get(f"/v1/jobs/job-{number}{route}").status_code == 200
            found.setdefault(route, []).append(work)
    api.close()
    for route, (few, many) in found.items():
        assert few.statements == many.statements, route
        assert many.steps < 2 * (large / small) * few.steps + 2000, f"{route}: {few.steps} and {many.steps} steps"


def pages(api: Api, path: str, sizes: tuple[int, ...], **wanted: str) -> list[dict[str, Any]]:
    """The items of a list that has pages of these sizes."""
    seen: list[dict[str, Any]] = []
    cursor: str | None = None
    for size in sizes:
        page = api.client.get(path, params={**wanted, **({"cursor": cursor} if cursor else {})}).json()
        assert len(page["items"]) == size
        seen, cursor = [*seen, *page["items"]], page["next_cursor"]
    assert cursor is None
    return seen


def test_every_task_is_on_one_page(both: Api) -> None:
    LargeJob("job-0", 250, 250, JobState.SUCCEEDED).write(both.context.engine)
    path = "/v1/jobs/job-0/tasks"
    seen = pages(both, path, (200, 50))
    assert [task["name"] for task in seen] == [f"fused_conv2d_add_relu_{i}" for i in range(250)]
    assert sum(task["share"] or 0.0 for task in seen) == pytest.approx(1.0)
    families = both.client.get("/v1/jobs/job-0/families").json()["items"]
    assert sum(family["best_latency"] for family in families) == pytest.approx(
        both.client.get("/v1/jobs/job-0").json()["latency"]["current"]
    )
    shares = sorted(((task["share"] or 0.0, -task["id"]) for task in seen), reverse=True)
    largest = pages(both, path, (200, 50), sort="-share")
    assert [(task["share"] or 0.0, -task["id"]) for task in largest] == shares
    wanted = {task["id"] for task in seen if "relu_24" in task["name"]}
    for sort in ("position", "-share"):
        assert {task["id"] for task in pages(both, path, (6, 5), sort=sort, q="RELU_24", limit="6")} == wanted


def test_the_newest_events_and_the_tasks_of_trials_are_told(both: Api) -> None:
    LargeJob("job-0", 20, 60, JobState.SUCCEEDED).write(both.context.engine)
    path = "/v1/jobs/job-0/events"
    forward = [event["id"] for event in pages(both, path, (50, 10))]
    assert [event["id"] for event in pages(both, path, (50, 10), sort="-id")] == forward[::-1]
    newer = pages(both, path, (9,), sort="-id", after=str(forward[50]))
    assert [event["id"] for event in newer] == forward[:50:-1]
    assert [both.client.get(path, params={"sort": sort}).json()["total"] for sort in ("id", "-id")] == [None, 60]
    names = {task["id"]: task["name"] for task in both.client.get("/v1/jobs/job-0/tasks").json()["items"]}
    trials = both.client.get("/v1/jobs/job-0/trials").json()["items"]
    assert [trial["task_name"] for trial in trials] == [names[trial["task"]] for trial in trials]


def test_a_belief_says_how_unsure_it_is(both: Api) -> None:
    LargeJob("job-0", 3, 6, JobState.RUNNING).write(both.context.engine)
    ids = [task["id"] for task in both.client.get("/v1/jobs/job-0/tasks").json()["items"]]
    with both.context.sessions.begin() as session:
        latest = session.scalars(sa.select(Round).order_by(Round.number.desc())).first()
        assert latest is not None
        latest.reason = {
            "reason": "",
            "scores": {str(ids[0]): 0.5, str(ids[1]): 0.25},
            "deviations": {str(ids[0]): 0.1},
        }
    tasks = both.client.get("/v1/jobs/job-0/tasks").json()["items"]
    assert [task["belief"] for task in tasks] == [
        {"expected_gain": 0.5, "uncertainty": 0.1},
        {"expected_gain": 0.25, "uncertainty": None},
        None,
    ]


def test_only_rounds_that_have_finished_since_are_read(sessions: Sessions, monkeypatch: pytest.MonkeyPatch) -> None:
    with sessions.begin() as session:
        add_job(session)
        task = add_task(session)
        keys = [add_round(session, task, i + 1).id for i in range(6)]
    read: list[list[int]] = []
    real = jobs.finished_rounds

    def spy(*args: Any) -> list[jobs.RoundStep]:
        found = real(*args)
        read.append([step.id for step in found])
        return found

    monkeypatch.setattr(jobs, "finished_rounds", spy)
    histories = Histories()

    def finish(*numbers: int) -> list[int]:
        with sessions.begin() as session:
            for i in numbers:
                row = session.get_one(Round, keys[i])
                row.state, row.finished_at, row.best_after = RoundState.DONE, utcnow(), 1.0 / (1 + i)
        with sessions() as session:
            found = histories.of(session, "j1")
        assert found.by_task[task.id] == tuple(step.best for step in found.rounds)
        return [keys.index(step.id) for step in found.rounds]

    assert finish(0, 2) == [0, 2]
    assert finish() == [0, 2]
    assert finish(1) == [0, 2, 1], "in the order in which they finish"
    assert finish(3, 4) == [0, 2, 1, 3, 4]
    assert read == [[keys[0], keys[2]], [keys[2], keys[1]], [keys[3], keys[4]]]
    histories.keep(set())
    assert finish(5) == [0, 2, 1, 3, 4, 5]


def test_a_look_at_the_metrics_counts_new_records_alone(both: Api) -> None:
    LargeJob("job-0", 50, 400, JobState.RUNNING).write(both.context.engine)
    counts = TrialCounts(unsettled=20)
    queries: list[tuple[int, int]] = []

    def statement(_c: Any, _k: Any, text: str, parameters: Any, *_: Any) -> None:
        if "GROUP BY" in text:
            given = parameters.values() if isinstance(parameters, dict) else parameters
            first, last = sorted(each for each in given if isinstance(each, int))
            queries.append((first, last))

    sa.event.listen(both.context.reader_engine, "before_cursor_execute", statement)
    with both.context.reading() as session:
        assert counts.of(session) == {"ok": 800}
        assert counts.of(session) == {"ok": 800}
    sa.event.remove(both.context.reader_engine, "before_cursor_execute", statement)
    with both.context.sessions.begin() as session:
        session.execute(sa.update(Record).where(Record.id == 800).values(failure="run_error"))
    with both.context.reading() as session:
        assert counts.of(session) == {"ok": 799, "run_error": 1}
    assert queries == [(0, 780), (780, 800), (780, 800)]
