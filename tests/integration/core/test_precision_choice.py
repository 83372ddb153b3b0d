"""Precision auto: which one a job gets, on what ground, and that its model is imported in it."""

from __future__ import annotations

import re
from pathlib import Path

import core_flow
import numpy as np
import pytest
import sqlalchemy as sa
from core_flow import row
from small_nets import Net

from db.models import Event, Job, JobTask, Model
from db.transactions.transitions import transition
from tunesmith.errors import ModelRejected
from tunesmith.measuring.agreement import distance
from tunesmith.messages import IngestModel, PrepareJob
from tunesmith.options import JobOptions
from tunesmith.preparation import for_target
from tunesmith.states import JobState
from tunesmith.targets import Target
from workers.core import ingest, prepare
from workers.core.claims import PrecisionClaim
from workers.core.context import Context
from workers.core.importing import Importing
from workers.core.precision import choose, unavailable
from workers.tvm_backend.frontends import import_model
from workers.tvm_backend.passes import pipeline
from workers.tvm_backend.run import precisions

pytestmark = pytest.mark.parallel

NARROW = '{"kind": "llvm", "mcpu": "znver4", "num-cores": 2}'
TILED = '{"kind": "llvm", "mcpu": "sapphirerapids", "num-cores": 2}'
CHOSEN = r"auto chose bf16 \(bf16: rms 0\.\d+ % of float32's outputs, 1 % allowed; int8: the model is not quantised\)"


@pytest.fixture
def imported(context: Context, tmp_path: Path) -> Context:
    """With two products with weights, imported in float32."""
    net = Net(6, 32)
    y = net.op("Relu", net.op("MatMul", "x", net.random(32, 48)))
    path = net.save(tmp_path / "net.onnx", net.op("MatMul", y, net.random(48, 16)))
    sha = context.blobs.put_bytes(path.read_bytes())
    with context.sessions.begin() as session:
        key = for_target("llvm", operator=False).key
        session.add(Model(id="m1", name="net", source="onnx", sha256=sha, preparation=key))
    assert ingest.import_model(context, IngestModel(model_id="m1", attempt=1))
    return context


