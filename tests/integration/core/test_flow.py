from __future__ import annotations

import dataclasses

import core_flow
import numpy as np
import pytest
import sqlalchemy as sa
from core_flow import evaluate, row

from db.blobs import BlobStore
from db.models import (
    Batch,
    CostModelRow,
    Device,
    Event,
    Job,
    JobTask,
    Model,
    Record,
    Round,
    Schedule,
    TargetRow,
)
from db.models.base import Base, utcnow
from db.queries import cost_models, jobs, models, records, scheduling, work_parts
from db.transactions import training
from db.transactions.model_import import Imported
from services.coordinator.dispatch import Packer, tuned_workloads
from tunesmith.messages import (
    DeviceReport,
    IngestModel,
    PrepareJob,
    ProposeRound,
    TrainCostModel,
)
from tunesmith.names import FEATURES
from tunesmith.preparation import PLAIN, Preparation
from tunesmith.states import JobState, ModelState, RoundState, WorkState
from tunesmith.targets import Target
from tunesmith.types import Candidate
from workers.core import ingest, prepare, propose, record, train
from workers.core.context import Context
from workers.core.features import BatchFeatures
from workers.core.importing import Upload
from workers.tvm_backend.design_space.static_model import prior_of

pytestmark = pytest.mark.parallel


def kinds(context: Context) -> list[str]:
    with context.readers() as session:
        return list(session.scalars(sa.select(Event.kind).order_by(Event.id)))


def train_now(context: Context, job_id: str = "j1") -> str:
    with context.sessions.begin() as session:
        model = training.enqueue(session, session.get_one(Job, job_id))
    assert train.train_cost_model(context, TrainCostModel(cost_model_id=model.id, attempt=1))
    return model.id


def test_a_round_without_candidates_gives_a_schedule_until_something_is_measured(context: Context) -> None:
    core_flow.import_and_prepare(context)
    round_id = core_flow.open_round(context, size=0)
    assert propose.propose_round(context, ProposeRound(round_id=round_id, attempt=1))
    assert row(context, Round, round_id).state is RoundState.DONE
    answer = row(context, JobTask).answer
    assert answer["source"] == "estimated"
    assert answer["seconds"] > 0
    assert answer["trace"]
    with context.readers() as session:
        (task,) = scheduling.tasks(session, ["j1"])
        assert (task.rounds.opened, task.rounds.answers, task.rounds.answering) == (1, 1, 0)
        assert (task.rounds.done, task.rounds.in_flight) == (0, 0)
        assert not jobs.finished_rounds(session, "j1")
        job = session.get_one(Job, "j1")
        (wanted,) = tuned_workloads(session, job, Packer(context.blobs, None))
        assert wanted.run_seconds == [answer["seconds"]]
    core_flow.report(context, core_flow.propose(context))
    assert row(context, JobTask).answer is None
    with context.readers() as session:
        (champion,) = tuned_workloads(session, session.get_one(Job, "j1"), Packer(context.blobs, None))
    assert champion.run_seconds != wanted.run_seconds


def test_a_job_from_import_to_success(context: Context) -> None:
    core_flow.import_and_prepare(context)
    model, job, task = row(context, Model, "m1"), row(context, Job, "j1"), row(context, JobTask)
    assert (model.state, job.state, task.tunable) == (ModelState.READY, JobState.RUNNING, True)
    assert [name for name, _, _ in model.inputs] == ["a", "b"]

    first = core_flow.propose(context)
    assert len(first.candidates) == 17
    assert first.candidates[0] == [None, []]
    assert first.predictions is None
    core_flow.report(context, first)
    task = row(context, JobTask)
    assert task.trials == 16
    assert task.untuned_seconds == pytest.approx(0.01)

    second = core_flow.propose(context)
    assert len(second.candidates) == 16
    assert not {str(c) for c in first.candidates} & {str(c) for c in second.candidates}
    core_flow.report(context, second)
    third = core_flow.propose(context)
    core_flow.report(context, third)

    model_id = train_now(context)
    trained = row(context, CostModelRow, model_id)
    assert trained.state is WorkState.DONE
    assert trained.metrics["own"] == 48 - _blameless_gap(context)
    fourth = core_flow.propose(context)
    round_ = row(context, Round, fourth.round_id)
    assert round_.cost_model_id == model_id
    assert all(isinstance(score, float) for score in fourth.predictions)
    assert min(fourth.deviations) >= 0 < max(fourth.deviations), "the members of a model differ"
    core_flow.report(context, fourth)
    ranking = row(context, Round, fourth.round_id).metrics["ranking"]
    assert 0 <= ranking["pairwise"] <= 1
    assert row(context, Round, fourth.round_id).metrics["propose_seconds"] > 0
    second_model = row(context, CostModelRow, train_now(context))
    assert second_model.metrics["previous_on_new"]["programs"] == 16

    task = row(context, JobTask)
    champion = row(context, Schedule)
    assert champion.latency == task.best_seconds
    assert champion.record_id == task.best_record_id
    evaluate(context)
    assert row(context, Job, "j1").state is JobState.SUCCEEDED
    assert {"model_ready", "job_running", "round_measuring", "round_finished", "new_best", "job_succeeded"} <= set(
        kinds(context)
    )


