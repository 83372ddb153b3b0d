"""A job that is paused, changed, cancelled and deleted over the REST API."""

from __future__ import annotations

import pytest
from api_driver import GEMM, Api, problem

from db.models import Job, Model

pytestmark = pytest.mark.parallel


def test_steering_a_job(api: Api) -> None:
    job_id = api.client.post("/v1/jobs", json=GEMM).json()["id"]
    act = lambda verb: api.client.post(f"/v1/jobs/{job_id}/{verb}")  # noqa: E731
    assert act("pause").json()["state"] == "paused"
    assert act("pause").json()["state"] == "paused"
    assert act("resume").json()["state"] == "queued"
    changed = api.client.patch(f"/v1/jobs/{job_id}", json={"priority": 3, "budget": {"seconds": 60}, "name": "n"})
    assert changed.json()["priority"] == 3
    assert changed.json()["budget"] == {"trials": 40, "seconds": 60, "stop_when_converged": False}
    problem(api.client.patch(f"/v1/jobs/{job_id}", json={"budget": {"trials": 0}}), 422, "invalid_budget")
    gone = {"budget": {"trials": None, "seconds": None}}
    problem(api.client.patch(f"/v1/jobs/{job_id}", json=gone), 422, "invalid_input")
    problem(api.client.delete(f"/v1/jobs/{job_id}"), 409, "conflict")
    assert act("cancel").json()["state"] == "cancelled"
    assert act("cancel").json()["state"] == "cancelled"
    problem(act("resume"), 409, "conflict")
    problem(act("pause"), 409, "illegal_transition")
    problem(api.client.patch(f"/v1/jobs/{job_id}", json={"priority": 1, "name": "late"}), 409, "conflict")
    texts = {"name": "what it was", "tags": ["b", "a", "b"], "comment": "seed 3\nwon"}
    late = api.client.patch(f"/v1/jobs/{job_id}", json=texts).json()
    assert {name: late[name] for name in texts} == {**texts, "tags": ["a", "b"]}
    for odd, said in ((["a", "two words"], "tag 2, 'two words', is no tag"), (["t"] * 21, "these are 21 tags")):
        refused = problem(api.client.patch(f"/v1/jobs/{job_id}", json={"tags": odd}), 422, "invalid_input")
        assert said in refused["detail"]
    problem(api.client.patch(f"/v1/jobs/{job_id}", json={"comment": "x" * 4001}), 422, "invalid_input")
    found = api.client.get("/v1/jobs", params={"tag": "b"}).json()
    assert (found["total"], [row["id"] for row in found["items"]]) == (1, [job_id])
    assert api.client.get("/v1/jobs", params={"tag": "c"}).json()["total"] == 0
    assert api.client.patch(f"/v1/jobs/{job_id}", json={"tags": [], "comment": ""}).json()["tags"] == []
    model_id = api.client.get(f"/v1/jobs/{job_id}").json()["model_id"]
    problem(api.client.delete(f"/v1/models/{model_id}"), 409, "conflict")
    assert api.client.delete(f"/v1/jobs/{job_id}").status_code == 204
    problem(api.client.get(f"/v1/jobs/{job_id}"), 404, "not_found")
    assert api.client.delete(f"/v1/models/{model_id}").status_code == 204
    assert api.count(Model) == api.count(Job) == 0
