from __future__ import annotations

import json

import pytest
import sqlalchemy as sa
from rows import TARGET, add_batch, add_job, add_task
from threads import at_once

from db.engine import Sessions
from db.models import Batch, CostModelRow, Job, JobTask, Model, ModelTask, Record, Round, Schedule, TargetRow
from db.queries import champions, cost_models, event_log, failures, jobs, models, proposals, records, sketches, tasks
from db.transactions import job_plan, results, training, transitions
from db.transactions.champions import promote
from tunesmith.messages import Confirmation, ModelWeights, WireResult
from tunesmith.states import JobState, RoundState, WorkState
from tunesmith.types import CacheState, Candidate, FailureKind

pytestmark = pytest.mark.parallel

TRACE = json.dumps([[], []])


def ok(index: int, seconds: float, trace: str | None = TRACE) -> WireResult:
    confirmation = None if trace is None else Confirmation(samples=[seconds] * 3, won=True)
    return WireResult(
        index=index,
        samples=[seconds] * 3,
        trace=trace,
        build_seconds=0.1,
        run_seconds=0.2,
        device_seconds=0.05,
        confirmation=confirmation,
    )


@pytest.fixture
def batch_id(sessions: Sessions) -> int:
    with sessions.begin() as session:
        add_job(session)
        return add_batch(session, add_task(session)).id


def apply(
    sessions: Sessions, batch_id: int, *found: WireResult, simulated: bool = False, cache: str = ""
) -> results.Applied:
    with sessions.begin() as session:
        environment = {"cpu": "x", "simulated": simulated, "cache": cache}
        return results.apply(session, session.get_one(Batch, batch_id), found, environment)


def task_of(sessions: Sessions) -> JobTask:
    with sessions() as session:
        return session.scalars(sa.select(JobTask)).one()


def test_a_batch_in_pieces(sessions: Sessions, batch_id: int) -> None:
    assert apply(sessions, batch_id, ok(0, 9.0, None), ok(1, 3.0)) == results.Applied((0, 1), False)
    failed = WireResult(index=2, failure=FailureKind.CRASH, message="signal 11" + "x" * 3000)
    assert apply(sessions, batch_id, failed, ok(3, 2.0)) == results.Applied((2, 3), True)
    task = task_of(sessions)
    assert (task.untuned_seconds, task.best_seconds, task.trials, task.failures) == (9.0, 2.0, 3, 1)
    with sessions() as session:
        batch, round_ = session.scalars(sa.select(Batch)).one(), session.scalars(sa.select(Round)).one()
        assert (batch.state, round_.state, round_.best_after) == (WorkState.DONE, RoundState.DONE, 2.0)
        champion_at = session.get_one(Record, task.best_record_id).created_at
        figures = dict(round_.metrics or {})
        assert figures.pop("crowned_at") == champion_at.isoformat()
        assert figures == pytest.approx(
            {
                "measured": 4,
                "failed": 1,
                "duplicates": 0,
                "build_seconds": 0.3,
                "run_seconds": 0.6,
                "device_seconds": 0.15,
            }
        )
        champion = champions.get(session, "w1", TARGET)
        assert champion is not None
        assert (champion.latency, champion.record_id) == (2.0, task.best_record_id)
        assert [event.kind for event in event_log.page(session)] == [
            "new_best",
            "new_best",
            "batch_done",
            "round_finished",
        ]
        assert [row[:2] for row in failures.by_class(session, "j1")] == [("crash", 1)]
        assert records.count_valid(session, "j1") == 0, "none of them has features"
        batch.features_blob = "f" * 64
        session.flush()
        assert records.count_valid(session, "j1") == 2


def test_a_message_with_a_zero_byte_costs_no_results(sessions: Sessions, batch_id: int) -> None:
    strange = WireResult(index=0, failure=FailureKind.CRASH, message="core\0dumped")
    assert apply(sessions, batch_id, strange, ok(1, 3.0), ok(2, 4.0), ok(3, 2.0)).finished
    with sessions() as session:
        assert records.of_batch(session, batch_id)[0].message == "core dumped"


