"""When a finalist becomes champion, and when it does not."""

from __future__ import annotations

import json
from typing import Any

import pytest
import sqlalchemy as sa
from rows import TARGET, add_batch, add_job, add_task

from db.engine import Sessions
from db.models import Batch, JobTask, Record
from db.queries import champions, event_log, records
from db.transactions import results
from db.transactions.champions import confirmed_latency
from tunesmith.messages import Confirmation, WireCandidate, WireResult
from tunesmith.types import Candidate, FailureKind, StopReason

pytestmark = pytest.mark.parallel

TRACE = json.dumps([[], []])
SKETCH = "s-w1"


def raced(index: int, seconds: float, **values: Any) -> WireResult:
    return WireResult(index=index, samples=[seconds] * 3, **values)


def finalist(
    index: int,
    seconds: float,
    champion: float | None = None,
    beside: tuple[int, int] | None = None,
    *,
    won: bool = True,
    **values: Any,
) -> WireResult:
    """One that raced in half the time that it then took; ``beside`` is the champion's decisions."""
    confirmation = Confirmation(
        samples=[seconds * 0.9, seconds, seconds * 1.1],
        champion_samples=[] if champion is None else [champion] * 3,
        champion=None if beside is None else WireCandidate(index=-1, sketch=SKETCH, decisions=list(beside)),
        p_value=None if champion is None else 0.01,
        error=1e-6,
        tolerance=1e-4,
        won=won,
    )
    return raced(index, seconds / 2, confirmation=confirmation, trace=TRACE if won else None, **values)


@pytest.fixture
def batch_ids(sessions: Sessions) -> list[int]:
    """Two batches of one task: decisions are ``(1, i)`` and ``(2, i)``."""
    with sessions.begin() as session:
        add_job(session)
        task = add_task(session)
        return [add_batch(session, task, number=number, baseline=number == 1).id for number in (1, 2)]


def apply(sessions: Sessions, batch_id: int, *found: WireResult) -> None:
    with sessions.begin() as session:
        results.apply(session, session.get_one(Batch, batch_id), found, {"cpu": "x"})


def state(sessions: Sessions) -> tuple[float | None, list[Any] | None, float | None]:
    """The task's best latency, the champion's decisions, and the latency of its schedule."""
    with sessions() as session:
        task = session.scalars(sa.select(JobTask)).one()
        record = session.get(Record, task.best_record_id) if task.best_record_id else None
        schedule = champions.get(session, "w1", TARGET)
        assert (schedule.record_id if schedule else None) == task.best_record_id
        latency = schedule.latency if schedule else None
        return task.best_seconds, record.decisions if record else None, latency


def events_of_kind(sessions: Sessions, kind: str = "challenger_rejected") -> list[dict[str, Any]]:
    with sessions() as session:
        return [event.data for event in event_log.page(session) if event.kind == kind]


def test_the_fastest_of_a_race_is_no_champion_yet(sessions: Sessions, batch_ids: list[int]) -> None:
    apply(sessions, batch_ids[0], raced(0, 9.0), raced(1, 1.0, trace=TRACE), raced(2, 2.0))
    assert state(sessions) == (None, None, None)
    assert events_of_kind(sessions) == events_of_kind(sessions, "new_best") == []
    apply(sessions, batch_ids[0], finalist(3, 4.0))
    assert state(sessions) == (4.0, [1, 3], 4.0)  # as confirmed, not as raced
    assert [event["seconds"] for event in events_of_kind(sessions, "new_best")] == [4.0]


def test_who_does_not_win_is_refused_with_the_figures(sessions: Sessions, batch_ids: list[int]) -> None:
    apply(sessions, batch_ids[0], finalist(1, 4.0))
    apply(sessions, batch_ids[1], finalist(0, 3.9, 4.0, (1, 1), won=False))
    assert state(sessions) == (4.0, [1, 1], 4.0)
    (event,) = events_of_kind(sessions)
    assert (event["reason"], event["seconds"], event["champion_seconds"]) == ("not_faster", 3.9, 4.0)
    assert (event["p_value"], event["error"], event["tolerance"], event["name"]) == (0.01, 1e-6, 1e-4, "w1")


def test_wrong_numbers_are_kept_as_a_failure(sessions: Sessions, batch_ids: list[int]) -> None:
    wrong = finalist(1, 0.1, won=False, failure=FailureKind.WRONG_RESULT, message="off").model_copy(
        update={"samples": []}
    )
    apply(sessions, batch_ids[0], wrong)
    assert state(sessions) == (None, None, None)
    assert [event["reason"] for event in events_of_kind(sessions)] == ["wrong_result"]
    with sessions() as session:
        (row,) = records.of_batch(session, batch_ids[0])
        assert (row.failure, row.latency, row.samples) == ("wrong_result", None, [])
        assert row.confirmation is not None
        assert row.confirmation["error"] == 1e-6
        assert session.scalars(sa.select(JobTask)).one().failures == 1


