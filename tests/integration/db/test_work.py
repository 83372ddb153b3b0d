from __future__ import annotations

import datetime as dt

import pytest
import sqlalchemy as sa
from rows import TARGET, add_batch, add_job, add_model, add_round, add_task
from threads import at_once

from db.engine import Sessions
from db.models import Batch, CostModelRow, Evaluation, Event, Job, JobTask, Model, Record, Round
from db.models.base import utcnow
from db.queries import event_log, worker_failures
from db.transactions import events, transitions, work
from tunesmith.errors import IllegalTransition
from tunesmith.events import CostModelQueued, JobDeleted
from tunesmith.states import JobState, ModelState, RoundState, WorkState

pytestmark = pytest.mark.parallel

PROBLEM = {"code": "internal_error", "detail": "it broke"}


@pytest.fixture
def batch_id(sessions: Sessions) -> int:
    with sessions.begin() as session:
        add_job(session)
        return add_batch(session, add_task(session)).id


def test_a_transition_sets_values_and_writes_an_event(sessions: Sessions) -> None:
    with sessions.begin() as session:
        job = add_job(session)
        transitions.transition(session, job, JobState.FINISHING, stop_reason="trials", data={"best": 1.5})
        assert job.state is JobState.FINISHING
    with sessions() as session:
        assert session.get_one(Job, "j1").stop_reason == "trials"
        (event,) = event_log.page(session, job_id="j1")
    assert (event.kind, event.data) == (
        "job_finishing",
        {"id": "j1", "from": "running", "to": "finishing", "best": 1.5},
    )


def test_an_illegal_transition_changes_nothing(sessions: Sessions) -> None:
    with sessions.begin() as session:
        add_job(session, state=JobState.SUCCEEDED)
    with pytest.raises(IllegalTransition, match="succeeded and cannot become running"), sessions.begin() as session:
        transitions.transition(session, session.get_one(Job, "j1"), JobState.RUNNING)
    with sessions() as session:
        assert session.get_one(Job, "j1").state is JobState.SUCCEEDED
        assert event_log.last_id(session) == 0


def test_a_state_of_another_kind_is_illegal(sessions: Sessions) -> None:
    with sessions.begin() as session:
        with pytest.raises(IllegalTransition):
            transitions.transition(session, add_job(session), WorkState.DONE)


def test_a_transition_from_a_stale_row_is_refused(sessions: Sessions) -> None:
    with sessions.begin() as session:
        add_job(session)
    with sessions() as reader:
        stale = reader.get_one(Job, "j1")
    with sessions.begin() as session:
        transitions.transition(session, session.get_one(Job, "j1"), JobState.CANCELLING)
    with sessions.begin() as session:
        session.add(stale)
        with pytest.raises(IllegalTransition, match="became cancelling before"):
            transitions.transition(session, stale, JobState.FINISHING)


def test_of_many_transitions_at_once_one_wins(sessions: Sessions) -> None:
    with sessions.begin() as session:
        add_job(session)

    def finish(_: int) -> None:
        with sessions() as session:
            job = session.get_one(Job, "j1")
        with sessions.begin() as session:
            session.add(job)
            transitions.transition(session, job, JobState.FINISHING)

    outcomes = at_once(6, finish)
    assert sum(outcome is None for outcome in outcomes) == 1
    assert sum(isinstance(outcome, IllegalTransition) for outcome in outcomes) == 5
    with sessions() as session:
        assert len(event_log.page(session)) == 1


def test_due_dispatch_claim_and_extend(sessions: Sessions, batch_id: int) -> None:
    now = utcnow()
    with sessions.begin() as session:
        (batch,) = work.due_for_dispatch(session, Batch)
        assert work.mark_dispatched(session, batch, 10, now)
        assert not work.mark_dispatched(session, batch, 10, now)
        assert work.due_for_dispatch(session, Batch) == []
    with sessions.begin() as session:
        assert work.claim(session, Batch, batch_id, attempt=2, worker="w", timeout=10) is None
        batch = work.claim(session, Batch, batch_id, attempt=1, worker="w", timeout=10, now=now)
        assert batch is not None
        assert (batch.state, batch.worker) == (WorkState.RUNNING, "w")
        assert work.claim(session, Batch, batch_id, attempt=1, worker="v", timeout=10) is None
        assert work.overdue(session, Batch, 60, now + dt.timedelta(seconds=9)) == []
        assert work.extend(session, Batch, batch_id, 1, 30, now)
        assert work.overdue(session, Batch, 60, now + dt.timedelta(seconds=29)) == []
        assert len(work.overdue(session, Batch, 60, now + dt.timedelta(seconds=31))) == 1


def test_a_doubled_message_is_claimed_once(sessions: Sessions) -> None:
    with sessions.begin() as session:
        add_job(session)
        round_id = add_round(session, add_task(session)).id

    def take(index: int) -> bool:
        with sessions.begin() as session:
            return work.claim(session, Round, round_id, 1, f"worker-{index}", 10) is not None

    assert sorted(at_once(6, take), key=str) == [False] * 5 + [True]


def test_two_dispatchers_send_a_row_once(sessions: Sessions, batch_id: int) -> None:
    def dispatch(_: int) -> int:
        with sessions.begin() as session:
            return sum(work.mark_dispatched(session, row, 10) for row in work.due_for_dispatch(session, Batch))

    assert sorted(at_once(4, dispatch), key=str) == [0, 0, 0, 1]


