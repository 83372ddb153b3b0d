"""What clients may rely on to the letter: members of the log, forms of operators, and refusals of odd parameters."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from api_driver import GEMM, Api, problem
from fake_fleet import Folder
from sqlalchemy.orm import Session

from db.engine import transact
from db.models import Job, JobTask, Record, Schedule
from services.coordinator.auth import ANYBODY
from services.coordinator.limits import MAX_BODY_BYTES
from services.coordinator.routers import events as event_stream
from tunesmith.messages import ReferenceTiming

pytestmark = pytest.mark.parallel


def log(api: Api, job_id: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in api.client.get(f"/v1/jobs/{job_id}/best").text.splitlines()]


def test_a_line_of_the_log_has_the_documented_members(api: Api) -> None:
    job_id = api.finished_job()
    line = log(api, job_id)[0]
    assert list(line) == [
        "schema",
        "task",
        "weight",
        "workload",
        "target",
        "trace",
        "latency",
        "estimated_latency",
        "untuned_latency",
        "verified",
        "model_verified",
        "model_check",
        "model_float32",
        "provenance",
    ]
    assert set(line["workload"]) == {"hash", "module", "args", "flops"}
    assert all(isinstance(dtype, str) and isinstance(shape, list) for dtype, shape in line["workload"]["args"])
    assert type(line["workload"]["flops"]) is int
    assert set(line["latency"]) == {"median", "samples", "cv", "interval"}
    assert set(line["untuned_latency"]) == {"median"}
    assert line["verified"] == {
        "error": 1e-7,
        "tolerance": 1e-4,
        "definition": "max|a-b| / max|b|",
        "reference": "default schedule, same inputs",
    }
    assert set(line["model_verified"]) == {"error", "definition", "reference"}
    assert line["model_check"] == "agree"
    assert set(line["provenance"]) == {
        "job",
        "searcher",
        "space",
        "trials",
        "seed",
        "preparation",
        "notes",
        "tvm",
        "device",
        "cache",
        "simulated",
        "source",
        "confidence",
        "relative",
        "measured_at",
    }


def test_the_reference_is_the_fastest_runtime_that_ran(api: Api) -> None:
    assert api.client.get(f"/v1/jobs/{api.finished_job()}").json()["reference"] is None
    ran = ReferenceTiming(runtime="openvino", version="2025.4.0", samples=[0.08] * 9)
    api.fleet.references = [
        ReferenceTiming(runtime="onnxruntime", version="1.31.1", failure="it cannot run the model: no kernel"),
        ReferenceTiming(runtime="torch", version="2.13.0", samples=[0.2] * 9),
        ran,
    ]
    job_id = api.finished_job()
    job = api.client.get(f"/v1/jobs/{job_id}").json()
    reference = job["reference"]
    assert (reference["runtime"], reference["version"], reference["precision"]) == ("openvino", "2025.4.0", "model")
    assert (reference["seconds"], reference["ratio"]) == (0.08, pytest.approx(0.1 / 0.08))
    assert reference["interval"][0] < reference["ratio"] < reference["interval"][1]
    assert reference["verdict"] == "slower"
    assert [each["runtime"] for each in job["references"]] == ["openvino", "torch", "onnxruntime"]
    assert job["references"][1]["verdict"] == "faster"
    assert (job["references"][2]["seconds"], job["references"][2]["failure"]) == (None, api.fleet.references[0].failure)
    assert job["reference_missing"] is None
    assert {(each["error"], each["rms"], each["tolerance"]) for each in job["references"]} == {(None, None, None)}
    passes = api.client.get(f"/v1/jobs/{job_id}/forecast").json()["passes_reference_in"]
    assert passes is None or passes > 0
    api.fleet.references = []
    job = api.client.get(f"/v1/jobs/{api.finished_job()}").json()
    assert (job["reference"], job["references"]) == (None, [])
    assert job["reference_missing"] == "an operator has no file that another runtime reads"


def test_outputs_of_a_narrow_precision_are_told_against_float32s(api: Api) -> None:
    apart, api.fleet.note = {"error": 4e-3, "rms": 3e-3}, "maps in blocks do not fit the model"
    api.fleet.references = [ReferenceTiming(runtime="onnxruntime", version="1.31.1", samples=[0.2] * 9, **apart)]
    job_id = api.finished_job()
    job = api.client.get(f"/v1/jobs/{job_id}").json()
    told = {"runtime": "onnxruntime", "version": "1.31.1", **apart, "tolerance": 0.01}
    assert {name: job["reference"][name] for name in told} == told
    line = json.loads(api.client.get(f"/v1/jobs/{job_id}/best").text.splitlines()[0])
    assert line["model_float32"] == told
    assert line["provenance"]["notes"] == job["notes"] == [api.fleet.note]
    assert api.client.get(f"/v1/models/{job['model_id']}").json()["note"] == api.fleet.note
    events = api.client.get(f"/v1/jobs/{job_id}/events").json()["items"]
    assert [event["data"].get("note") for event in events if event["kind"] == "job_running"] == [api.fleet.note]


def test_a_model_of_which_no_schedule_changed_is_not_faster(api: Api) -> None:
    api.fleet.applied = 0
    latency = api.client.get(f"/v1/jobs/{api.finished_job()}").json()["latency"]
    assert (latency["verdict"], latency["schedules"]) == ("no_difference", 0)
    assert latency["untuned"] == latency["current"] == 0.2, "one program, one latency"
    assert (latency["speedup"], latency["interval"]) == (1.0, None)


def test_a_check_of_outputs_without_a_signal_verifies_nothing(api: Api) -> None:
    api.fleet.evaluation_signal = 1e-8
    job_id = api.finished_job()
    job = api.client.get(f"/v1/jobs/{job_id}").json()
    assert job["check"] == {"state": "nothing_checked", "error": 1e-6, "tolerance": None, "signal": 1e-8}
    assert (job["latency"]["source"], job["latency"]["output_error"]) == ("measured", None)
    lines = log(api, job_id)
    assert [(line["model_verified"], line["model_check"]) for line in lines] == [(None, "nothing_checked")] * len(lines)
    assert all(line["verified"] is None or "default schedule" in line["verified"]["reference"] for line in lines)


def test_a_task_without_a_better_schedule_says_so(api: Api) -> None:
    job_id = api.finished_job()
    name = log(api, job_id)[1]["workload"]["hash"]
    transact(api.context.sessions, lambda s: s.delete(s.query(Schedule).filter_by(workload_hash=name).one()))
    lines = log(api, job_id)
    assert [line["trace"] is None for line in lines] == [False, True, False]
    assert lines[1]["latency"]["median"] == lines[1]["untuned_latency"]["median"] == 0.1
    assert lines[1]["provenance"]["searcher"] is None


def confirm_nobody(api: Api) -> None:
    """Make the records look as they did before there were confirmations."""
    transact(api.context.sessions, lambda session: session.query(Record).update({"confirmation": None}))


def test_what_was_never_confirmed_shows_the_check_of_the_model(api: Api) -> None:
    job_id = api.finished_job()
    samples = [line["latency"]["samples"] for line in log(api, job_id)]
    confirm_nobody(api)
    lines = log(api, job_id)
    assert all(line["verified"] == line["model_verified"] is not None for line in lines)
    assert [len(line["latency"]["samples"]) for line in lines] == [2, 2, 2] != [len(values) for values in samples]
    assert [task["verified"] for task in api.client.get(f"/v1/jobs/{job_id}/tasks").json()["items"]] == [None] * 3
    assert api.client.get(f"/v1/jobs/{job_id}/trials").json()["items"][1]["confirmation"] is None


def test_tasks_and_trials_show_how_the_best_was_confirmed(api: Api) -> None:
    job_id = api.finished_job()
    for task in api.client.get(f"/v1/jobs/{job_id}/tasks").json()["items"]:
        assert (task["verified"]["error"], task["verified"]["tolerance"]) == (1e-7, 1e-4)
    trials = api.client.get(f"/v1/jobs/{job_id}/trials", params={"limit": 200}).json()["items"]
    won = [trial for trial in trials if trial["confirmation"]]
    assert 0 < len(won) < len(trials)
    assert all(trial["confirmation"]["won"] and trial["confirmation"]["samples"] for trial in won)
    assert {(t["stopped"], t["duplicate"], t["device_seconds"]) for t in trials} == {(None, False, 0.0)}


def test_a_champion_slower_than_the_default_schedule_is_not_shown_as_verified(api: Api) -> None:
    job_id = api.finished_job()
    transact(api.context.sessions, lambda session: session.query(JobTask).update({"untuned_seconds": 1e-9}))
    tasks = api.client.get(f"/v1/jobs/{job_id}/tasks").json()["items"]
    assert [(task["best_latency"], task["verified"]) for task in tasks] == [(1e-9, None)] * 3


def test_what_another_job_found_after_the_check_is_not_called_verified(api: Api) -> None:
    job_id = api.finished_job()
    later = dt.datetime.now(dt.timezone.utc) + dt.timedelta(hours=1)

    def found_by_another(session: Session) -> None:
        champion = session.query(Schedule).order_by(Schedule.workload_hash).first()
        assert champion is not None
        champion.updated_at = later

    transact(api.context.sessions, found_by_another)
    assert all(line["model_verified"] for line in log(api, job_id))  # still this job's own: the check came after it

    def another(session: Session) -> None:
        found_by_another(session)
        champion = session.query(Schedule).order_by(Schedule.workload_hash).first()
        assert champion is not None
        session.get_one(Record, champion.record_id).job_id = other

    other = api.client.post("/v1/jobs", json=GEMM).json()["id"]
    transact(api.context.sessions, another)
    lines = log(api, job_id)
    assert [line["model_verified"] is None for line in lines] == [line["provenance"]["job"] == other for line in lines]
    assert sum(line["model_verified"] is None for line in lines) == 1
    assert all(line["verified"] for line in lines)  # each by its own confirmation, whoever found it
    confirm_nobody(api)
    assert sum(line["verified"] is None for line in log(api, job_id)) == 1


@pytest.mark.parametrize("value", ["a", 10**30, 1e300, "WzFd", "", "1~", "~x", "1~x~y", "-1", "1 ", "\u0661"])
def test_cursors_of_other_making_are_refused(api: Api, value: Any) -> None:
    job = api.client.post("/v1/jobs", json=GEMM).json()
    for path in (
        f"/v1/jobs/{job['id']}/trials",
        f"/v1/jobs/{job['id']}/rounds",
        f"/v1/jobs/{job['id']}/decisions",
        f"/v1/models/{job['model_id']}/tasks",
        "/v1/jobs",
        "/v1/jobs?sort=priority",
        "/v1/models",
        "/v1/costmodels",
    ):
        path, _, query = path.partition("?")
        params = {**dict([query.split("=")] if query else []), "cursor": str(value)}
        body = problem(api.client.get(path, params=params), 422, "invalid_input")
        assert body["errors"][0]["field"] == "cursor"


def test_numbers_beyond_the_database_are_refused_or_harmless(api: Api) -> None:
    path = f"/v1/jobs/{api.client.post('/v1/jobs', json=GEMM).json()['id']}"
    problem(api.client.get(f"{path}/trials", params={"task": 10**30}), 422, "invalid_input")
    for given in ("9" * 5000, "9" * 19, "x"):
        assert api.client.get(f"{path}/events", headers={"Last-Event-ID": given}).status_code == 200


def test_large_bodies_are_refused_announced_or_not(api: Api) -> None:
    body = json.dumps({**GEMM, "name": "x" * MAX_BODY_BYTES}).encode()
    headers = {"content-type": "application/json"}

    def pieces() -> Iterator[bytes]:
        yield from (body[at : at + 65536] for at in range(0, len(body), 65536))

    problem(api.client.post("/v1/jobs", content=body, headers=headers), 413, "payload_too_large")
    problem(api.client.post("/v1/jobs", content=pieces(), headers=headers), 413, "payload_too_large")
    assert api.count(Job) == 0


@pytest.mark.parametrize(
    "operator",
    [
        "gemm:1024x1024x1024:float32",
        "bmm:12x128x128x64:float32",
        "conv2d:1x64x56x56,64x64x3x3,s1,p1:float32",
        "depthwise:1x128x28x28,k3,s1,p1:float32",
        "dense:128x768x768:float32",
        "softmax:12x128x128:float32",
        "layernorm:128x768:float32",
    ],
)
def test_every_form_of_operator_is_accepted(api: Api, operator: str) -> None:
    response = api.client.post("/v1/jobs", json={**GEMM, "operator": operator})
    assert response.status_code == 202
    assert response.headers["location"] == f"/v1/jobs/{response.json()['id']}"
    assert response.json()["name"] == operator


@pytest.mark.both_databases
def test_a_text_that_the_database_cannot_hold_is_no_error_of_ours(tmp_path: Path, database_url: str) -> None:
    api = Api(Folder(tmp_path, database_url))
    for response in (
        api.client.post("/v1/jobs", json={**GEMM, "name": "a\0b"}),
        api.client.get("/v1/jobs/%00"),
        api.client.get("/v1/jobs", params={"target": "a\0b"}),
    ):
        assert response.status_code in (200, 202, 404) or problem(response, 422, "invalid_input")
    api.close()


def test_a_stream_ends_when_its_job_is_deleted(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "POLL_SECONDS", 0.01)
    job_id = api.client.post("/v1/jobs", json=GEMM).json()["id"]

    def delete() -> None:
        with api.context.sessions.begin() as session:
            session.delete(session.get_one(Job, job_id))

    async def follow() -> bytes:
        text = b""
        async for piece in event_stream.tail_events(api.context, ANYBODY, job_id, 0):
            text += piece
            if b"job_queued" in piece:
                await asyncio.to_thread(delete)
        return text

    assert b"job_queued" in asyncio.run(asyncio.wait_for(follow(), 30))