def test_drift_rejects_no_finalist_that_won(sessions: Sessions, batch_ids: list[int]) -> None:
    apply(sessions, batch_ids[0], finalist(1, 1.0))
    # Meanwhile everything takes half as long again: the winner's median alone would be no progress.
    apply(sessions, batch_ids[1], finalist(0, 1.2, 1.5, (1, 1)), finalist(1, 1.35, 1.5, (1, 1)))
    assert state(sessions) == (pytest.approx(0.8), [2, 0], pytest.approx(0.8))


def test_a_device_that_runs_faster_now_is_taken_at_its_word(sessions: Sessions, batch_ids: list[int]) -> None:
    apply(sessions, batch_ids[0], finalist(1, 1.0))
    apply(sessions, batch_ids[1], finalist(0, 0.4, 0.5, (1, 1)))
    assert state(sessions) == (0.4, [2, 0], 0.4)


def test_who_beat_an_outdated_champion_is_compared_by_medians(sessions: Sessions, batch_ids: list[int]) -> None:
    apply(sessions, batch_ids[0], finalist(1, 4.0))
    apply(sessions, batch_ids[0], finalist(2, 2.0, 4.0, (1, 1)))
    apply(sessions, batch_ids[1], finalist(0, 2.5, 4.0, (1, 1)))
    assert state(sessions) == (2.0, [1, 2], 2.0)
    assert [(event["reason"], event["seconds"]) for event in events_of_kind(sessions)] == [("overtaken", 2.5)]
    apply(sessions, batch_ids[1], finalist(1, 1.5, 4.0, (1, 1)))
    assert state(sessions) == (1.5, [2, 1], 1.5)


def test_two_winners_of_one_batch_leave_the_faster(sessions: Sessions, batch_ids: list[int]) -> None:
    apply(sessions, batch_ids[0], finalist(1, 3.0), finalist(2, 2.0), finalist(3, 4.0))
    assert state(sessions) == (2.0, [1, 2], 2.0)
    assert len(events_of_kind(sessions, "new_best")) == 1


def test_how_a_record_was_measured_is_kept(sessions: Sessions, batch_ids: list[int]) -> None:
    one = raced(1, 1.0, device_seconds=0.25, stopped=StopReason.RACED, duplicate=True)
    apply(sessions, batch_ids[0], one, finalist(2, 2.0, 3.0, (1, 1)))
    with sessions() as session:
        first, second = records.of_batch(session, batch_ids[0])
        assert (first.device_seconds, first.stopped, first.duplicate) == (0.25, "raced", True)
        assert first.confirmation is None
        kept = Confirmation.model_validate(second.confirmation)
        assert kept.champion == WireCandidate(index=-1, sketch=SKETCH, decisions=[1, 1])
        assert (kept.won, kept.tolerance, second.latency) == (True, 1e-4, 1.0)


def test_the_latency_of_a_winner_by_itself() -> None:
    won = finalist(0, 1.2, 1.5, (1, 1)).confirmation
    assert won is not None
    present = champions.Champion(Candidate(SKETCH, (1, 1)), 1.0)
    assert confirmed_latency(won, present) == pytest.approx(0.8)
    for other in (champions.Champion(None, None), champions.Champion(Candidate(SKETCH, (1, 2)), 1.0)):
        assert confirmed_latency(won, other) == 1.2


def test_a_champion_keeps_the_best_that_it_was_measured_with(sessions: Sessions, batch_ids: list[int]) -> None:
    apply(sessions, batch_ids[0], finalist(1, 4.0))
    apply(sessions, batch_ids[0], finalist(2, 3.0, 2.0, (1, 1), won=False))  # it was confirmed in a slow phase
    assert state(sessions) == (2.0, [1, 1], 2.0)
    assert [event["seconds"] for event in events_of_kind(sessions, "new_best")] == [4.0, 2.0]
    apply(sessions, batch_ids[0], finalist(3, 3.5, 3.0, (1, 1), won=False))
    apply(sessions, batch_ids[1], finalist(0, 3.0, 1.0, (9, 9), won=False))  # another one than the champion
    assert state(sessions) == (2.0, [1, 1], 2.0)
    lies = finalist(2, 1e-6, 1e-6, (1, 1), won=False, failure=FailureKind.IMPLAUSIBLE)
    apply(sessions, batch_ids[1], lies)  # the clock does, and the champion's time is worth as little
    assert state(sessions) == (2.0, [1, 1], 2.0)
    apply(sessions, batch_ids[1], finalist(1, 1.5, 2.5, (1, 1)))
    assert state(sessions) == (1.5, [2, 1], 1.5)
