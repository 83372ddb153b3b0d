"""What a job may know from others: of its own part of the design space, and of similar workloads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import core_flow
import pytest
import sqlalchemy as sa

from db.models import Event, JobTask, Record
from db.queries import records, work_parts
from tunesmith.messages import IngestModel
from tunesmith.types import Candidate
from workers.core import ingest
from workers.core.context import Context
from workers.core.siblings import suggestions

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
        best = records.best_of_family(session, subject.workload, subject.target_hash, "j2", 1, 1)[0][0]
    assert found
    assert {c.sketch for c in found} <= set(subject.sketches)
    inner = [d[1:] for d in found[0].decisions if isinstance(d, tuple)]
    assert inner == [tuple(d[1:]) for d in best.decisions if isinstance(d, list)]
    warm = core_flow.propose(context, "j2")
    assert {str(Candidate.from_json(c)) for c in warm.candidates} & set(map(str, found))
    core_flow.import_and_prepare(context, "j3", "m2", warm_start=False)
    cold = core_flow.propose(context, "j3")
    assert not {str(Candidate.from_json(c)) for c in cold.candidates} & set(map(str, found))
