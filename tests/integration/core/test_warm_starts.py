"""What a job may know from others: of its own part of the design space, and of similar workloads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import core_flow
import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from db.models import Batch, Event, Job, JobTask, Model, Record, WorkloadRow
from db.queries import by_key, models, records, scheduling, work_parts
from db.queries.relatives import Likeness
from tunesmith.dataset.collecting import Collecting
from tunesmith.dataset.shards import in_shard
from tunesmith.messages import IngestModel
from tunesmith.targets import Target
from tunesmith.types import Candidate
from workers.core import answering, ingest
from workers.core.context import Context
from workers.core.features import BatchFeatures
from workers.core.siblings import suggestions
from workers.core.unmeasured import begins_with_answers
from workers.tvm_backend.design_space import unmeasured

pytestmark = pytest.mark.parallel


@pytest.fixture
def context(tmp_path: Path, sqlite_url: str) -> Iterator[Context]:
    context = core_flow.core_context(tmp_path, sqlite_url)
    yield context
    context.sessions.kw["bind"].dispose()


def test_a_job_of_tvms_space_has_its_sketches_alone_and_starts_from_those(context: Context) -> None:
    core_flow.import_and_prepare(context)
    core_flow.report(context, core_flow.propose(context))
    core_flow.import_and_prepare(context, "j2", space="tvm")
    batch = core_flow.propose(context, "j2")
    with context.readers() as session:
        whole, part = session.scalars(sa.select(JobTask).order_by(JobTask.id)).all()
        measured = {row.sketch_hash for row in session.scalars(sa.select(Record))}
    assert set(part.sketches) < set(whole.sketches)
    assert {sketch for sketch, _ in batch.candidates} <= {None, *part.sketches}
    assert measured - {None, *part.sketches}, "else there was nothing to be left out"


def test_a_task_that_another_job_tuned_says_so(context: Context) -> None:
    core_flow.import_and_prepare(context)
    core_flow.report(context, core_flow.propose(context))
    core_flow.import_and_prepare(context, "j2")
    core_flow.import_and_prepare(context, "j3", warm_start=False)
    with context.readers() as session:
        first, second, cold = session.scalars(sa.select(JobTask).order_by(JobTask.id)).all()
        fastest = min(row.latency for row in session.scalars(sa.select(Record)) if row.latency and row.sketch_hash)
        data_of = {e.job_id: e.data for e in session.scalars(sa.select(Event).where(Event.kind == "job_running"))}
    assert (first.known_seconds, second.known_seconds, cold.known_seconds) == (None, fastest, None)
    assert [data_of[job]["known"] for job in ("j1", "j2", "j3")] == [0, 1, 0]


def test_a_workload_starts_from_what_was_fast_on_similar_ones(context: Context) -> None:
    core_flow.import_and_prepare(context)
    core_flow.report(context, core_flow.propose(context))
    core_flow.add_operator(context, "m2", "gemm:128x64x96:float32")
    assert ingest.import_model(context, IngestModel(model_id="m2", attempt=1))
    core_flow.import_and_prepare(context, "j2", "m2")
    round_id = core_flow.open_round(context, "j2")
    with context.readers() as session:
        subject = work_parts.of_round(session, round_id)
        found = suggestions(session, subject)
        mine = Likeness.of(by_key.existing(session, WorkloadRow, subject.workload))
        best = records.best_of_family(session, mine, subject.target_hash, "j2", 1, 1)[0][0]
    assert found
    assert {c.sketch for c in found} <= set(subject.sketches)
    inner = [d[1:] for d in found[0].decisions if isinstance(d, tuple)]
    assert inner == [tuple(d[1:]) for d in best.decisions if isinstance(d, list)]
    warm = core_flow.propose(context, "j2")
    assert {str(Candidate.from_json(c)) for c in warm.candidates} & set(map(str, found))
    core_flow.import_and_prepare(context, "j3", "m2", warm_start=False)
    cold = core_flow.propose(context, "j3")
    assert not {str(Candidate.from_json(c)) for c in cold.candidates} & set(map(str, found))


def test_collecting_jobs_propose_no_program_twice_and_a_shard_only_its_own(context: Context) -> None:
    core_flow.import_and_prepare(context, "j1", search="uniform", per_task=8)
    core_flow.report(context, core_flow.propose(context, "j1", 8))
    core_flow.import_and_prepare(context, "j2", search="uniform", per_task=8)
    core_flow.import_and_prepare(context, "j3", search="guided", per_task=8, shard=1, shards=2)
    batches = [core_flow.propose(context, job, 8) for job in ("j2", "j3")]
    with context.readers() as session:
        rows = session.scalars(sa.select(Record).where(Record.sketch_hash.is_not(None))).all()
        tasks = session.scalars(sa.select(JobTask).order_by(JobTask.id)).all()
    labels = sum(row.latency is not None for row in rows)
    assert 0 < labels == tasks[0].trials - tasks[0].failures
    assert [task.earlier_labels for task in tasks] == [0, labels, 0], "of the same sampler and shard"
    known = {str(Candidate.from_json([row.sketch_hash, row.decisions])) for row in rows}
    (traces,) = context.spaces.values()
    for batch in batches:
        proposed = [Candidate.from_json(c) for c in batch.candidates if c[0] is not None]
        assert len(proposed) == 8
        assert not known & set(map(str, proposed))
    points = traces.space.batch(proposed)
    assert in_shard(traces.space, points, Collecting(8, 1, 2)).all()
    assert not in_shard(traces.space, points, Collecting(8, 0, 2)).any()


def test_a_list_of_operators_is_a_model_with_the_tasks_of_each(context: Context) -> None:
    texts = [core_flow.OPERATOR, "softmax:8x128:float32"]
    sha = context.blobs.put_bytes("\n".join(texts).encode())
    core_flow.add_operator(context)
    with context.sessions.begin() as session:
        single = session.get_one(Model, "m1")
        session.add(Model(id="m2", name="2", source="operators", sha256=sha, preparation=single.preparation))
    for model in ("m1", "m2"):
        assert ingest.import_model(context, IngestModel(model_id=model, attempt=1))
    with context.readers() as session:
        one, both = ([task.workload_hash for task, _ in models.tasks(session, model)] for model in ("m1", "m2"))
        assert len(both) == 2
        assert set(one) < set(both)
        assert [name for name, _, _ in session.get_one(Model, "m2").inputs] == ["o0_a", "o0_b", "o1_x"]


def test_a_job_without_trials_answers_by_the_static_model_or_a_relative_unless_a_schedule_was_measured(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, real = [], answering.reader
    monkeypatch.setattr(answering, "reader", lambda *about: asked.append((about[0], *about[1])) or real(*about))
    core_flow.import_and_prepare(context, "nothing known", budget_trials=0)
    assert asked == [("matmul", "float32", "float32", "float32")], "its code is read, where that is known"
    core_flow.import_and_prepare(context)
    core_flow.report(context, core_flow.propose(context))
    core_flow.import_and_prepare(context, "measured", budget_trials=0)
    core_flow.add_operator(context, "m2", "gemm:128x64x96:float32")
    assert ingest.import_model(context, IngestModel(model_id="m2", attempt=1))
    core_flow.import_and_prepare(context, "alike", "m2", budget_trials=0)
    monkeypatch.setattr(unmeasured, "prior_of", lambda *_: None)
    core_flow.import_and_prepare(context, "relative", "m2", budget_trials=0)
    with context.readers() as session:
        tasks = {task.job_id: task for task in session.scalars(sa.select(JobTask))}
        fastest = min(row.latency for row in session.scalars(sa.select(Record)) if row.latency and row.sketch_hash)
    rescaled = tasks["relative"].answer
    for job in ("nothing known", "alike"):
        estimated = tasks[job].answer
        assert estimated is not None
        assert (estimated["source"], estimated["relative"]) == ("estimated", None)
        assert 0 < estimated["seconds"] < 1
        assert estimated["trace"][0], "its instructions"
    assert rescaled is not None
    assert (rescaled["source"], rescaled["relative"]) == ("rescaled", tasks["measured"].workload_hash)
    assert rescaled["seconds"] == pytest.approx(fastest * 128 * 64 * 96 / 64**3)
    assert (tasks["measured"].answer, tasks["measured"].known_seconds) == (None, fastest)


def test_a_timed_job_measures_first_what_it_was_given_when_it_was_prepared(context: Context) -> None:
    core_flow.import_and_prepare(context, budget_trials=None, budget_seconds=600.0)
    with context.readers() as session:
        answer = session.scalars(sa.select(JobTask)).one().answer
        assert answer is not None
        assert _planned(session) == (True, False)
    first = core_flow.propose(context, size=1)
    assert first.candidates == [[None, []], answer["candidate"]]
    assert not context.spaces, "neither space nor searcher is opened for it"
    core_flow.report(context, first)
    with context.readers() as session:
        assert session.scalars(sa.select(JobTask)).one().answer is None
        assert _planned(session) == (False, False)
        assert session.get_one(Batch, first.id).features_blob is None
        assert records.count_valid(session, "j1") == 0
    second = core_flow.propose(context, size=3)
    assert answer["candidate"] not in second.candidates
    assert len(second.candidates) == 3
    with context.readers() as session:
        assert _planned(session) == (False, True)
        for batch, described in ((first, [1]), (second, [0, 1, 2])):
            blob = session.get_one(Batch, batch.id).features_blob
            assert blob is not None
            assert BatchFeatures.load(context.blobs, blob).index.tolist() == described
        assert records.count_valid(session, "j1") == 1


def test_larger_first_rounds_begin_with_it(context: Context) -> None:
    core_flow.import_and_prepare(context, budget_trials=None, budget_seconds=600.0)
    with context.readers() as session:
        answer = session.scalars(sa.select(JobTask)).one().answer
    assert answer is not None
    batch = core_flow.propose(context, size=16)
    assert batch.candidates[:2] == [[None, []], answer["candidate"]]
    assert len({str(each) for each in batch.candidates}) == 17


@pytest.mark.parametrize(
    ("changed", "tasks", "kind", "begins"),
    [
        ({}, 30, "llvm", True),
        ({}, 300, "llvm", False),
        ({}, 3, "cuda", False),
        ({"warm_start": False}, 3, "llvm", False),
        ({"budget_seconds": None, "budget_trials": 100}, 3, "llvm", False),
        ({"budget_seconds": None, "budget_trials": 0, "warm_start": False}, 300, "cuda", True),
        ({"per_task": 8, "search": "uniform"}, 3, "llvm", False),
    ],
)
def test_which_jobs_begin_with_schedules_of_all_tasks(
    changed: dict[str, Any], tasks: int, kind: str, begins: bool
) -> None:
    job = Job(**{"budget_seconds": 120.0, "warm_start": True, **changed})
    assert begins_with_answers(job, Target({"kind": kind}), tasks) == begins


def _planned(session: Session) -> tuple[bool, bool]:
    """Whether the planner is told of a schedule without a measurement, and of what its searcher proposed."""
    (row,) = scheduling.tasks(session, ["j1"])
    return row.has_answer, row.searched
