"""The REST API on each kind of database, driven over ASGI with a fake fleet behind it."""

from __future__ import annotations

import functools
import io
import json
import re
import zipfile
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from api_driver import GEMM, Api, problem
from fake_fleet import TARGET, Folder

from db.engine import create_engine, session_factory
from db.models import Job, Model, Schedule, WorkloadRow
from services.coordinator.broker import Node
from tunesmith.core_workers import CoreReport
from tunesmith.states import JobState

pytestmark = pytest.mark.parallel


def test_everything_about_a_finished_job(both: Api) -> None:
    job_id = both.finished_job(name="first")
    get = both.client.get
    job = get(f"/v1/jobs/{job_id}").json()
    assert job["name"] == "first"
    assert job["progress"]["trials"] == 40
    assert job["progress"]["eta_seconds"] == 0
    latency = job["latency"]
    low, high = latency.pop("interval")
    assert low < latency["speedup"] < high
    assert latency == {
        "untuned": 0.3,
        "current": 0.1,
        "speedup": pytest.approx(3),
        "source": "measured",
        "output_error": 1e-6,
        "output_tolerance": None,
        "verdict": "faster",
        "schedules": latency["schedules"],
        "estimate": latency["estimate"],
        "tasks_rough": 0,
    }
    assert latency["schedules"] > 0
    assert latency["estimate"] > 0
    tasks = get(f"/v1/jobs/{job_id}/tasks").json()["items"]
    assert sum(task["trials"] for task in tasks) == 40
    assert sum(task["budget_share"] for task in tasks) == pytest.approx(1)
    assert sum(task["share"] for task in tasks) == pytest.approx(1)
    assert all(task["best_latency"] <= task["untuned_latency"] == 0.1 and task["gflops"] > 0 for task in tasks)
    assert all(task["best_interval"][0] <= task["best_latency"] <= task["best_interval"][1] for task in tasks)
    families = get(f"/v1/jobs/{job_id}/families").json()["items"]
    assert [family["tasks"] for family in families] == [3]
    curve = get(f"/v1/jobs/{job_id}/curve").json()
    assert curve["untuned"] == pytest.approx(0.1 * (1 + 2 + 3))
    assert curve["points"][-1]["trials"] == 40
    rounds = get(f"/v1/jobs/{job_id}/rounds").json()["items"]
    assert [row["number"] for row in rounds] == list(range(1, len(rounds) + 1))
    decisions = get(f"/v1/jobs/{job_id}/decisions").json()["items"]
    assert all(row["reason"] for row in decisions)
    assert all(row["saved"] is None or row["saved"] >= 0 for row in decisions)
    assert any(row["expected"] is not None for row in decisions)
    newest = get(f"/v1/jobs/{job_id}/decisions", params={"sort": "-number", "limit": 2}).json()
    assert [row["round"] for row in newest["items"]] == [len(rounds), len(rounds) - 1]
    older = get(f"/v1/jobs/{job_id}/decisions", params={"sort": "-number", "cursor": newest["next_cursor"]}).json()
    assert older["items"] == decisions[-3::-1]
    forecast = get(f"/v1/jobs/{job_id}/forecast").json()
    assert (forecast["seconds"], forecast["rounds"]) == (0.0, 0)
    ends = [forecast[name] for name in ("low", "expected", "high", "current")]
    assert ends == pytest.approx([curve["points"][-1]["latency"]] * 4)
    assert get("/v1/targets").json()["items"][0]["json"] == TARGET.to_json()
    assert get("/v1/devices").json()["items"][0]["alive"] is True
    report = CoreReport(name="search@h", version="0.1.0", host="h", queues=("search",), processes=(7, 8))
    both.broker.workers = [Node(report, 2.0), Node(report.model_copy(update={"name": "train@h"}), 16.0)]
    measuring, core = get("/v1/workers").json()["items"]
    assert (measuring["roles"], measuring["queues"]) == (["measure"], [f"measure.{TARGET.device_class}"])
    assert (core["roles"], core["queues"], core["version"], core["holds"]) == (["core"], ["search"], "0.1.0", 0)
    assert core["seen_at"] is not None
    assert get("/v1/devices/history", params={"device": measuring["name"]}).json()["items"] == []
    device = get("/v1/devices").json()["items"][0]["name"]
    assert get("/v1/devices/history", params={"device": device}).json()["total"] >= 1
    assert f"measure.{TARGET.device_class}" in [row["name"] for row in get("/v1/queues").json()["items"]]
    assert 'tunesmith_jobs{state="succeeded"} 1.0' in get("/metrics").text


