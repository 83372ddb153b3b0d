"""A database that goes away and comes back: what was taken is kept, and nothing waits for a deadline."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import core_flow
import pytest
import sqlalchemy as sa
from databases import PostgresServer
from redis_process import redis_server
from rows import add_batch, add_job, add_model, add_task
from sealed import Sealed
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError

from db.engine import Sessions, create_engine, session_factory, transact
from db.models import Batch, Job, Model
from db.outages import is_away
from db.transactions import enrolment, ownership
from services.coordinator.broker import CeleryPublisher
from tunesmith.messages import RECORD, BatchReport, WireResult
from tunesmith.signing import Signer
from tunesmith.states import WorkState
from workers.core.database_retry import DatabaseRetry
from workers.core.ending import Ending

pytestmark = pytest.mark.servers
WITHIN = 60.0
KILL_ME = "SELECT pg_terminate_backend(pg_backend_pid())"


@pytest.fixture
def url(postgres: PostgresServer) -> Iterator[str]:
    url = postgres.create()
    yield url
    postgres.drop(url)


@pytest.fixture
def sessions(url: str) -> Iterator[Sessions]:
    engine = create_engine(url)
    yield session_factory(engine)
    engine.dispose()


class Door:
    """Shuts a database and opens it again."""

    def __init__(self, server: PostgresServer, url: str) -> None:
        self._server, self._name = server, sa.make_url(url).database

    def shut(self) -> None:
        self._server.execute(f"ALTER DATABASE {self._name} ALLOW_CONNECTIONS false")
        self._server.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{self._name}'")

    def open(self) -> None:
        self._server.execute(f"ALTER DATABASE {self._name} ALLOW_CONNECTIONS true")


def test_a_connection_that_breaks_in_a_transaction_is_replaced(sessions: Sessions) -> None:
    tries = []

    def work(session) -> None:
        tries.append(1)
        add_model(session)
        if len(tries) == 1:
            session.execute(sa.text(KILL_ME))

    transact(sessions, work)
    with sessions() as session:
        assert session.scalars(sa.select(Model.id)).all() == ["m1"]
    assert len(tries) == 2


@pytest.mark.parametrize("repeatable", [False, True])
def test_a_commit_of_unknown_outcome_is_repeated_only_where_that_is_harmless(sessions, repeatable) -> None:
    kills = [1]

    @sa.event.listens_for(sessions.kw["bind"], "commit")
    def commit(connection: sa.Connection) -> None:
        if kills:
            kills.pop()
            connection.exec_driver_sql(KILL_ME)

    def work(session) -> None:
        add_model(session)

    if repeatable:
        transact(sessions, work, repeatable=True)
    else:
        with pytest.raises(DBAPIError) as caught:
            transact(sessions, work)
        assert is_away(caught.value)
    with sessions() as session:
        assert len(session.scalars(sa.select(Model)).all()) == int(repeatable)


def test_what_counts_as_away(sessions: Sessions) -> None:
    nobody = create_engine("postgresql://nobody@127.0.0.1:1/nothing")
    with pytest.raises(OperationalError) as refused, nobody.connect():
        pass
    assert is_away(refused.value)
    assert is_away(sa.exc.TimeoutError())
    with pytest.raises(IntegrityError) as wrong, sessions.begin() as session:
        session.add(Job(id="j", model_id="none", target_spec="cpu", search="r", cost_model="none", allocator="r"))
    assert not is_away(wrong.value)
    assert not is_away(ValueError())


def test_a_worker_that_is_to_end_waits_no_longer() -> None:
    ending, tries = Ending(), []

    def work() -> None:
        tries.append(1)
        if len(tries) == 2:
            ending.set()
        raise OperationalError("select 1", None, Exception(), connection_invalidated=True)

    with pytest.raises(OperationalError):
        DatabaseRetry(ending).wait(work)
    with pytest.raises(OperationalError):
        DatabaseRetry().wait(work, limit=0.0)
    assert len(tries) in (3, 4)


def test_a_last_report_that_overtakes_another_costs_no_attempt(tmp_path: Path, url: str, sessions: Sessions) -> None:
    """As two recorders have it, one of which waits for the database."""
    context = core_flow.core_context(tmp_path, url)
    with sessions.begin() as session:
        add_job(session)
        batch = add_batch(session, add_task(session))

    def state() -> tuple[WorkState, int]:
        with sessions() as session:
            found = session.get_one(Batch, batch.id)
            return found.state, found.attempt

    def results(*indices: int) -> list[WireResult]:
        return [WireResult(index=index, samples=[0.1]) for index in indices]

    core_flow.report(context, batch, results(2, 3), final=True)
    assert state() == (WorkState.RUNNING, 1)
    core_flow.report(context, batch, results(0, 1), final=False)
    assert state() == (WorkState.DONE, 1)
    context.sessions.kw["bind"].dispose()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with redis_server(tmp_path_factory.mktemp("redis")) as url:
        yield url


@pytest.fixture
def recorder(tmp_path: Path, url: str, broker: str) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    log = tmp_path / "record.log"
    env = {
        **os.environ,
        "TUNESMITH_DATA_DIR": str(tmp_path),
        "TUNESMITH_DATABASE_URL": url,
        "TUNESMITH_BROKER_URL": broker,
        "TUNESMITH_LEASE_FILE": str(tmp_path / "host.lease"),
    }
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "tunesmith.cli", "worker", "--queues", RECORD], env=env, stdout=out, stderr=out
        )
    try:
        yield process, log
    finally:
        process.kill()
        process.wait(timeout=20)
        sys.stdout.write(log.read_text())


def until(reached: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WITHIN
    while not reached():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def test_a_report_waits_for_its_database_and_goes_back_when_the_worker_ends(
    postgres: PostgresServer, url: str, sessions: Sessions, recorder: tuple[subprocess.Popen[bytes], Path], broker: str
) -> None:
    process, log = recorder
    door, publisher = Door(postgres, url), CeleryPublisher(broker)
    with sessions.begin() as session:
        add_job(session)
        task = add_task(session)
        rows = [add_batch(session, task, number) for number in (1, 2)]
        batches = [(row.id, ownership.ticket(row, 1)) for row in rows]
        signer = Signer.fresh()
        enrolment.enrol(session, signer.worker, signer.public_key, "w", (), "test")
    reports = [
        BatchReport(
            batch_id=batch,
            attempt=1,
            ticket=ticket,
            worker="w",
            environment={},
            final=True,
            results=[WireResult(index=index, samples=[0.1]) for index in range(4)],
        )
        for batch, ticket in batches
    ]

    def state(batch: int) -> WorkState:
        with sessions() as session:
            return session.get_one(Batch, batch).state

    door.shut()
    assert publisher.send(Sealed(signer, reports[0]), queue=RECORD, task_id="first")
    until(lambda: "the database is away, waiting" in log.read_text(), "the worker to notice")
    assert publisher.depths([RECORD]) == {RECORD: 0}
    door.open()
    until(lambda: state(batches[0][0]) is WorkState.DONE, "the report to be written")
    door.shut()
    assert publisher.send(Sealed(signer, reports[1]), queue=RECORD, task_id="second")
    until(lambda: log.read_text().count("the database is away, waiting") == 2, "the worker to notice again")
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=30) == 0
    assert publisher.depths([RECORD]) == {RECORD: 1}
    door.open()
    publisher.close()