def test_a_job_gets_the_precision_that_was_chosen(imported: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    core_flow.add_job(imported, target=NARROW, precision="auto")
    assert prepare.prepare_job(imported, PrepareJob(job_id="j1", attempt=1))
    job = row(imported, Job, "j1")
    assert (job.state, job.precision, job.attempt) == (JobState.QUEUED, "bf16", 2)
    variant = row(imported, Model, job.model_id)
    assert (variant.variant_of, variant.preparation) == ("m1", for_target("llvm", False, job.options).key)
    with imported.readers() as session:
        (said,) = session.scalars(sa.select(Event.data).where(Event.kind == "precision_chosen"))
    assert said == {"id": "j1", "precision": "bf16", "reason": job.precision_reason}
    assert re.fullmatch(CHOSEN, said["reason"])
    assert ingest.import_model(imported, IngestModel(model_id=variant.id, attempt=1))
    with imported.sessions.begin() as session:
        transition(session, session.get_one(Job, "j1"), JobState.PREPARING)
    assert prepare.prepare_job(imported, PrepareJob(job_id="j1", attempt=2))
    assert row(imported, Job, "j1").state is JobState.RUNNING
    with imported.readers() as session:
        assert any("pairs" in name for name in session.scalars(sa.select(JobTask.name)))
    stays_in_float32(imported, "j2", core_flow.TARGET, "the target has no instruction for it")

    def broken(*_: object) -> None:
        raise ModelRejected("the import was stopped after 600 s", field="file")

    monkeypatch.setattr(Importing, "try_precisions", broken)
    stays_in_float32(imported, "j3", NARROW, "the import was stopped after 600 s")


def test_a_model_is_laid_out_for_the_matrix_unit_of_its_target(imported: Context) -> None:
    with imported.sessions.begin() as session:
        key = for_target("llvm", False, JobOptions(precision="bf16")).key
        session.add(Model(id="m2", name="net", source="onnx", sha256="0" * 64, preparation=key, variant_of="m1"))
    core_flow.add_job(imported, target=TILED, precision="bf16", model_id="m2")
    assert prepare.prepare_job(imported, PrepareJob(job_id="j1", attempt=1))
    job = row(imported, Job, "j1")
    variant = row(imported, Model, job.model_id)
    assert (job.state, job.attempt, variant.variant_of) == (JobState.QUEUED, 2, "m1")
    assert variant.preparation == f"{key}+tiles"
    assert ingest.import_model(imported, IngestModel(model_id=variant.id, attempt=1))
    with imported.sessions.begin() as session:
        transition(session, session.get_one(Job, "j1"), JobState.PREPARING)
    assert prepare.prepare_job(imported, PrepareJob(job_id="j1", attempt=2))
    assert row(imported, Job, "j1").state is JobState.RUNNING


def stays_in_float32(imported: Context, job_id: str, target: str, why: str) -> None:
    """Prepare another job: it goes on at once."""
    core_flow.add_job(imported, job_id, target=target, precision="auto")
    assert prepare.prepare_job(imported, PrepareJob(job_id=job_id, attempt=1))
    job = row(imported, Job, job_id)
    assert (job.state, job.precision, job.model_id) == (JobState.RUNNING, "float32", "m1")
    assert job.precision_reason == f"auto chose float32 (int8: {why}; bf16: {why})"


def test_the_first_precision_within_the_tolerance_is_chosen() -> None:
    int8, bf16 = (PrecisionClaim(precision=each, rms=rms, why="") for each, rms in (("int8", 0.02), ("bf16", 4e-3)))
    found = choose([int8, bf16], {}, 0.01)
    assert found.precision == "bf16"
    allowed = "% of float32's outputs, 1 % allowed"
    assert found.reason == f"auto chose bf16 (bf16: rms 0.4 {allowed}; int8: rms 2 {allowed})"
    assert choose([int8], {}, 0.02).precision == "int8"
    assert choose([int8, bf16], {}, 1e-3).precision == "float32"
    unknown = PrecisionClaim(precision="bf16", rms=None, why="it cannot be run")
    assert choose([unknown], {"int8": "no"}, 1.0).reason == "auto chose float32 (int8: no; bf16: it cannot be run)"


def test_what_has_no_narrow_kernels_has_its_reason() -> None:
    cuda = Target({"kind": "cuda", "arch": "sm_90"})
    assert set(unavailable("all", cuda).values()) == {"targets of kind cuda have no kernels for it"}
    assert set(unavailable("tvm", Target({"kind": "llvm"})).values()) == {"the space tvm has no kernels for it"}
    assert unavailable("all", Target({"kind": "llvm", "mcpu": "znver4", "num-cores": 2})) == {}
    assert set(unavailable("all", Target({"kind": "llvm", "mcpu": "cascadelake", "num-cores": 2}))) == {"bf16"}


def test_convolutions_are_tried_by_winograds_algorithm_too(tmp_path: Path) -> None:
    net = Net(1, 32, 16, 16)
    mod = import_model.import_model(net.save(tmp_path / "net.onnx", net.conv("x", 32)), "onnx")
    preparation = for_target("llvm", False, JobOptions(precision="bf16"))
    inputs = [[np.random.default_rng(seed).standard_normal((1, 32, 16, 16), np.float32)] for seed in range(2)]
    (expected,) = precisions.run(pipeline.prepare(mod), inputs)
    direct, winograd = (
        max(distance(*pair)[1] for sets in zip(found, expected, strict=True) for pair in zip(*sets, strict=True))
        for found in precisions.run(pipeline.prepare(mod, preparation), inputs)
    )
    assert 0 < direct < winograd < 0.02
    rms, why = precisions.Trial(mod).of(preparation)
    assert (rms == pytest.approx(winograd, rel=0.2), why) == (True, "")