def test_a_model_has_no_latency_before_each_of_its_tasks_was_measured(api: Api) -> None:
    api.fleet.register_device()
    job_id = api.client.post("/v1/jobs", json={**GEMM, "budget": {"trials": 60}}).json()["id"]
    seen = []

    def look() -> bool:
        job, curve = (api.client.get(f"/v1/jobs/{job_id}{path}").json() for path in ("", "/curve"))
        if job["progress"]["tasks_tunable"]:
            seen.append((job["progress"]["tasks_measured"], job["latency"], curve))
        return job["state"] == "succeeded"

    api.work(look)
    assert {measured for measured, _, _ in seen} >= {0, 3}
    for measured, latency, curve in seen:
        known = [latency["untuned"], latency["current"], latency["speedup"], curve["untuned"]]
        assert all(value is not None for value in known) if measured == 3 else known == [None] * 4
        assert bool(curve["points"]) == (measured == 3)
        assert (curve["tasks"], curve["tasks_measured"]) == (3, measured)
    estimates = [latency["current"] for _, latency, _ in seen if latency["current"] and latency["source"] == "estimate"]
    assert estimates == sorted(estimates, reverse=True)  # nothing is added to the sum later


def test_tasks_without_a_round_count_at_their_rough_latencies(both: Api) -> None:
    both.fleet.register_device()
    both.fleet.rough = 1.5
    job_id = both.client.post("/v1/jobs", json={**GEMM, "budget": {"trials": 60}}).json()["id"]
    seen, state = [], ""
    while state != "succeeded":
        both.loop.step()
        for sent in both.broker.take():
            both.fleet.do(sent.message)
            job, curve, forecast, tasks = (
                both.client.get(f"/v1/jobs/{job_id}{path}").json() for path in ("", "/curve", "/forecast", "/tasks")
            )
            seen, state = seen + ([(job, curve, forecast, tasks["items"])] if curve["points"] else []), job["state"]
    job, curve, forecast, tasks = seen[0]
    assert job["progress"]["tasks_measured"] == 1
    assert job["latency"]["tasks_rough"] == curve["points"][-1]["tasks_rough"] == 2
    assert 0.6 < job["latency"]["untuned"] < 1.5 * 0.6
    assert job["latency"]["untuned"] == pytest.approx(curve["untuned"])
    assert [job["latency"]["current"]] * 2 == pytest.approx([forecast["current"], curve["points"][-1]["latency"]])
    assert sorted(task["rough_latency"] for task in tasks)[:2] == pytest.approx([0.15, 0.15])
    last = next(curve for job, curve, _, _ in reversed(seen) if job["latency"]["source"] == "estimate")
    assert last["untuned"] == pytest.approx(0.6)
    assert (last["points"][0]["tasks_rough"], last["points"][-1]["tasks_rough"]) == (3, 0)


def test_collecting_jobs_label_each_task_and_add_up(both: Api) -> None:
    both.fleet.register_device()
    asked = {"kind": "collect", "operators": ["softmax:8x128", "gemm:64x64x64"]}
    found = []
    for per_task in (10, 12, 12):
        job = both.client.post("/v1/jobs", json={**asked, "per_task": per_task}).json()
        options = ("kind", "search", "allocator", "cost_model", "verify", "warm_start")
        assert [job[name] for name in options] == ["collect", "uniform", "even", "none", False, False]
        assert job["budget"]["trials"] is None
        both.work(functools.partial(lambda key: both.state(key) is JobState.SUCCEEDED, job["id"]))
        found.append(both.client.get(f"/v1/jobs/{job['id']}").json())
    tasks = found[0]["progress"]["tasks_tunable"]
    for job, per_task in zip(found, (10, 12, 12), strict=True):
        assert job["stop_reason"] == "collected"
        assert job["progress"]["labels"] == job["progress"]["labels_wanted"] == tasks * per_task
    assert [job["progress"]["trials"] - job["progress"]["failures"] for job in found] == [10 * tasks, 2 * tasks, 0]
    assert len({job["model_id"] for job in found}) == 1, "a list is a model by its content"
    rounds = both.client.get(f"/v1/jobs/{found[0]['id']}/rounds").json()["items"]
    assert not any(row["baseline"] for row in rounds)