def _blameless_gap(context: Context) -> int:
    with context.readers() as session:
        return len(session.scalars(sa.select(Record.id).where(Record.failure.in_(["abandoned", "device_lost"]))).all())


def test_the_first_batch_is_what_the_static_model_thinks_good(sqlite_context: Context) -> None:
    context = sqlite_context
    core_flow.import_and_prepare(context)
    batch = core_flow.propose(context)
    (traces,) = context.spaces.values()
    prior = prior_of(traces, Target(row(context, TargetRow).json), None)
    assert prior is not None
    points = traces.space.batch([c for c in map(Candidate.from_json, batch.candidates) if c.sketch is not None])
    others = prior(traces.space.sample(np.random.default_rng(0), 500))
    assert np.median(prior(points)) < np.quantile(others, 0.05)


def test_every_message_twice_does_its_work_once(sqlite_context: Context) -> None:
    context = sqlite_context
    core_flow.import_and_prepare(context)
    assert not ingest.import_model(context, IngestModel(model_id="m1", attempt=1))
    assert not prepare.prepare_job(context, PrepareJob(job_id="j1", attempt=1))
    batch = core_flow.propose(context)
    assert not propose.propose_round(context, ProposeRound(round_id=batch.round_id, attempt=1))
    assert not propose.propose_round(context, ProposeRound(round_id=batch.round_id, attempt=2))
    core_flow.report(context, batch)
    core_flow.report(context, batch)
    with context.sessions.begin() as session:
        model = training.enqueue(session, session.get_one(Job, "j1"))
    assert train.train_cost_model(context, TrainCostModel(cost_model_id=model.id, attempt=1))
    assert not train.train_cost_model(context, TrainCostModel(cost_model_id=model.id, attempt=1))
    with context.readers() as session:
        assert session.scalar(sa.select(sa.func.count()).select_from(Record)) == 17
        assert session.scalar(sa.select(sa.func.count()).select_from(Batch)) == 1
    assert row(context, JobTask).trials == 16


def test_features_of_a_batch_are_those_of_its_candidates(sqlite_context: Context) -> None:
    core_flow.import_and_prepare(sqlite_context)
    batch = core_flow.propose(sqlite_context, size=4)
    found = BatchFeatures.load(sqlite_context.blobs, batch.features_blob)
    assert found.version == FEATURES
    assert found.index.tolist() == [1, 2, 3, 4]
    assert len(found.features) == 4


def test_a_second_job_starts_from_what_the_first_one_found(sqlite_context: Context) -> None:
    context = sqlite_context
    core_flow.import_and_prepare(context)
    core_flow.report(context, core_flow.propose(context))
    core_flow.report(context, core_flow.propose(context))
    train_now(context)
    with context.readers() as session:
        best = session.scalars(
            sa.select(Record).where(Record.sketch_hash.is_not(None)).order_by(Record.latency.asc().nulls_last())
        ).first()
        before = [[row.sketch_hash, row.decisions] for row in session.scalars(sa.select(Record)) if row.sketch_hash]
    core_flow.import_and_prepare(context, "j2")
    warm = core_flow.propose(context, "j2", size=8)
    assert warm.candidates[0] == [None, []]
    assert len({str(c) for c in warm.candidates}) == 9
    assert not [c for c in warm.candidates if c in before]  # its champion stands beside the batch
    with context.sessions.begin() as session:
        session.execute(sa.delete(Schedule))
    core_flow.import_and_prepare(context, "j4")
    measured = core_flow.propose(context, "j4", size=8)  # so earlier jobs left measurements, and no champion
    assert measured.candidates[1] == [best.sketch_hash, best.decisions]
    assert row(context, Round, warm.round_id).cost_model_id is not None
    core_flow.import_and_prepare(context, "j3", warm_start=False)
    cold = core_flow.propose(context, "j3", size=8)
    assert row(context, Round, cold.round_id).cost_model_id is None
    with context.readers() as session:
        assert session.scalars(sa.select(JobTask.trials).where(JobTask.job_id == "j2")).one() == 0


