"""The dataset over REST: lists of records and workloads."""

from __future__ import annotations

from typing import Any

import pytest
from api_driver import Api, problem

pytestmark = pytest.mark.parallel


def test_records_and_workloads_of_a_job_are_listed(api: Api) -> None:
    job = api.finished_job()

    def records(**query: Any) -> dict[str, Any]:
        answer = api.client.get("/v1/records", params=query)
        assert answer.status_code == 200, answer.text
        body: dict[str, Any] = answer.json()
        return body

    ids: list[int] = []
    cursor: dict[str, str] = {}
    while True:  # every page of the job's records, newest first
        page = records(job=job, limit=7, **cursor)
        ids += [row["id"] for row in page["items"]]
        if page["next_cursor"] is None:
            break
        cursor = {"cursor": page["next_cursor"]}
    trials = api.client.get(f"/v1/jobs/{job}/trials", params={"limit": 200}).json()["items"]
    assert ids == [row["id"] for row in reversed(trials)]
    row = page["items"][0]
    assert (row["job"], row["precision"]) == (job, "float32")
    workload = row["workload"]
    mine = [each for each in trials if each["workload"] == workload]
    ranked = records(workload=workload, sort="latency", failure="none", limit=200)["items"]
    latencies = [each["latency"] for each in ranked]
    assert latencies == sorted(latencies)
    assert len(latencies) == len([each for each in mine if each["failure"] is None])
    failed = records(workload=workload, target=row["device_class"], failure="any", family=row["family"])["items"]
    assert len(latencies) + len(failed) == len(mine)
    shown = api.client.get(f"/v1/workloads/{workload}").json()
    assert (shown["records"], shown["failures"]) == (len(mine), len(failed))
    assert [(each["target"], each["latency"]) for each in shown["best"]] == [(row["target"], latencies[0])]
    assert [each["hash"] for each in api.client.get("/v1/workloads", params={"q": workload}).json()["items"]] == [
        workload
    ]
    problem(api.client.get("/v1/workloads/0"), 404, "not_found")
    for query in ({"sort": "latency"}, {"failure": "sometimes"}, {"familly": "conv2d"}, {"cursor": "x"}):
        problem(api.client.get("/v1/records", params=query), 422, "invalid_input")