def test_trials_are_paged(both: Api) -> None:
    job_id = both.finished_job()
    seen: list[int] = []
    cursor: str | None = None
    while True:
        params = {"limit": 7, **({"cursor": cursor} if cursor else {})}
        page = both.client.get(f"/v1/jobs/{job_id}/trials", params=params).json()
        seen += [row["id"] for row in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert seen == sorted(set(seen))
    assert len(seen) == 43  # three baselines with them
    failed = both.client.get(f"/v1/jobs/{job_id}/trials", params={"failure": "build_error", "limit": 200}).json()
    fine = both.client.get(f"/v1/jobs/{job_id}/trials", params={"failure": "none", "limit": 200}).json()
    assert failed["total"] + len(fine["items"]) == page["total"] == 43
    assert all(row["failure"] == "build_error" for row in failed["items"])
    assert all(row["interval"] is None for row in failed["items"])
    assert all(row["interval"][0] <= row["latency"] <= row["interval"][1] for row in fine["items"])


def test_jobs_are_paged_filtered_and_sorted(both: Api) -> None:
    made = [both.client.post("/v1/jobs", json={**GEMM, "priority": i % 3}).json()["id"] for i in range(7)]

    def pages(**params: Any) -> list[str]:
        found: list[str] = []
        while True:
            page = both.client.get("/v1/jobs", params={"limit": 3, **params}).json()
            found += [row["id"] for row in page["items"]]
            if page["next_cursor"] is None:
                return found
            params["cursor"] = page["next_cursor"]

    assert pages() == made[::-1]
    assert pages(sort="created_at") == made
    by_priority = pages(sort="-priority")
    assert [made.index(key) % 3 for key in by_priority] == [2, 2, 1, 1, 0, 0, 0]
    assert pages(state="queued") == made[::-1]
    assert pages(state="failed") == []
    assert pages(target="cpu:1") == []
    assert (pages(owner="local"), pages(owner="ann")) == (made[::-1], [])
    assert both.client.get("/v1/jobs?limit=2").json()["total"] == 7
    problem(both.client.get("/v1/jobs?sort=colour"), 422, "invalid_input")
    problem(both.client.get("/v1/jobs?cursor=x"), 422, "invalid_input")
    problem(both.client.get("/v1/jobs?limit=201"), 422, "invalid_input")
    problem(both.client.get("/v1/jobs?state=odd"), 422, "invalid_input")


def test_idempotency(both: Api) -> None:
    headers = {"Idempotency-Key": "one"}
    first = both.client.post("/v1/jobs", json=GEMM, headers=headers)
    repeated = both.client.post("/v1/jobs", json=GEMM, headers=headers)
    assert first.status_code == repeated.status_code == 202
    assert first.json()["id"] == repeated.json()["id"]
    assert repeated.headers["location"] == f"/v1/jobs/{first.json()['id']}"
    other = both.client.post("/v1/jobs", json={**GEMM, "seed": 1}, headers=headers)
    problem(other, 422, "idempotency_mismatch")
    assert both.client.post("/v1/jobs", json=GEMM).json()["id"] != first.json()["id"]
    assert both.count(Job) == 2
    assert both.count(Model) == 1
    problem(both.client.post("/v1/jobs", json=GEMM, headers={"Idempotency-Key": "x" * 201}), 422, "invalid_input")


def test_openapi_lists_problems_and_routes(api: Api) -> None:
    document = api.client.get("/openapi.json").json()
    codes = document["components"]["schemas"]["Problem"]["properties"]["code"]["enum"]
    assert {"invalid_budget", "method_not_allowed", "payload_too_large", "unsupported_operator"} <= set(codes)
    for path, operations in document["paths"].items():
        for operation in operations.values():
            refused = operation["responses"]["422"]["$ref"].rpartition("/")[2]
            assert "application/problem+json" in document["components"]["responses"][refused]["content"], path
    assert {"/v1/models", "/v1/jobs/{job_id}/events", "/v1/blobs/{sha}", "/livez"} <= set(document["paths"])
    page = api.client.get("/docs").text
    files = re.findall(r'(?:src|href)="(/docs/[^"]+)"', page)
    assert {len(api.client.get(file).content) > 1000 for file in files} == {True}
    assert (len(files), re.findall("https?://", page)) == (2, []), "Swagger UI comes from no other host"


def test_deleting_a_finished_job_keeps_its_records(both: Api) -> None:
    job_id = both.finished_job()
    workload = both.client.get(f"/v1/jobs/{job_id}/tasks").json()["items"][0]["workload"]
    assert both.client.delete(f"/v1/jobs/{job_id}").status_code == 204
    best = both.client.get(f"/v1/workloads/{workload}/best", params={"target": TARGET.device_class})
    assert best.json()["job"] is None
    assert best.json()["latency"] < 0.1
    assert best.json()["cache"] == "streamed"  # the first task has weights
    assert (best.json()["source"], best.json()["confidence"], best.json()["relative"]) == ("measured", 1.0, None)
    for name in ("cpu", TARGET.hash):
        assert both.client.get(f"/v1/workloads/{workload}/best", params={"target": name}).json() == best.json()
    for name in ("other", "cuda", "nvidia/nvidia-h100"):
        problem(both.client.get(f"/v1/workloads/{workload}/best", params={"target": name}), 404, "not_found")


def test_where_a_workload_has_no_schedule_its_nearest_relatives_is_told(both: Api) -> None:
    job_id = both.finished_job()
    first, second, *_ = (task["workload"] for task in both.client.get(f"/v1/jobs/{job_id}/tasks").json()["items"])
    with both.context.sessions.begin() as session:
        session.execute(sa.update(WorkloadRow).values(family="of the others"))
        for key, family, flops in ((first, "f", 4e6), (second, "f", 2e6)):
            values = {"family": family, "flops": flops}
            session.execute(sa.update(WorkloadRow).where(WorkloadRow.hash == key).values(**values))
        session.execute(sa.delete(Schedule).where(Schedule.workload_hash == first))
    found = both.client.get(f"/v1/workloads/{first}/best", params={"target": "cpu"}).json()
    relative = both.client.get(f"/v1/workloads/{second}/best", params={"target": "cpu"}).json()
    assert (found["workload"], found["source"], found["relative"]) == (first, "rescaled", second)
    assert found["latency"] == pytest.approx(2 * relative["latency"])
    assert 0 < found["confidence"] < 1
    assert found["trace"] == relative["trace"]
    assert found["program"] is None


def sse(text: str) -> list[dict[str, str]]:
    """Events of a stream as field dictionaries."""
    blocks = [block for block in text.split("\n\n") if "data:" in block]
    return [dict(re.findall(r"^(id|event|data): (.*)$", block, re.M)) for block in blocks]


def test_events_as_pages_and_as_a_stream_that_resumes(both: Api) -> None:
    job_id = both.finished_job()
    path = f"/v1/jobs/{job_id}/events"
    everything: list[dict[str, Any]] = []
    after = 0
    while page := both.client.get(path, params={"after": after, "limit": 9}).json()["items"]:
        everything += page
        after = page[-1]["id"]
    assert [row["id"] for row in everything] == sorted({row["id"] for row in everything})
    newest = both.client.get(path, params={"sort": "-id", "limit": 9}).json()
    further = both.client.get(path, params={"sort": "-id", "limit": 9, "cursor": newest["next_cursor"]}).json()["items"]
    assert [*newest["items"], *further] == everything[:-19:-1]
    stream = {"accept": "text/event-stream"}
    response = both.client.get(path, headers=stream)  # the job is over: the stream ends by itself
    assert response.headers["content-type"].startswith("text/event-stream")
    assert response.headers["x-accel-buffering"] == "no"
    streamed = sse(response.text)
    assert [int(event["id"]) for event in streamed] == [row["id"] for row in everything]
    assert [event["event"] for event in streamed] == [row["kind"] for row in everything]
    assert json.loads(streamed[0]["data"]) == everything[0]
    middle = everything[len(everything) // 2]["id"]
    resumed = sse(both.client.get(path, headers={**stream, "last-event-id": str(middle)}).text)
    assert [int(event["id"]) for event in resumed] == [row["id"] for row in everything if row["id"] > middle]
    problem(both.client.get("/v1/jobs/none/events", headers=stream), 404, "not_found")


def test_a_live_stream_follows_the_job(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.coordinator.routers.events.LIFE_SECONDS", 0.2)
    monkeypatch.setattr("services.coordinator.routers.events.POLL_SECONDS", 0.01)
    monkeypatch.setattr("services.coordinator.routers.events.PING_SECONDS", 0.02)
    job_id = api.client.post("/v1/jobs", json=GEMM).json()["id"]
    text = api.client.get(f"/v1/jobs/{job_id}/events", headers={"accept": "text/event-stream"}).text
    assert [event["event"] for event in sse(text)] == ["job_queued"]
    assert ": ping" in text


def test_the_log_and_the_archive(both: Api) -> None:
    job_id = both.finished_job()
    response = both.client.get(f"/v1/jobs/{job_id}/best")
    assert response.headers["content-type"] == "application/x-ndjson"
    lines = [json.loads(line) for line in response.text.splitlines()]
    assert [line["weight"] for line in lines] == [1, 2, 3]
    for line in lines:
        assert line["schema"] == "tunesmith.schedule/1"
        assert line["trace"] == [[], []]
        assert line["latency"]["median"] < line["untuned_latency"]["median"]
        assert line["latency"]["cv"] == 0
        low, high = line["latency"]["interval"]
        assert low <= line["latency"]["median"] <= high
        assert (line["verified"]["error"], line["model_verified"]["error"]) == (1e-7, 1e-6)
        assert json.loads(line["workload"]["module"])
        assert line["provenance"]["job"] == job_id
        assert line["provenance"]["tvm"] == "0.27.0"
    zipped = both.client.get(f"/v1/jobs/{job_id}/best", params={"format": "metaschedule"})
    assert zipped.headers["content-type"] == "application/zip"
    archive = zipfile.ZipFile(io.BytesIO(zipped.content))
    assert archive.testzip() is None
    assert {
        "database_workload.json",
        "database_tuning_record.json",
        "module.json",
        "params.npz",
        "compile.py",
        "prefetch.py",
        "README.md",
    } <= set(archive.namelist())
    assert archive.read("params.npz") == b"npz"
    assert len(archive.read("database_workload.json").splitlines()) == 3
    problem(both.client.get(f"/v1/jobs/{job_id}/best?format=xml"), 422, "invalid_input")


def test_a_job_without_tasks_has_no_log(api: Api) -> None:
    job_id = api.client.post("/v1/jobs", json=GEMM).json()["id"]
    problem(api.client.get(f"/v1/jobs/{job_id}/best"), 409, "conflict")


def test_blobs_need_a_signature(api: Api) -> None:
    sha = api.context.blobs.put_bytes(b"0123456789")
    path = api.context.urls.sign(sha).removeprefix("http://127.0.0.1:8700")
    assert api.client.get(path).content == b"0123456789"
    part = api.client.get(path, headers={"range": "bytes=2-4"})
    assert (part.status_code, part.content) == (206, b"234")
    problem(api.client.get(path[:-1] + ("0" if path[-1] != "0" else "1")), 401, "unauthorized")
    problem(api.client.get(f"/v1/blobs/{sha}"), 401, "unauthorized")
    gone = api.context.urls.sign("0" * 64).removeprefix("http://127.0.0.1:8700")
    problem(api.client.get(gone), 404, "not_found")


def test_readiness_says_what_is_missing(api: Api) -> None:
    assert api.client.get("/readyz").json()["status"] == "ok"
    api.broker.alive = False
    response = api.client.get("/readyz")
    assert response.status_code == 503
    assert response.json()["checks"]["broker"]["ok"] is False
    assert response.json()["checks"]["database"]["ok"] is True
    assert api.client.get("/livez").status_code == 200
    assert api.client.post("/v1/jobs", json=GEMM).status_code == 202


def test_a_job_page_with_many_trials_is_quick_to_ask_for(api: Api) -> None:
    """No page grows with the number of trials: the curve is down-sampled, lists are paged."""
    job_id = api.finished_job(budget={"trials": 400})
    curve = api.client.get(f"/v1/jobs/{job_id}/curve", params={"points": 10}).json()
    assert len(curve["points"]) == 10
    assert curve["points"][-1]["trials"] == 400
    assert len(api.client.get(f"/v1/jobs/{job_id}/trials").json()["items"]) == 50


def test_the_database_is_migrated_at_start(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'fresh.db'}"
    api = Api(Folder(tmp_path, url))
    engine = create_engine(url)
    with session_factory(engine)() as session:
        assert session.query(Job).count() == 0
    engine.dispose()
    api.close()
