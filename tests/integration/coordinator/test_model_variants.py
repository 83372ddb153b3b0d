"""Models that jobs need prepared otherwise than by default: the variants behind the user's model."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

import pytest
import sqlalchemy as sa
from api_driver import GEMM, Api, problem

from db.models import Event, Job, Model, ModelTask
from tunesmith.options import JobOptions
from tunesmith.preparation import PLAIN, Preparation, for_target

pytestmark = pytest.mark.parallel

CPU_MODEL = Preparation(blocked=True, fast_math=True, winograd=True).key
EXACT = Preparation(blocked=True, winograd=True).key
CPU_OPERATOR = Preparation(fast_math=True).key
GPU = "nvidia/nvidia-h100"


def upload(api: Api) -> str:
    model_id: str = api.client.post("/v1/models", files={"file": ("net.onnx", b"bytes")}).json()["id"]
    return model_id


def submit(api: Api, **values: Any) -> dict[str, Any]:
    given = {key: value for key, value in {**GEMM, **values}.items() if value is not None}
    response = api.client.post("/v1/jobs", json=given)
    assert response.status_code == 202, response.text
    body: dict[str, Any] = response.json()
    return body


def rows(api: Api, kind: type) -> list[Any]:
    with api.context.reading() as session:
        return list(session.scalars(sa.select(kind).order_by(kind.created_at, kind.id)))  # type: ignore[attr-defined]


def test_a_job_for_a_cpu_tunes_the_model_itself(api: Api) -> None:
    model_id = upload(api)
    job = submit(api, operator=None, model_id=model_id)
    assert (job["model_id"], job["fast_math"], job["winograd"]) == (model_id, True, True)
    submit(api)
    model, operator = rows(api, Model)
    assert [(row.preparation, row.variant_of) for row in (model, operator)] == [(CPU_MODEL, None), (CPU_OPERATOR, None)]
    assert [row.model_id for row in rows(api, Job)] == [model_id, operator.id]


def test_jobs_without_fast_math_share_one_hidden_variant(both: Api) -> None:
    model_id = upload(both)
    jobs = [submit(both, operator=None, model_id=model_id, fast_math=False) for _ in range(2)]
    model, variant = rows(both, Model)
    assert (model.id, model.variant_of, variant.variant_of) == (model_id, None, model_id)
    assert variant.preparation == EXACT
    assert (variant.name, variant.source, variant.sha256) == (model.name, model.source, model.sha256)
    assert {row.model_id for row in rows(both, Job)} == {variant.id}
    for job in jobs:
        assert (job["model_id"], job["model_name"], job["fast_math"]) == (model_id, "net.onnx", False)
        assert job["waiting_for"] == {"model": model_id}
        (queued,) = both.client.get(f"/v1/jobs/{job['id']}/events").json()["items"]
        assert queued["data"]["model"] == model_id
    listed = both.client.get("/v1/models").json()["items"]
    assert [item["id"] for item in listed] == [model_id]
    assert 'tunesmith_models{state="importing"} 1.0' in both.client.get("/metrics").text
    for method, path in (("GET", ""), ("GET", "/tasks"), ("DELETE", "")):
        problem(both.client.request(method, f"/v1/models/{variant.id}{path}"), 404, "not_found")
    problem(both.client.post("/v1/jobs", json={"model_id": variant.id}), 404, "not_found")


def test_each_refusal_has_a_variant_of_its_own(api: Api) -> None:
    model_id = upload(api)
    refused = ({"winograd": False}, {"fast_math": False}, {"winograd": False, "fast_math": False})
    for choice in refused:
        job = submit(api, operator=None, model_id=model_id, **choice)
        assert {name: job[name] for name in choice} == choice
    variants = [row.preparation for row in rows(api, Model) if row.variant_of == model_id]
    assert variants == [
        Preparation(blocked=True, fast_math=True).key,
        EXACT,
        Preparation(blocked=True).key,
    ]
    operator = [submit(api, winograd=choice)["model_id"] for choice in (True, False)]
    assert operator[0] == operator[1], "an operator keeps the layouts of its spec"
    chosen = submit(api, operator=None, model_id=model_id, precision="auto", tolerance=0.05)
    assert (chosen["precision"], chosen["tolerance"], chosen["notes"]) == ("auto", 0.05, [])
    assert rows(api, Job)[-1].model_id == model_id, "it is in float32 until its precision is chosen"
    refused_ = problem(api.client.post("/v1/jobs", json={**GEMM, "precision": "auto"}), 422, "precision_unavailable")
    assert "a single operator has its precision in its type" in refused_["detail"]
    narrow = submit(api, operator="gemm:8x16x32:bf16")
    assert narrow["precision"] == "bf16"
    wanted = for_target("llvm", False, JobOptions(precision="bf16"))
    assert rows(api, Model)[-1].preparation == wanted.key, "its weights are packed"


def test_tvms_own_space_is_that_of_the_plain_model(api: Api) -> None:
    model_id = upload(api)
    job = submit(api, operator=None, model_id=model_id, space="tvm")
    assert (job["model_id"], job["space"], submit(api)["space"]) == (model_id, "tvm", "all")
    (variant,) = [row for row in rows(api, Model) if row.variant_of == model_id]
    assert variant.preparation == PLAIN.key
    assert [row.space for row in rows(api, Job)] == ["tvm", "all"]


def test_what_happens_to_a_variant_is_told_of_its_model(api: Api) -> None:
    model_id = upload(api)
    submit(api, operator=None, model_id=model_id, fast_math=False)
    api.work(lambda: all(row.state.value == "ready" for row in rows(api, Model)))
    import_events = [event.data for event in rows(api, Event) if event.kind in ("model_importing", "model_ready")]
    assert [(data["id"], data["preparation"]) for data in import_events] == [
        (model_id, CPU_MODEL),
        (model_id, EXACT),
        (model_id, CPU_MODEL),
        (model_id, EXACT),
    ]


def test_the_log_names_the_preparation_and_the_variant_is_what_was_tuned(both: Api) -> None:
    job_id = both.finished_job(fast_math=False)
    operator, variant = rows(both, Model)
    assert (operator.preparation, variant.preparation) == (CPU_OPERATOR, PLAIN.key)
    text = both.client.get(f"/v1/jobs/{job_id}/best").text
    lines = [json.loads(line) for line in text.splitlines()]
    assert [line["provenance"]["preparation"] for line in lines] == [PLAIN.key] * 3
    assert all(line["workload"]["hash"].startswith(variant.id) for line in lines)
    zipped = both.client.get(f"/v1/jobs/{job_id}/best", params={"format": "metaschedule"})
    archive = zipfile.ZipFile(io.BytesIO(zipped.content))
    assert archive.read("preparation.txt").decode() == f"{PLAIN.key}\n"
    assert f"by `{PLAIN.key}`" in archive.read("README.md").decode()


def test_a_gpu_gets_the_plain_variant_whatever_is_said_of_fast_math(api: Api) -> None:
    model_id = upload(api)
    for fast_math in (True, False):
        assert submit(api, operator=None, model_id=model_id, target=GPU, fast_math=fast_math)["model_id"] == model_id
    model, variant = rows(api, Model)
    assert (variant.variant_of, variant.preparation) == (model.id, PLAIN.key)
    assert {row.model_id for row in rows(api, Job)} == {variant.id}


def test_an_operator_is_plain_for_a_gpu_and_without_fast_math(api: Api) -> None:
    submit(api, target=GPU)
    submit(api, fast_math=False)
    assert [row.preparation for row in rows(api, Model)] == [CPU_OPERATOR, PLAIN.key]


def test_a_model_goes_with_its_variants_once_no_job_uses_any(both: Api) -> None:
    model_id = upload(both)
    own = submit(both, operator=None, model_id=model_id)["id"]
    other = submit(both, operator=None, model_id=model_id, fast_math=False)["id"]
    both.work(lambda: all(row.state.value == "ready" for row in rows(both, Model)))
    assert both.count(ModelTask) == 6
    for job_id in (own, other):
        refused = problem(both.client.delete(f"/v1/models/{model_id}"), 409, "conflict")
        assert job_id in refused["jobs"]
        assert job_id in refused["detail"]
        both.client.post(f"/v1/jobs/{job_id}/cancel")
        both.work(lambda job_id=job_id: both.client.get(f"/v1/jobs/{job_id}").json()["state"] == "cancelled")
        assert both.client.delete(f"/v1/jobs/{job_id}").status_code == 204
    assert both.client.delete(f"/v1/models/{model_id}").status_code == 204
    assert both.count(Model) == both.count(ModelTask) == 0


def test_a_rejected_variant_fails_its_job_and_is_imported_again_with_its_model(api: Api) -> None:
    model_id = upload(api)
    api.work(lambda: api.client.get(f"/v1/models/{model_id}").json()["state"] == "ready")
    api.fleet.problem = {"code": "unsupported_operator", "detail": "Foo: 2", "status": 422, "operators": {"Foo": 2}}
    job_id = submit(api, operator=None, model_id=model_id, fast_math=False)["id"]
    api.work(lambda: api.client.get(f"/v1/jobs/{job_id}").json()["state"] == "failed")
    assert api.client.get(f"/v1/jobs/{job_id}").json()["error"]["code"] == "unsupported_operator"
    assert api.client.get(f"/v1/models/{model_id}").json()["state"] == "ready"
    repeated = {"model_id": model_id, "fast_math": False}
    problem(api.client.post("/v1/jobs", json=repeated), 422, "unsupported_operator")
    assert api.client.post("/v1/jobs", json={"model_id": model_id}).status_code == 202
    api.fleet.problem = None
    assert upload(api) == model_id
    assert [row.state.value for row in rows(api, Model)] == ["ready", "importing"]
    assert api.client.post("/v1/jobs", json=repeated).status_code == 202
    assert api.count(Model) == 2


def test_a_model_of_an_older_preparation_stays_the_users_model(both: Api) -> None:
    model_id = upload(both)
    with both.context.sessions.begin() as session:
        session.get_one(Model, model_id).preparation = PLAIN.key
    assert submit(both, operator=None, model_id=model_id)["model_id"] == model_id
    assert upload(both) == model_id
    model, variant = rows(both, Model)
    assert (model.preparation, variant.preparation, variant.variant_of) == (PLAIN.key, CPU_MODEL, model_id)


def test_a_rejected_model_of_an_older_preparation_is_imported_as_today(api: Api) -> None:
    api.fleet.problem = {"code": "model_rejected", "detail": "an older version", "status": 422}
    model_id = upload(api)
    with api.context.sessions.begin() as session:
        session.get_one(Model, model_id).preparation = "tunesmith.prepare/0"
    api.work(lambda: api.client.get(f"/v1/models/{model_id}").json()["state"] == "rejected")
    assert upload(api) == model_id
    assert [(row.preparation, row.state.value) for row in rows(api, Model)] == [(CPU_MODEL, "importing")]


def test_a_rejected_model_leaves_its_variants_their_preparation(api: Api) -> None:
    model_id = upload(api)
    with api.context.sessions.begin() as session:
        session.get_one(Model, model_id).preparation = "tunesmith.prepare/0"
    submit(api, operator=None, model_id=model_id)
    api.fleet.problem = {"code": "model_rejected", "detail": "an older version", "status": 422}
    api.work(lambda: all(row.state.value == "rejected" for row in rows(api, Model)))
    assert upload(api) == model_id
    assert [(row.preparation, row.state.value) for row in rows(api, Model)] == [
        ("tunesmith.prepare/0", "importing"),
        (CPU_MODEL, "importing"),
    ]


def test_the_choice_is_part_of_what_an_idempotency_key_stands_for(api: Api) -> None:
    headers = {"Idempotency-Key": "one"}
    first = api.client.post("/v1/jobs", json={**GEMM, "fast_math": False}, headers=headers).json()["id"]
    repeated = api.client.post("/v1/jobs", json={**GEMM, "fast_math": False}, headers=headers).json()["id"]
    assert first == repeated
    problem(api.client.post("/v1/jobs", json=GEMM, headers=headers), 422, "idempotency_mismatch")
    assert [row.preparation for row in rows(api, Model)] == [
        CPU_OPERATOR,
        for_target("llvm", True, JobOptions(fast_math=False)).key,
    ]
