"""Who imports next: users take turns, and one who uploads a lot holds nobody up."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path

import pytest
from coordinator_stack import Stack
from fake_fleet import Folder
from rows import add_job, add_model

from db.engine import Sessions
from db.models import Job, Model
from db.models.base import utcnow
from db.queries import import_queue
from db.transactions import transitions, work
from tunesmith.messages import IngestModel
from tunesmith.states import JobState, ModelState

pytestmark = pytest.mark.parallel


def add(session, key: str, owner: str, age: float) -> None:
    at = utcnow() - dt.timedelta(seconds=age)
    add_model(session, id=key, sha256=key, owner=owner, state=ModelState.IMPORTING, created_at=at)


def keys(rows) -> list[str]:
    return [row.id for row in rows]


def send(session, rows) -> None:
    for row in rows:
        assert work.mark_dispatched(session, row, 60)


def test_users_take_turns_and_each_has_a_limit(sessions: Sessions) -> None:
    with sessions.begin() as session:
        for number in range(6):
            add(session, f"a{number}", "alice", 100 - number)
        add(session, "b0", "bob", 10)
        add(session, "b1", "bob", 9)
        add(session, "c0", "carol", 5)
        assert keys(work.due_imports(session, 1)) == ["a0", "b0", "c0"]
        assert keys(work.due_imports(session, 2)) == ["a0", "b0", "c0", "a1", "b1"]
        send(session, work.due_imports(session, 1))
        assert work.due_imports(session, 1) == []
        assert not import_queue.any_due(session, 1)
        assert keys(work.due_imports(session, 2)) == ["a1", "b1"]
        transitions.transition(session, session.get_one(Model, "a0"), ModelState.READY)
        assert keys(work.due_imports(session, 1)) == ["a1"]
        assert import_queue.any_due(session, 1)


def test_a_preparation_takes_its_users_turn(sessions: Sessions) -> None:
    with sessions.begin() as session:
        add(session, "a0", "alice", 100)
        for name, owner in (("ja", "alice"), ("jb", "bob")):
            add_job(session, name, owner=owner, state=JobState.PREPARING)
        first = work.due_imports(session, 1)
        assert keys(first) == ["a0", "jb"]
        send(session, first)
        assert work.due_imports(session, 1) == []
        transitions.transition(session, session.get_one(Job, "jb"), JobState.RUNNING)
        assert work.due_imports(session, 1) == []
        transitions.transition(session, session.get_one(Model, "a0"), ModelState.READY)
        assert keys(work.due_imports(session, 1)) == ["ja"]


@pytest.fixture
def stack(tmp_path: Path, database_url: str) -> Iterator[Stack]:
    stack = Stack(Folder(tmp_path, database_url))
    yield stack
    stack.close()


def test_the_dispatcher_keeps_the_rest_back(stack: Stack) -> None:
    with stack.context.sessions.begin() as session:
        for number in range(4):
            add(session, f"a{number}", "alice", 100 - number)
        add(session, "b0", "bob", 1)
    stack.loop.step()
    sent = stack.broker.take()
    assert [item.message.model_id for item in sent if isinstance(item.message, IngestModel)] == ["a0", "b0"]
    stack.loop.step()
    assert stack.broker.take() == []
    stack.fleet.do(sent[0].message)
    stack.loop.step()
    assert [item.message.model_id for item in stack.broker.take()] == ["a1"]
