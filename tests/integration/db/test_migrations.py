"""Databases of earlier revisions, brought to the present one with rows in them."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.config import Config
from alembic.script import ScriptDirectory
from rows import SHA
from sqlalchemy import Engine
from sqlalchemy.exc import IntegrityError

import db.migrations
from db.engine import create_engine, head_revision, migrate, session_factory
from db.models import Base, CostModelRow, Job, JobTask, Model, ModelTask, Record, Round
from db.queries import record_imports
from db.revision import known
from tunesmith.preparation import Preparation
from tunesmith.states import JobState, ModelState

pytestmark = pytest.mark.parallel

OLD = "tunesmith.prepare/1"
LEASE = {"attempt": 2, "dispatched": 2}
MODEL = {
    "id": "m1",
    "name": "net",
    "source": "onnx",
    "sha256": SHA,
    "inputs_key": "",
    "size": 3,
    "owner": "local",
    "state": "ready",
    "inputs": [["x", "float32", [1, 8]]],
    "pipeline": OLD,
    **LEASE,
}
JOB = {
    "id": "j1",
    "name": "",
    "owner": "local",
    "model_id": "m1",
    "target_spec": "cpu",
    "state": "running",
    "budget_trials": 8,
    "stop_when_converged": False,
    "search": "genetic",
    "cost_model": "none",
    "allocator": "gradient",
    "priority": 0,
    "seed": 0,
    "warm_start": True,
    "verify": True,
    "simulated": False,
    "paused_seconds": 0.0,
    **LEASE,
}
WORKLOAD = {
    "hash": "w1",
    "name": "w",
    "family": "f",
    "args": [],
    "flops": 1.0,
    "module_blob": SHA,
    "metaschedule_blob": SHA,
}
TASK = {"model_id": "m1", "workload_hash": "w1", "position": 0, "name": "t", "weight": 1}
JOB_TASK = {
    "job_id": "j1",
    "workload_hash": "w1",
    "position": 0,
    "name": "t",
    "weight": 1,
    "tunable": True,
    "sketches": [],
    "exhausted": False,
    "trials": 0,
    "failures": 0,
    "told_record_id": 0,
}


def emptied(engine: Engine) -> None:
    with engine.begin() as connection:
        Base.metadata.drop_all(connection)
        connection.execute(sa.text("DELETE FROM alembic_version"))


def insert(engine: Engine, table: str, **values: Any) -> None:
    with engine.begin() as connection:
        connection.execute(sa.insert(sa.Table(table, sa.MetaData(), autoload_with=connection)).values(**values))


def configured() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(db.migrations.__file__).parent))
    return config


def test_the_files_names_are_the_revisions_that_alembic_finds() -> None:
    found = ScriptDirectory.from_config(configured())
    assert tuple(reversed([script.revision for script in found.walk_revisions()])) == known()
    assert found.get_heads() == [head_revision()]


@pytest.fixture
def before(database_url: str) -> str:
    """A database of revision 0002 with a model, one that is being imported, a task and a job."""
    engine = create_engine(database_url)
    emptied(engine)
    migrate(database_url, "0002")
    insert(engine, "models", **MODEL)
    insert(engine, "models", **{**MODEL, "id": "m2", "sha256": "1" * 64, "state": "importing", "pipeline": None})
    for name in ("w1", "w2"):
        insert(engine, "workloads", **{**WORKLOAD, "hash": name})
    insert(engine, "model_tasks", **TASK)
    insert(engine, "jobs", **JOB)
    engine.dispose()
    return database_url


def test_rows_of_before_the_variants_are_kept_and_were_prepared_plainly(before: str) -> None:
    migrate(before)
    engine = create_engine(before)
    with session_factory(engine)() as session:
        models = session.scalars(sa.select(Model).order_by(Model.id)).all()
        assert [(row.id, row.preparation, row.variant_of) for row in models] == [
            ("m1", OLD, None),
            ("m2", OLD, None),
        ]
        assert (models[0].state, models[0].inputs, models[0].attempt) == (ModelState.READY, MODEL["inputs"], 2)
        assert models[0].created_at.tzinfo is not None
        job = session.get_one(Job, "j1")
        assert (job.model_id, job.state, job.fast_math) == ("m1", JobState.RUNNING, False)
        assert session.get_one(ModelTask, ("m1", "w1")).weight == 1
    engine.dispose()


def test_a_model_may_have_a_row_for_each_preparation_after_it(before: str) -> None:
    migrate(before)
    engine = create_engine(before)
    sessions = session_factory(engine)
    other = {"name": "net", "source": "onnx", "sha256": SHA, "variant_of": "m1"}
    with sessions.begin() as session:
        session.add(Model(id="v1", preparation=Preparation(fast_math=True).key, **other))
    with pytest.raises(IntegrityError), sessions.begin() as session:
        session.add(Model(id="v2", preparation=Preparation(fast_math=True).key, **other))
    with pytest.raises(IntegrityError), sessions.begin() as session:
        session.add(Model(id="v3", preparation=Preparation(blocked=True).key, **{**other, "variant_of": "none"}))
    with sessions.begin() as session:
        session.delete(session.get_one(Job, "j1"))
        session.flush()
        session.delete(session.get_one(Model, "m1"))
    with sessions() as session:
        assert session.scalars(sa.select(Model.id)).all() == ["m2"]
    engine.dispose()


def test_tasks_of_before_alternatives_stand_for_nothing_and_jobs_had_no_winograd(before: str) -> None:
    migrate(before, "0003")
    engine = create_engine(before, foreign_keys=False)
    insert(engine, "job_tasks", **JOB_TASK)
    migrate(before)
    with session_factory(engine)() as session:
        assert session.get_one(Job, "j1").winograd is False
        assert session.get_one(Job, "j1").space == "all"
        assert session.get_one(ModelTask, ("m1", "w1")).alternative_of is None
        assert session.scalars(sa.select(JobTask)).one().alternative_of is None
    with session_factory(engine).begin() as session:
        first = session.scalars(sa.select(JobTask.id)).one()
        session.add(JobTask(**{**JOB_TASK, "workload_hash": "w2", "alternative_of": "w1"}))
        session.flush()
        session.delete(session.scalars(sa.select(JobTask).where(JobTask.alternative_of.is_not(None))).one())
    with session_factory(engine).begin() as session:
        session.add(JobTask(**{**JOB_TASK, "workload_hash": "w2"}))
        session.flush()
        assert session.scalars(sa.select(JobTask.id)).all() == [first, first + 2], "no id is given twice"
    engine.dispose()


def test_a_rejected_challengers_event_has_its_present_name(before: str) -> None:
    migrate(before, "0018")
    engine = create_engine(before)
    insert(engine, "events", job_id="j1", kind="crown_refused", data={"reason": "not_faster"})
    insert(engine, "events", job_id="j1", kind="new_best", data={})
    kinds = sa.text("SELECT kind FROM events ORDER BY id")
    migrate(before)
    with engine.connect() as connection:
        assert connection.execute(kinds).scalars().all() == ["challenger_rejected", "new_best"]
    engine.dispose()


def test_a_cost_model_has_the_precision_of_its_job(before: str) -> None:
    migrate(before, "0021")
    engine = create_engine(before)
    insert(engine, "targets", hash="t1", json={}, device_class="llvm-x-2")
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE jobs SET precision = 'bf16'"))
    model = {"kind": "xgboost", "target_hash": "t1", "number": 1, "state": "done", "features": "f", **LEASE}
    for name, job in (("c1", "j1"), ("c2", None)):
        numbers = {"trained_on": 1, "trained_through": 1, "simulated": False}
        insert(engine, "cost_models", id=name, job_id=job, **model, **numbers)
    migrate(before)
    with session_factory(engine)() as session:
        found = session.scalars(sa.select(CostModelRow.precision).order_by(CostModelRow.id)).all()
    assert found == ["bf16", "float32"]
    engine.dispose()


def test_typed_columns_say_what_the_json_of_existing_rows_says(before: str) -> None:
    migrate(before, "0017")
    engine = create_engine(before, foreign_keys=False)
    insert(engine, "job_tasks", **JOB_TASK)
    insert(engine, "targets", hash="t1", json={}, device_class="llvm-x-2")
    record = {
        "job_id": "j1",
        "index": 0,
        "workload_hash": "w1",
        "target_hash": "t1",
        "decisions": [],
        "samples": [1.0],
        "message": "",
        "build_seconds": 0.0,
        "run_seconds": 0.0,
        "device_seconds": 0.0,
        "duplicate": False,
    }
    cpu = {"cpu": "EPYC", "tvm": "0.27.0"}
    environments = ({}, {"simulated": False}, {"simulated": True}, {"cache": "warm"}, {"cache": "streamed", **cpu})
    for environment in environments:
        insert(engine, "records", **record, environment=environment)
    found = "2026-03-01T12:00:00.250000+00:00"
    rounds = ({"measured": 2, "crowned_at": found}, {"measured": 2}, None)
    common = {"job_id": "j1", "job_task_id": 1, "size": 2, "baseline": False, "state": "done", **LEASE}
    for number, metrics in enumerate(rounds):
        insert(engine, "rounds", **common, number=number, metrics=metrics)
    migrate(before, "0021")
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE jobs SET precision = 'bf16'"))
    migrate(before)
    with session_factory(engine)() as session:
        records = session.scalars(sa.select(Record).order_by(Record.id)).all()
        assert {(row.family, row.precision) for row in records} == {("f", "bf16")}
        assert [(row.processor, row.build) for row in records[-2:]] == [("", ""), ("EPYC", "0.27.0")]
        assert [(row.simulated, row.cache) for row in records] == [
            (False, "warm"),
            (False, "warm"),
            (True, "warm"),
            (False, "warm"),
            (False, "streamed"),
        ]
        since = session.scalars(sa.select(Round.champion_since).order_by(Round.number)).all()
        assert since == [dt.datetime.fromisoformat(found), None, None]
    engine.dispose()


def test_records_keep_their_json_and_imported_ones_stay_unique(before: str) -> None:
    migrate(before, "0035")
    engine = create_engine(before, foreign_keys=False)
    insert(engine, "targets", hash="t1", json={}, device_class="llvm-x-2")
    numbers = {"build_seconds": 0.0, "run_seconds": 0.0, "device_seconds": 0.0, "simulated": False, "duplicate": False}
    kept = {
        "samples": [0.25, 1e-07],
        "environment": {"tvm": "0.27.0", "cpu": "ä", "cores": 2},
        "decisions": [[4, 1], 2, "ü"],
    }
    record = {
        "index": 0,
        "workload_hash": "w1",
        "target_hash": "t1",
        "message": "",
        **numbers,
        **kept,
    }
    words = {"cache": "warm", "family": "f", "precision": "float32", "processor": "", "build": ""}
    for origin, content in (("measured", None), ("measured", "c1"), ("imported", "c2")):
        insert(engine, "records", **record, **words, origin=origin, content=content)
    migrate(before)
    with session_factory(engine)() as session:
        rows = session.scalars(sa.select(Record)).all()
        assert [{name: getattr(row, name) for name in kept} for row in rows] == [kept] * 3
        assert record_imports.measured_contents(session, ["c1", "c2", "c3"]) == {"c1"}
    with pytest.raises(IntegrityError):
        insert(engine, "records", **record, **words, origin="imported", content="c2")
    engine.dispose()