def test_a_retry_is_due_again_and_the_old_attempt_is_over(sessions: Sessions, batch_id: int) -> None:
    with sessions.begin() as session:
        work.claim(session, Batch, batch_id, 1, "w", 10)
    with sessions.begin() as session:
        assert work.retry_or_fail(session, session.get_one(Batch, batch_id), 3, PROBLEM)
    with sessions.begin() as session:
        (batch,) = work.due_for_dispatch(session, Batch)
        assert (batch.attempt, batch.state, batch.worker) == (2, WorkState.QUEUED, None)
        assert not work.extend(session, Batch, batch_id, 1, 10)
        assert work.claim(session, Batch, batch_id, 1, "w", 10) is None
        assert work.claim(session, Batch, batch_id, 2, "w", 10) is not None
    with sessions() as session:
        kinds = [event.kind for event in event_log.page(session)]
    assert kinds == ["batch_running", "batch_queued", "batch_retried", "batch_running"]


def test_what_failing_for_good_means(sessions: Sessions) -> None:
    with sessions.begin() as session:
        job = add_job(session)
        model = add_model(session, id="m2", sha256="1" * 64, state=ModelState.IMPORTING)
        first, second = add_task(session, workload="w1"), add_task(session, workload="w2")
        failing, last = add_round(session, first, 1), add_round(session, second, 2)
        cost_model = CostModelRow(id="c1", kind="xgboost", job_id="j1", target_hash=TARGET, number=1, features="f")
        session.add(cost_model)
        session.flush()
        failing.worker, model.worker = "host-1-ab", "host-2-cd"
        for row in (model, failing, cost_model):
            assert not work.retry_or_fail(session, row, 1, PROBLEM)
        told = {(each.worker, each.kind): each for each in worker_failures.newest(session)}
        assert told.keys() == {("host-1-ab", "round"), ("host-2-cd", "model")}, "nobody had the cost model"
        assert (told["host-2-cd", "model"].row, told["host-2-cd", "model"].problem) == ("m2", PROBLEM)
        assert (model.state, model.error) == (ModelState.REJECTED, PROBLEM)
        assert (failing.state, first.exhausted) == (RoundState.FAILED, True)
        assert cost_model.state is WorkState.FAILED
        assert job.state is JobState.RUNNING  # the other task goes on
        work.retry_or_fail(session, last, 1, PROBLEM)
        assert (job.state, job.error) == (JobState.FAILED, PROBLEM)


def test_a_failed_evaluation_fails_its_job(sessions: Sessions) -> None:
    with sessions.begin() as session:
        job = add_job(session, state=JobState.FINISHING)
        evaluation = Evaluation(job_id="j1", device_class="llvm-x-2")
        session.add(evaluation)
        session.flush()
        work.retry_or_fail(session, evaluation, 1, PROBLEM)
        assert (evaluation.state, job.state) == (WorkState.FAILED, JobState.FAILED)


def test_an_abandoned_batch_accounts_for_every_candidate(sessions: Sessions, batch_id: int) -> None:
    with sessions.begin() as session:
        assert not work.retry_or_fail(session, session.get_one(Batch, batch_id), 1, PROBLEM)
    with sessions() as session:
        batch = session.get_one(Batch, batch_id)
        assert (batch.state, batch.error) == (WorkState.FAILED, PROBLEM)
        assert session.get_one(Round, batch.round_id).state is RoundState.DONE
        assert set(session.scalars(sa.select(Record.failure))) == {"abandoned"}
        task = session.scalars(sa.select(JobTask)).one()
        assert (task.trials, task.failures) == (3, 3)  # the default schedule is no trial


def test_events_of_a_rolled_back_transaction_are_not_written(sessions: Sessions) -> None:
    session = sessions()
    events.append(session, JobDeleted("lost"))
    session.flush()
    session.rollback()
    events.append(session, JobDeleted("kept"))
    session.commit()
    session.close()
    with sessions() as session:
        assert [event.data for event in event_log.page(session)] == [{"id": "kept"}]


def test_events_of_a_rolled_back_savepoint_are_not_written(sessions: Sessions) -> None:
    with sessions.begin() as session:
        events.append(session, JobDeleted("outer"))
        nested = session.begin_nested()
        events.append(session, JobDeleted("inner"))
        nested.rollback()
    with sessions() as session:
        assert [event.data for event in event_log.page(session)] == [{"id": "outer"}]


def test_an_event_never_appears_behind_a_reader(sessions: Sessions) -> None:
    def write(index: int) -> None:
        for number in range(25):
            with sessions.begin() as session:
                events.append(session, CostModelQueued(str(index), number))

    seen: list[tuple[int, int]] = []

    def read(_: int) -> None:
        after = 0
        for _ in range(100_000):
            with sessions() as session:
                page = event_log.page(session, after=after, limit=7)
            seen.extend((int(event.data["id"]), event.data["number"]) for event in page)
            after = page[-1].id if page else after
            if len(seen) >= 75:
                return

    assert at_once(4, lambda index: read(index) if index == 3 else write(index)) == [None] * 4
    assert sorted(seen) == [(writer, number) for writer in range(3) for number in range(25)]


def test_event_ids_are_never_given_twice(sessions: Sessions) -> None:
    with sessions.begin() as session:
        job = add_job(session)
        transitions.transition(session, job, JobState.FINISHING)
    with sessions.begin() as session:
        last = event_log.last_id(session)
        session.execute(sa.delete(Event))
        events.append(session, JobDeleted("later"))
    with sessions() as session:
        assert event_log.page(session)[0].id > last


def test_a_model_is_importing_until_it_is_done(sessions: Sessions) -> None:
    with sessions.begin() as session:
        add_model(session, state=ModelState.IMPORTING)
        model = work.claim(session, Model, "m1", 1, "w", 10)
        assert model is not None
        assert model.state is ModelState.IMPORTING
