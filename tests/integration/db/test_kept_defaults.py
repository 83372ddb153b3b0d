"""One task never ends its job: it keeps its default schedule, and says why."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from rows import TARGET, add_batch, add_job, add_task

from db.engine import Sessions
from db.models import Batch, Event, Job, JobTask, Round
from db.transactions import job_plan, outcomes, results
from db.transactions.default_schedules import MAX_FAILED_TRIALS
from tunesmith.errors import MeasurementFailed, NothingToTune
from tunesmith.messages import Confirmation, WireResult
from tunesmith.states import JobState
from tunesmith.types import FailureKind

pytestmark = pytest.mark.parallel


def failed(index: int, kind: FailureKind = FailureKind.BUILD_ERROR, message: str = "") -> WireResult:
    return WireResult(index=index, failure=kind, message=message)


def measured(sessions: Sessions, *found: WireResult) -> JobTask:
    """The task of the only batch after its results."""
    with sessions.begin() as session:
        results.apply(session, session.scalars(sa.select(Batch)).one(), found, {})
    with sessions() as session:
        return session.scalars(sa.select(JobTask)).one()


def problems(sessions: Sessions) -> list[str]:
    with sessions() as session:
        query = sa.select(Event.data).where(Event.kind == "task_exhausted")
        return [data["problem"]["detail"] for data in session.scalars(query)]


@pytest.fixture
def task_id(sessions: Sessions) -> int:
    with sessions.begin() as session:
        add_job(session)
        task = add_task(session)
        add_batch(session, task)
        return task.id


def test_a_task_whose_candidates_all_fail_says_why(sessions: Sessions, task_id: int) -> None:
    message = "a long story\nno such instruction\0"
    default = WireResult(index=0, samples=[1.0])
    task = measured(sessions, default, failed(1, FailureKind.CRASH), failed(2, message=message), failed(3))
    assert task.reason == "none of its 3 candidates ran; 2 of them: build_error"
    assert not task.exhausted  # so few say little
    assert (task.untuned_seconds, problems(sessions)) == (1.0, [])


def test_nothing_more_is_proposed_once_many_have_failed(sessions: Sessions, task_id: int) -> None:
    candidates = [["s-w1", [index]] for index in range(MAX_FAILED_TRIALS)]
    with sessions.begin() as session:
        session.scalars(sa.select(Batch)).one().candidates = candidates
    task = measured(sessions, *(failed(index, message="no such instruction") for index in range(MAX_FAILED_TRIALS)))
    assert task.exhausted
    assert (
        task.reason
        == f"none of its {len(candidates)} candidates ran; 64 of them: build_error, such as no such instruction"
    )
    assert problems(sessions) == [task.reason]
    with sessions() as session:
        assert session.get_one(Job, "j1").state is JobState.RUNNING


def test_candidates_that_no_device_took_do_not_count(sessions: Sessions, task_id: int) -> None:
    lost = [failed(index, FailureKind.DEVICE_LOST) for index in range(4)]
    assert measured(sessions, *lost).reason is None


def test_a_task_that_cannot_be_checked_says_why_until_another_candidate_wins(sessions: Sessions, task_id: int) -> None:
    unchecked = Confirmation(samples=[1.0], won=False)
    first = WireResult(index=1, samples=[1.0], message="its outputs cannot be checked: so", confirmation=unchecked)
    assert measured(sessions, first).reason == first.message
    with sessions() as session:
        kinds = sa.select(Event.data).where(Event.kind == "challenger_rejected")
        assert [data["reason"] for data in session.scalars(kinds)] == ["unchecked"]
    won = Confirmation(samples=[0.9], error=0.0, won=True)
    second = WireResult(index=2, samples=[0.9], confirmation=won, trace="[[], []]")
    assert measured(sessions, second).reason is None


def test_a_task_whose_space_cannot_be_opened_is_one_of_a_running_job(sessions: Sessions) -> None:
    problem = NothingToTune("its design space cannot be opened").problem()
    with sessions.begin() as session:
        add_job(session, state=JobState.PREPARING)
        other = add_job(session, "j2")
        for number in range(2):
            add_task(session, other.id, workload=f"w{number}")
        planned = [
            job_plan.PlannedTask("w0", "product", "matmul", 1, {"s-w0": {}}, True),
            job_plan.PlannedTask("w1", "scatter", "scatter", 1, {}, False, problem=problem),
        ]
        job_plan.store_plan(session, session.get_one(Job, "j1"), TARGET, planned)
    with sessions() as session:
        rows = session.scalars(sa.select(JobTask).where(JobTask.job_id == "j1").order_by(JobTask.position)).all()
        assert [(row.exhausted, row.reason) for row in rows] == [(False, None), (True, problem["detail"])]
        assert session.get_one(Job, "j1").state is JobState.RUNNING
    assert problems(sessions) == [problem["detail"]]


def test_a_task_whose_proposal_fails_leaves_the_others(sessions: Sessions, task_id: int) -> None:
    with sessions.begin() as session:
        add_task(session, workload="w2")
        round_ = session.scalars(sa.select(Round)).one()
        outcomes.give_up(session, round_, MeasurementFailed("no sketch").problem())
    with sessions() as session:
        assert session.get_one(JobTask, task_id).reason == "no sketch"
        assert session.get_one(Job, "j1").state is JobState.RUNNING