def test_results_that_come_twice_count_once(sessions: Sessions, batch_id: int) -> None:
    everything = [ok(0, 9.0), ok(1, 3.0), ok(2, 4.0), ok(3, 2.0)]
    assert apply(sessions, batch_id, *everything, ok(1, 0.1)).finished
    assert apply(sessions, batch_id, *everything) == results.Applied((), False)
    with sessions() as session:
        assert session.scalar(sa.select(sa.func.count()).select_from(Record)) == 4
        assert session.scalar(sa.select(Record.latency).where(Record.index == 1)) == 3.0
    assert task_of(sessions).trials == 3


def test_trials_are_found_by_their_candidates(sessions: Sessions, batch_id: int) -> None:
    assert apply(sessions, batch_id, *(ok(number, 1.0 + number) for number in range(4))).finished
    task = task_of(sessions).id
    with sessions() as session:
        stored = proposals.measured(session, task, {*session.scalars(sa.select(Record.sketch_hash))} - {None})
        assert len(stored) == 3
        one, *others = stored
        assert proposals.measured(session, task, {str(one.sketch)}, [one]) == {one: stored[one]}
        unknown = Candidate(one.sketch, (*one.decisions, 7))
        assert proposals.measured(session, task, {str(one.sketch)}, [unknown, others[0]]).keys() == {others[0]}
        assert proposals.measured(session, task, {str(one.sketch)}, []) == {}


def test_doubled_reports_at_once_count_once(sessions: Sessions, batch_id: int) -> None:
    everything = [ok(i, 1.0 + i) for i in range(4)]
    applied = at_once(5, lambda _: apply(sessions, batch_id, *everything))
    assert sorted((a.finished, a.new) for a in applied) == [(False, ())] * 4 + [(True, (0, 1, 2, 3))]
    assert task_of(sessions).trials == 3


def test_reports_of_two_batches_of_a_task_at_once(sessions: Sessions, batch_id: int) -> None:
    with sessions.begin() as session:
        other = add_batch(session, session.scalars(sa.select(JobTask)).one(), number=2, baseline=False).id

    def report(index: int) -> None:
        for i in range(4):
            apply(sessions, (batch_id, other)[index], ok(i, 5.0 - i - index / 2))

    assert at_once(2, report) == [None, None]
    task = task_of(sessions)
    assert (task.trials, task.best_seconds) == (7, 1.5)
    with sessions() as session:
        seen = [row.id for row in records.of_task_since(session, task.id, 0)]
        assert len(seen) == 8
        assert records.of_task_since(session, task.id, seen[-1]) == []
        champion = champions.get(session, "w1", TARGET)
        assert champion is not None
        assert champion.latency == 1.5


def test_a_late_result_of_a_cancelled_batch_still_counts(sessions: Sessions, batch_id: int) -> None:
    with sessions.begin() as session:
        batch = session.get_one(Batch, batch_id)
        transitions.transition(session, batch, WorkState.CANCELLED)
        transitions.transition(session, session.get_one(Round, batch.round_id), RoundState.CANCELLED)
    assert apply(sessions, batch_id, *[ok(i, 1.0) for i in range(4)]) == results.Applied((0, 1, 2, 3), False)
    assert task_of(sessions).trials == 3


def test_an_index_outside_of_the_batch_is_ignored(sessions: Sessions, batch_id: int) -> None:
    assert apply(sessions, batch_id, ok(4, 1.0), ok(-1, 1.0)) == results.Applied((), False)


def test_a_sign_of_life_starts_a_batch(sessions: Sessions, batch_id: int) -> None:
    with sessions.begin() as session:
        batch = session.get_one(Batch, batch_id)
        results.record_heartbeat(session, batch, "w", attempt=7)
        assert batch.state is WorkState.QUEUED
        results.record_heartbeat(session, batch, "w", attempt=1)
        assert (batch.state, batch.worker) == (WorkState.RUNNING, "w")


