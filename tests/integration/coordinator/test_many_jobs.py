"""Several jobs and users on one coordinator: shares, quotas, and what a job is expected to come to."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from api_driver import GEMM, Api, problem
from fake_fleet import Folder

from db.models import Job, Round

pytestmark = pytest.mark.parallel
ADMIN = {"authorization": "Bearer first-key"}


def key(api: Api, owner: str) -> dict[str, str]:
    made = api.client.post("/v1/keys", json={"owner": owner, "scopes": ["user"]}, headers=ADMIN).json()
    return {"authorization": f"Bearer {made['key']}"}


def test_a_user_with_one_job_gets_as_much_as_a_user_with_three(tmp_path: Path, sqlite_url: str) -> None:
    api = Api(Folder(tmp_path, sqlite_url), admin_key="first-key")
    api.fleet.register_device()
    ann, ben = key(api, "ann"), key(api, "ben")
    for headers in (ann, ann, ann, ben):
        many = {**GEMM, "budget": {"trials": 100_000}}
        assert api.client.post("/v1/jobs", json=many, headers=headers).status_code == 202

    def rounds() -> Counter[str]:
        with api.context.reading() as session:
            return Counter(owner for _, owner in session.query(Round.id, Job.owner).join(Job, Round.job_id == Job.id))

    api.work(lambda: sum(rounds().values()) >= 24)
    counts = rounds()
    assert abs(counts["ann"] - counts["ben"]) <= 4, counts
    api.close()


def test_a_user_may_have_so_many_jobs_and_no_more(tmp_path: Path, database_url: str) -> None:
    api = Api(Folder(tmp_path, database_url), admin_key="first-key", max_open_jobs=2)
    ann, ben = key(api, "ann"), key(api, "ben")
    jobs = [api.client.post("/v1/jobs", json=GEMM, headers=ann).json()["id"] for _ in range(2)]
    refused = problem(api.client.post("/v1/jobs", json=GEMM, headers=ann), 429, "quota_exceeded")
    assert "TUNESMITH_MAX_OPEN_JOBS" in refused["detail"]
    assert refused["limit"] == 2
    assert api.count(Job) == 2
    assert api.client.post("/v1/jobs", json=GEMM, headers=ben).status_code == 202
    assert api.client.post(f"/v1/jobs/{jobs[0]}/cancel", headers=ann).json()["state"] == "cancelled"
    assert api.client.post("/v1/jobs", json=GEMM, headers=ann).status_code == 202
    api.close()


@pytest.mark.both_databases
def test_submissions_at_the_same_moment_keep_to_the_quota(tmp_path: Path, database_url: str) -> None:
    api = Api(Folder(tmp_path, database_url), admin_key="first-key", max_open_jobs=3)
    ann = key(api, "ann")
    with ThreadPoolExecutor(6) as threads:
        found = list(threads.map(lambda _: api.client.post("/v1/jobs", json=GEMM, headers=ann).status_code, range(12)))
    assert Counter(found) == {202: 3, 429: 9}
    assert api.count(Job) == 3
    api.close()


def test_a_job_says_what_it_is_expected_to_come_to(api: Api) -> None:
    api.fleet.register_device()
    job_id = api.client.post("/v1/jobs", json={**GEMM, "budget": {"trials": 400}}).json()["id"]
    forecast = lambda: api.client.get(f"/v1/jobs/{job_id}/forecast").json()  # noqa: E731
    before = forecast()
    assert before == {**dict.fromkeys(before), "level": 0.9}
    api.work(lambda: api.client.get(f"/v1/jobs/{job_id}").json()["progress"]["trials"] >= 60)
    found = forecast()
    assert 0 < found["low"] <= found["expected"] <= found["high"] <= found["current"]
    assert found["low"] < found["current"]
    assert 1 <= found["rounds"] <= 25, "rounds have 16 candidates at least by now, and 300 are left"
    problem(api.client.get("/v1/jobs/nobody/forecast"), 404, "not_found")


def test_a_smaller_budget_ends_a_job_and_a_larger_one_lets_it_go_on(api: Api) -> None:
    api.fleet.register_device()
    job_id = api.client.post("/v1/jobs", json={**GEMM, "budget": {"trials": 400}}).json()["id"]
    state = lambda: api.client.get(f"/v1/jobs/{job_id}").json()  # noqa: E731
    api.work(lambda: state()["progress"]["trials"] >= 20)
    api.client.patch(f"/v1/jobs/{job_id}", json={"budget": {"trials": 60}})
    assert api.client.post(f"/v1/jobs/{job_id}/pause").json()["state"] == "paused"
    with pytest.raises(AssertionError, match="not reached"):
        api.work(lambda: state()["progress"]["trials"] >= 60, looks=10)
    assert state()["progress"]["rounds_in_flight"] == 0, "what was under way when it was paused has ended"
    api.client.patch(f"/v1/jobs/{job_id}", json={"budget": {"trials": 80}, "priority": 5})
    api.client.post(f"/v1/jobs/{job_id}/resume")
    api.work(lambda: state()["state"] == "succeeded")
    assert (state()["progress"]["trials"], state()["stop_reason"], state()["priority"]) == (80, "trials", 5)