def test_a_simulated_device_teaches_other_jobs_nothing(context: Context) -> None:
    core_flow.import_and_prepare(context)
    batch = core_flow.propose(context, size=8)
    core_flow.report(context, batch, environment={"simulated": True})
    core_flow.import_and_prepare(context, "j2")
    second = core_flow.propose(context, "j2", size=8)
    assert row(context, Round, second.round_id).cost_model_id is None
    task = row(context, JobTask, 2)
    with context.readers() as session:
        job = session.get_one(Job, "j2")
        assert records.best_elsewhere(session, task.workload_hash, job.target_hash, task.sketches, "j2", 9) == []
        assert records.training_rows(session, job.target_hash, 9, not_job="j2") == []
        assert len(records.training_rows(session, job.target_hash, 9, job_id="j1")) == 8


def test_a_batch_whose_worker_gives_up_is_tried_again_and_then_abandoned(sqlite_context: Context) -> None:
    context = sqlite_context
    core_flow.import_and_prepare(context)
    batch = core_flow.propose(context, size=4)
    partial = core_flow.results_of(batch)[:2]
    core_flow.report(context, batch, partial, error="no device answers")
    repeated = row(context, Batch)
    assert (repeated.state, repeated.attempt) == (WorkState.QUEUED, 2)
    core_flow.report(context, batch, [], error="a late complaint of the first attempt")
    assert row(context, Batch).attempt == 2
    for attempt in (2, 3):
        core_flow.report(context, batch, [], attempt=attempt, error="no device answers")
    assert row(context, Batch).state is WorkState.FAILED
    assert row(context, Round).state is RoundState.DONE
    with context.readers() as session:
        failures = session.scalars(sa.select(Record.failure).order_by(Record.index)).all()
    assert failures[2:] == ["abandoned"] * 3
    assert row(context, Job, "j1").state is JobState.RUNNING


def test_a_bad_operator_rejects_the_model(sqlite_context: Context) -> None:
    core_flow.add_operator(sqlite_context, operator="gemm:0x1x1:float32")
    assert ingest.import_model(sqlite_context, IngestModel(model_id="m1", attempt=1))
    model = row(sqlite_context, Model, "m1")
    assert model.state is ModelState.REJECTED
    assert model.error["code"] == "invalid_operator"
    with sqlite_context.readers() as session:
        assert models.tasks(session, "m1") == []


@pytest.mark.parametrize("preparation", [PLAIN, Preparation(blocked=True, fast_math=True)])
def test_an_import_prepares_as_the_row_says(
    sqlite_context: Context, monkeypatch: pytest.MonkeyPatch, preparation: Preparation
) -> None:
    asked, real = [], sqlite_context.importing.run

    def run(upload: Upload, blobs: BlobStore) -> Imported:
        asked.append(upload.preparation)
        return real(dataclasses.replace(upload, preparation=PLAIN), blobs)

    monkeypatch.setattr(sqlite_context.importing, "run", run)
    core_flow.add_operator(sqlite_context, preparation=preparation.key)
    assert ingest.import_model(sqlite_context, IngestModel(model_id="m1", attempt=1))
    assert asked == [preparation]
    assert row(sqlite_context, Model, "m1").preparation == preparation.key


def test_a_preparation_of_another_version_rejects_the_model_at_once(sqlite_context: Context) -> None:
    core_flow.add_operator(sqlite_context, preparation="tunesmith.prepare/0")
    assert ingest.import_model(sqlite_context, IngestModel(model_id="m1", attempt=1))
    model = row(sqlite_context, Model, "m1")
    assert (model.state, model.error["code"]) == (ModelState.REJECTED, "model_rejected")
    assert "'tunesmith.prepare/0'" in model.error["detail"]