def test_the_champion_only_falls(sessions: Sessions, batch_id: int) -> None:
    apply(sessions, batch_id, ok(1, 3.0))
    apply(sessions, batch_id, ok(2, 4.0))
    with sessions.begin() as session:
        record = session.scalars(sa.select(Record).where(Record.index == 2)).one()
        assert not promote(session, record, 3.0)
        assert promote(session, record, 2.9)
    with sessions() as session:
        both = dict.fromkeys(("w1", "w2"), CacheState.WARM)
        assert champions.of_workloads(session, both, TARGET)["w1"].latency == 2.9


def test_a_simulated_champion_displaces_its_like_only(sessions: Sessions, batch_id: int) -> None:
    with sessions.begin() as session:
        add_job(session, "j2")
        other = add_batch(session, add_task(session, "j2")).id
    apply(sessions, batch_id, ok(1, 3.0))
    apply(sessions, other, ok(1, 0.5), ok(2, 0.4), simulated=True)
    apply(sessions, batch_id, ok(2, 2.0))
    with sessions() as session:
        assert [session.get_one(Job, key).simulated for key in ("j1", "j2")] == [False, True]
        for simulated, latency in ((False, 2.0), (True, 0.4)):
            champion = champions.get(session, "w1", TARGET, simulated=simulated)
            assert champion is not None
            assert champion.latency == latency
            of_all = champions.of_workloads(session, {"w1": CacheState.WARM}, TARGET, simulated=simulated)
            assert of_all["w1"].record_id == champion.record_id
        assert [row.latency for row, _, _, _ in champions.measured(session, "w1")] == [2.0]


def test_what_was_measured_with_weights_elsewhere_contends_with_its_like_only(
    sessions: Sessions, batch_id: int
) -> None:
    with sessions.begin() as session:
        add_job(session, "j2")
        add_job(session, "j3")
        other = add_batch(session, add_task(session, "j2")).id
        session.get_one(Batch, batch_id).features_blob = session.get_one(Batch, other).features_blob = "f" * 64
    apply(sessions, batch_id, ok(1, 3.0), cache="warm")
    apply(sessions, other, ok(1, 5.0), ok(2, 4.0), cache="streamed")
    with sessions() as session:
        for cache, latencies in ((CacheState.WARM, [3.0]), (CacheState.STREAMED, [4.0, 5.0])):
            champion = champions.get(session, "w1", TARGET, cache=cache)
            assert champion is not None
            assert champion.latency == latencies[0]
            assert champions.of_workloads(session, {"w1": cache}, TARGET)["w1"].latency == latencies[0]
            found = records.best_elsewhere(session, "w1", TARGET, ["s-w1"], "j3", 9, cache)
            assert [row.latency for row in found] == latencies
        rows = records.training_rows(session, TARGET, 9, not_job="j3")
        assert {row.latency: row.group for row in rows} == {3.0: "w1", 4.0: "w1/streamed", 5.0: "w1/streamed"}
        assert [row.latency for row, _, _, _ in champions.measured(session, "w1")] == [4.0, 3.0]
        session.delete(session.get_one(Schedule, ("w1", TARGET, False, "streamed")))
        session.flush()
        assert champions.of_workloads(session, {"w1": CacheState.STREAMED}, TARGET)["w1"].latency == 3.0


