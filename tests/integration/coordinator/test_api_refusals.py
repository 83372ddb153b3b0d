"""What the REST API refuses, and how it says so."""

from __future__ import annotations

import json
from typing import Any

import pytest
from api_driver import GEMM, Api, problem

from db.models import Job, Model

pytestmark = pytest.mark.parallel


@pytest.mark.parametrize(
    ("change", "code", "field"),
    [
        ({"budget": {"trials": 0, "seconds": 5}}, "invalid_budget", "budget.seconds"),
        ({"budget": {"trials": -3}}, "invalid_budget", "budget.trials"),
        ({"budget": {"trials": 10**7}}, "invalid_budget", "budget.trials"),
        ({"budget": {"trials": 1.5}}, "invalid_budget", "budget.trials"),
        ({"budget": {"seconds": 0}}, "invalid_budget", "budget.seconds"),
        ({"budget": {"seconds": "soon"}}, "invalid_budget", "budget.seconds"),
        ({"search": "magic"}, "unknown_searcher", "search"),
        ({"allocator": "magic"}, "unknown_allocator", "allocator"),
        ({"cost_model": "magic"}, "unknown_cost_model", "cost_model"),
        ({"space": "magic"}, "unknown_space", "space"),
        ({"target": "vax"}, "unknown_target", "target"),
        ({"operator": "gemm:0x1x1:float32"}, "invalid_operator", "operator"),
        ({"operator": None, "model_id": "m-none"}, "not_found", "model_id"),
        ({"per_task": 4}, "invalid_input", "per_task"),
        ({"operator": None, "operators": ["gemm:8x8x8"]}, "invalid_input", "operators"),
        ({"kind": "collect"}, "invalid_input", "per_task"),
        ({"kind": "collect", "per_task": 0}, "invalid_input", "per_task"),
        ({"kind": "collect", "per_task": 4, "shard": 2, "shards": 2}, "invalid_input", "shard"),
        ({"kind": "collect", "per_task": 4, "operators": ["gemm:8x8x8"]}, "invalid_input", "model_id"),
        (
            {"operator": None, "kind": "collect", "per_task": 4, "operators": ["gemm:8x8"]},
            "invalid_operator",
            "operators",
        ),
        ({"colour": "red"}, "invalid_input", "colour"),
        ({"priority": 11}, "invalid_input", "priority"),
        ({"fast_math": "perhaps"}, "invalid_input", "fast_math"),
        ({"fast_math": 2}, "invalid_input", "fast_math"),
        ({"fast_math": None}, "invalid_input", "fast_math"),
        ({"fast_math": [True]}, "invalid_input", "fast_math"),
    ],
)
def test_bad_jobs_are_refused_and_leave_nothing(api: Api, change: dict[str, Any], code: str, field: str) -> None:
    response = api.client.post("/v1/jobs", json={**GEMM, **change})
    body = problem(response, 404 if code == "not_found" else 422, code)
    assert body["errors"][0]["field"] == field
    assert api.count(Job) == api.count(Model) == 0


def test_a_rejected_model_is_named_at_submission(api: Api) -> None:
    api.fleet.problem = {"code": "unsupported_operator", "detail": "Foo: 2", "status": 422, "operators": {"Foo": 2}}
    model = api.client.post("/v1/models", files={"file": ("a.onnx", b"bytes")}).json()
    api.work(lambda: api.client.get(f"/v1/models/{model['id']}").json()["state"] == "rejected")
    assert api.client.get(f"/v1/models/{model['id']}").json()["error"]["operators"] == {"Foo": 2}
    response = api.client.post("/v1/jobs", json={"model_id": model["id"]})
    assert problem(response, 422, "unsupported_operator")["operators"] == {"Foo": 2}
    assert api.count(Job) == 0
    api.fleet.problem = None  # a worker that knows the operator
    repeated = api.client.post("/v1/models", files={"file": ("a.onnx", b"bytes")})
    assert (repeated.status_code, repeated.json()["id"], repeated.json()["state"]) == (200, model["id"], "importing")
    api.work(lambda: api.client.get(f"/v1/models/{model['id']}").json()["state"] == "ready")


def test_errors_of_the_framework_are_problems(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    problem(api.client.get("/v1/none"), 404, "not_found")
    problem(api.client.put("/v1/jobs"), 405, "method_not_allowed")
    problem(
        api.client.post("/v1/jobs", content=b"{", headers={"content-type": "application/json"}), 422, "invalid_input"
    )
    problem(api.client.get("/v1/jobs/none"), 404, "not_found")

    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr("services.coordinator.usecases.jobs.visible", broken)
    body = problem(api.client.get("/v1/jobs/x", headers={"X-Request-ID": "my-id"}), 500, "internal_error")
    assert body["request_id"] == "my-id"
    assert "secret" not in json.dumps(body)