def test_a_job_without_any_space_says_which_could_not_be_opened(
    sqlite_context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    def generate(*_: object) -> None:
        raise RuntimeError("a long story\nno root block")

    monkeypatch.setattr(prepare.space, "generate", generate)
    core_flow.add_operator(sqlite_context)
    ingest.import_model(sqlite_context, IngestModel(model_id="m1", attempt=1))
    core_flow.add_job(sqlite_context)
    prepare.prepare_job(sqlite_context, PrepareJob(job_id="j1", attempt=1))
    job = row(sqlite_context, Job, "j1")
    assert (job.state, job.error["code"]) == (JobState.FAILED, "nothing_to_tune")
    assert job.error["detail"].endswith("cannot be opened for this target: RuntimeError: no root block")


def test_a_target_that_nobody_has_fails_the_job(sqlite_context: Context) -> None:
    core_flow.add_operator(sqlite_context)
    ingest.import_model(sqlite_context, IngestModel(model_id="m1", attempt=1))
    core_flow.add_job(sqlite_context, target="cpu:4000")
    prepare.prepare_job(sqlite_context, PrepareJob(job_id="j1", attempt=1))
    job = row(sqlite_context, Job, "j1")
    assert (job.state, job.error["code"]) == (JobState.FAILED, "target_unavailable")
    with sqlite_context.readers() as session:
        assert session.scalars(sa.select(JobTask)).all() == []


def test_a_short_name_means_the_live_device(sqlite_context: Context) -> None:
    context = sqlite_context
    core_flow.send(
        context,
        DeviceReport(
            worker="w",
            name="big/cpu",
            host="big",
            device_classes=["llvm-znver4-8"],
            cores=8,
            target={"kind": "llvm", "mcpu": "znver4", "num-cores": 8},
        ),
    )
    core_flow.import_and_prepare(context, target="cpu:4")
    with context.readers() as session:
        job = session.get_one(Job, "j1")
        target = session.get_one(TargetRow, job.target_hash)
        assert target.json == {"kind": "llvm", "mcpu": "znver4", "num-cores": 4}
        assert target.device_class == "llvm-znver4-4"
        assert session.get_one(Device, "big/cpu").seen_at <= utcnow()


def test_a_round_cancelled_while_it_is_proposed_changes_nothing(
    sqlite_context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = sqlite_context
    core_flow.import_and_prepare(context)
    round_id = core_flow.open_round(context)
    real = propose.describe

    def cancel_meanwhile(*args):
        with context.sessions.begin() as session:
            record.transition(session, session.get_one(Round, round_id), RoundState.CANCELLED)
        return real(*args)

    monkeypatch.setattr(propose, "describe", cancel_meanwhile)
    assert propose.propose_round(context, ProposeRound(round_id=round_id, attempt=1))
    assert row(context, Round).state is RoundState.CANCELLED
    assert row(context, JobTask).searcher_state is None
    with context.readers() as session:
        assert session.scalars(sa.select(Batch)).all() == []


def test_what_a_proposal_reads_is_plain_values_that_outlive_the_session(sqlite_context: Context) -> None:
    context = sqlite_context
    core_flow.import_and_prepare(context)
    core_flow.report(context, core_flow.propose(context))
    train_now(context)
    round_id = core_flow.open_round(context)
    with context.readers() as session:
        subject = work_parts.of_round(session, round_id)
        model = cost_models.latest(session, subject.job_id)
    assert model is not None
    read = [getattr(subject, field.name) for field in dataclasses.fields(subject)] + list(model)
    assert [value for value in read if isinstance(value, Base)] == []
    assert (subject.workload, subject.options.warm_start, subject.size) == (
        row(context, JobTask).workload_hash,
        True,
        16,
    )
    with pytest.raises(dataclasses.FrozenInstanceError):
        subject.size = 1


def test_a_small_space_is_exhausted_at_last(sqlite_context: Context) -> None:
    core_flow.add_operator(context := sqlite_context, operator="gemm:1x1x2:float32")
    ingest.import_model(context, IngestModel(model_id="m1", attempt=1))
    core_flow.add_job(context, cost_model="none", search="random")
    prepare.prepare_job(context, PrepareJob(job_id="j1", attempt=1))
    for _ in range(6):
        asked = ProposeRound(round_id=core_flow.open_round(context, size=8), attempt=1)
        if not propose.propose_round(context, asked) or row(context, JobTask).exhausted:
            break
        with context.readers() as session:
            core_flow.report(context, session.scalars(sa.select(Batch).where(Batch.round_id == asked.round_id)).one())
    assert row(context, JobTask).exhausted
    with context.readers() as session:
        seen = [Candidate.from_json(c) for batch in session.scalars(sa.select(Batch.candidates)) for c in batch]
    assert len(seen) == len(set(seen))