def test_what_a_model_streams_matters_on_a_cpu(sessions: Sessions, batch_id: int) -> None:
    with sessions.begin() as session:
        job = session.get_one(Job, "j1")
        session.get_one(Model, job.model_id).params_size = 1000
        assert models.weights(session, job, "w1") is None  # nobody knows the model's tasks
        add_task(session, workload="w2")
        for workload, weights in (("w1", [1, 2]), ("w2", [])):
            session.add(
                ModelTask(
                    model_id=job.model_id, workload_hash=workload, position=0, name="t", weight=1, weights=weights
                )
            )
        session.flush()
        assert models.weights(session, job, "w1") == ModelWeights(arguments=(1, 2), size=1000)
        assert models.cache_of(session, job, "w2") is CacheState.WARM
        session.get_one(TargetRow, TARGET).json = {"kind": "cuda"}
        assert models.cache_of(session, job, "w1") is CacheState.WARM


def test_a_cost_model_of_invented_figures_is_not_for_others(sessions: Sessions, batch_id: int) -> None:
    with sessions.begin() as session:
        for number, simulated in enumerate((False, True), start=1):
            session.add(
                CostModelRow(
                    id=f"cm-{number}",
                    kind="xgboost",
                    job_id="j1",
                    target_hash=TARGET,
                    number=number,
                    features="f",
                    state=WorkState.DONE,
                    simulated=simulated,
                    blob="b" * 64,
                )
            )
    with sessions() as session:
        found = cost_models.latest_elsewhere(session, TARGET, "xgboost", "f", "another job")
        assert found is not None
        assert found.id == "cm-1"


def test_records_as_measurements(sessions: Sessions, batch_id: int) -> None:
    apply(sessions, batch_id, ok(1, 3.0), WireResult(index=2, failure=FailureKind.RUN_TIMEOUT))
    with sessions() as session:
        first, second = [records.measurement(row) for row in records.of_batch(session, batch_id)]
    assert (first.candidate, first.latency) == (Candidate("s-w1", (1, 1)), 3.0)
    assert second.failure is FailureKind.RUN_TIMEOUT


def test_pending_candidates_are_those_of_open_batches(sessions: Sessions, batch_id: int) -> None:
    task = task_of(sessions)
    with sessions() as session:
        assert Candidate("s-w1", (1, 2)) in tasks.pending(session, task.id)
    apply(sessions, batch_id, *[ok(i, 1.0) for i in range(4)])
    with sessions() as session:
        assert tasks.pending(session, task.id) == set()


def test_the_best_records_of_other_jobs(sessions: Sessions, batch_id: int) -> None:
    apply(sessions, batch_id, ok(1, 3.0), ok(2, 1.0), WireResult(index=3, failure=FailureKind.CRASH))
    with sessions.begin() as session:
        add_job(session, "j2")
        found = records.best_elsewhere(session, "w1", TARGET, ["s-w1"], "j2", 10)
        assert [row.latency for row in found] == [1.0, 3.0]
        assert records.best_elsewhere(session, "w1", TARGET, ["s-w1"], "j1", 10) == []
        assert records.best_elsewhere(session, "w1", TARGET, ["unknown"], "j2", 10) == []


def test_training_rows_need_features_and_a_blameless_candidate(sessions: Sessions, batch_id: int) -> None:
    apply(
        sessions,
        batch_id,
        ok(0, 9.0),
        ok(1, 3.0),
        WireResult(index=2, failure=FailureKind.CRASH),
        WireResult(index=3, failure=FailureKind.DEVICE_LOST),
    )
    with sessions.begin() as session:
        assert records.training_rows(session, TARGET, 10) == []
        session.get_one(Batch, batch_id).features_blob = "f" * 64
    with sessions() as session:
        rows = records.training_rows(session, TARGET, 10, job_id="j1")
        assert [(row.index, row.latency) for row in rows] == [(2, None), (1, 3.0)]
        assert records.training_rows(session, TARGET, 10, not_job="j1") == []
        assert len(records.training_rows(session, TARGET, 10, not_job="j2")) == 2
        assert records.training_rows(session, TARGET, 10, not_job="j2", space="tvm") == []
        assert records.training_rows(session, TARGET, 10, not_job="j2", precision="bf16") == []
        session.get_one(Job, "j1").precision = "bf16"
        session.flush()
        assert len(records.training_rows(session, TARGET, 10, not_job="j2", precision="bf16")) == 2
        assert records.training_rows(session, TARGET, 10, not_job="j2") == []
        assert len(records.training_rows(session, TARGET, 10, job_id="j1")) == 2


def test_versions_of_a_cost_model(sessions: Sessions) -> None:
    with sessions.begin() as session:
        job = add_job(session, cost_model="xgboost")
        first = training.enqueue(session, job)
        transitions.transition(session, first, WorkState.DONE, blob="b" * 64)
        second = training.enqueue(session, job)
        assert (first.number, second.number) == (1, 2)
        known = cost_models.TrainedModel(first.id, "xgboost", first.features, "b" * 64, 0)
        assert cost_models.latest(session, "j1") == known
        assert cost_models.latest_elsewhere(session, TARGET, "xgboost", first.features, "j2") == known
        assert cost_models.latest_elsewhere(session, TARGET, "xgboost", "per-store/2", "j2") is None
        assert cost_models.latest_elsewhere(session, TARGET, "xgboost", first.features, "j1") is None
        assert cost_models.latest_elsewhere(session, TARGET, "xgboost", first.features, "j2", "tvm") is None
        job.space = "tvm"
        assert cost_models.latest_elsewhere(session, TARGET, "xgboost", first.features, "j2", "tvm") == known
        wanted = (session, TARGET, "xgboost", first.features, "j2", "all")
        job.precision = "bf16"
        narrow = training.enqueue(session, job)
        transitions.transition(session, narrow, WorkState.DONE, blob="c" * 64)
        assert cost_models.latest_elsewhere(*wanted) == known, "the newest one learned from another precision"
        assert cost_models.latest_elsewhere(*wanted, "bf16") == known._replace(id=narrow.id, blob="c" * 64)


def test_sketches_are_stored_once(sessions: Sessions, batch_id: int) -> None:
    with sessions.begin() as session:
        job_plan.store_sketches(session, "w1", {"s-w1": {"knobs": [1]}, "s-new": {"knobs": [2]}})
        assert sketches.get(session, ["s-w1", "s-new", "s-none"]) == {"s-w1": {"knobs": []}, "s-new": {"knobs": [2]}}


def test_a_plan_starts_a_job_in_one_transaction(sessions: Sessions) -> None:
    with sessions.begin() as session:
        add_job(session)
        add_task(session, workload="w1")
        job = add_job(session, "j2", state=JobState.PREPARING)
        job_plan.store_target(session, TARGET, {"kind": "llvm"}, "llvm-x-2")
        planned = [
            job_plan.PlannedTask("w1", "first", "matmul", 2, {"s-w1": {}, "s-2": {"knobs": []}}, True),
        ]
        job_plan.store_plan(session, job, TARGET, planned)
    with sessions() as session:
        job = session.get_one(Job, "j2")
        task = session.scalars(sa.select(JobTask).where(JobTask.job_id == "j2")).one()
    assert job.state is JobState.RUNNING
    assert job.started_at is not None
    assert (task.sketches, task.weight, task.exhausted) == (["s-w1", "s-2"], 2, False)


def test_a_best_is_known_when_it_is_confirmed_and_not_when_its_round_ends(sessions: Sessions, batch_id: int) -> None:
    apply(sessions, batch_id, ok(1, 3.0), ok(2, 4.0), ok(3, 5.0))
    apply(sessions, batch_id, ok(0, 9.0, None))
    with sessions() as session:
        (step,) = jobs.finished_rounds(session, session.scalars(sa.select(JobTask)).one().job_id)
        confirmed = session.scalars(sa.select(Record).where(Record.latency == 3.0)).one()
        default = session.scalars(sa.select(Record).where(Record.latency == 9.0)).one()
        assert step.known_at == confirmed.created_at < default.created_at < step.finished_at
