from __future__ import annotations

import io
import json
import zipfile

import httpx2
import pytest
from answers import completed, whole

from tunesmith.answers.events import EventBody
from tunesmith.client import Client, exchange
from tunesmith.client.events import parse
from tunesmith.errors import InvalidInput, ModelRejected, NotAModel, NotFound, ServerUnreachable, UnsupportedOperator


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(exchange, "FIRST_PAUSE", 0.0)


def client_of(handler):
    return Client(
        "http://server", "secret", transport=httpx2.MockTransport(lambda request: completed(request, handler(request)))
    )


def job(state="running", **more):
    return {"id": "j1", "state": state, "progress": {"trials": 3, "trials_budget": 9, "seconds": 1.5}, **more}


def test_a_problem_becomes_its_exception():
    problem = NotFound("no job j1", field="job", value="j1").problem()
    client = client_of(lambda request: httpx2.Response(404, json=problem))
    with pytest.raises(NotFound, match="no job j1") as caught:
        client.job("j1")
    assert caught.value.field == "job"


def test_an_error_without_a_problem_keeps_its_status():
    client = client_of(lambda request: httpx2.Response(404, text="<html>"))
    with pytest.raises(NotFound, match="404"):
        client.job("j1")


def test_get_survives_connection_errors_and_post_is_not_repeated():
    calls = []

    def handler(request):
        calls.append(request.method)
        if len(calls) < 3 or request.method == "POST":
            raise httpx2.ConnectError("refused")
        return httpx2.Response(200, json=job())

    client = client_of(handler)
    assert client.job("j1").progress.trials == 3
    assert calls == ["GET"] * 3
    with pytest.raises(ServerUnreachable, match="http://server"):
        client.cancel("j1")
    assert calls.count("POST") == 1


def test_submit_repeats_under_one_idempotency_key():
    keys, bodies = [], []

    def handler(request):
        keys.append(request.headers["idempotency-key"])
        bodies.append(json.loads(request.content))
        if len(keys) == 1:
            raise httpx2.ReadError("lost")
        return httpx2.Response(202, json=job("queued"))

    submitted = client_of(handler).submit(target="cpu", operator="gemm:8x8x8:float32", trials=4, search=None, seed=0)
    assert submitted.id == "j1"
    assert len(set(keys)) == 1
    assert bodies[1] == {
        "operator": "gemm:8x8x8:float32",
        "target": "cpu",
        "budget": {"trials": 4, "stop_when_converged": False},
        "seed": 0,
    }


def test_the_key_is_sent():
    seen = []
    client = client_of(
        lambda request: seen.append(request.headers["authorization"]) or httpx2.Response(200, json=job())
    )
    client.job("j1")
    assert seen == ["Bearer secret"]


def test_upload_streams_the_file(tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(b"x" * 100_000)

    def handler(request):
        body = b"".join(request.stream)
        assert b'filename="m.onnx"' in body
        assert b'{"x": [1, 3]}' in body
        assert body.count(b"x" * 100_000) == 1
        return httpx2.Response(201, json={"id": "m1", "state": "importing"})

    assert client_of(handler).upload_model(path, inputs={"x": (1, 3)}).id == "m1"


def test_upload_of_a_missing_file_is_refused(tmp_path):
    with pytest.raises(NotAModel, match="cannot read"):
        client_of(lambda request: httpx2.Response(500)).upload_model(tmp_path / "none.onnx")


def test_wait_model_raises_why_it_was_rejected():
    error = UnsupportedOperator("Foo is used 3 times", operators={"Foo": 3}).problem()
    client = client_of(lambda request: httpx2.Response(200, json={"id": "m", "state": "rejected", "error": error}))
    with pytest.raises(UnsupportedOperator, match="Foo") as caught:
        client.wait_model("m")
    assert isinstance(caught.value, ModelRejected)
    assert caught.value.extra == {"operators": {"Foo": 3}}


def test_lists_are_read_page_by_page():
    def handler(request):
        cursor = request.url.params.get("cursor")
        items = [{"id": 1, "name": "a", "weight": 1}] if cursor is None else [{"id": 2, "name": "b", "weight": 2}]
        return httpx2.Response(200, json={"items": items, "next_cursor": "c" if cursor is None else None})

    assert [task.name for task in client_of(handler).tasks("j1")] == ["a", "b"]


def test_update_with_nothing_is_refused():
    with pytest.raises(InvalidInput, match="nothing to set"):
        client_of(lambda request: httpx2.Response(500)).update("j1")


def test_server_sent_events_are_parsed():
    lines = ["id: 4", "event: new_best", 'data: {"a":', "data: 1}", "", ": ping", "", "id:5", "data:x", "", "data: cut"]
    assert list(parse(lines)) == [("4", "new_best", '{"a":\n1}'), ("5", "message", "x")]


def event(number, data):
    return json.dumps(whole(EventBody, {"id": number, "kind": "round", "data": data}))


def stream(*events):
    text = "".join(f"id: {number}\nevent: round\ndata: {event(number, data)}\n\n" for number, data in events)
    return httpx2.Response(200, headers={"content-type": "text/event-stream"}, text=text)


def test_follow_resumes_a_broken_stream_and_ends_with_the_job():
    asked = []

    def handler(request):
        if not request.url.path.endswith("/events"):
            return httpx2.Response(200, json=job("succeeded" if len(asked) > 1 else "running"))
        if "text/event-stream" in request.headers["accept"]:
            asked.append(request.headers["last-event-id"])
            return stream((1, {}), (2, {})) if len(asked) == 1 else stream((4, {"state": "succeeded"}))
        after = int(request.url.params["after"])
        items = [{"id": 3, "kind": "round", "data": {}}] if after == 2 else []
        return httpx2.Response(200, json={"items": items, "next_cursor": None})

    assert [event.id for event in client_of(handler).follow("j1")] == [1, 2, 3, 4]
    assert asked == ["0", "3"]


def test_follow_polls_where_streams_do_not_get_through():
    polls = []

    def handler(request):
        if not request.url.path.endswith("/events"):
            return httpx2.Response(200, json=job("succeeded"))
        polls.append(request.url.params.get("after"))
        after = int(polls[-1] or 0)
        items = [{"id": 1, "kind": "job_state", "data": {"state": "succeeded"}}] if after == 0 else []
        return httpx2.Response(200, json={"items": items, "next_cursor": None})

    assert [event.id for event in client_of(handler).follow("j1")] == [1]


def test_metaschedule_is_unpacked_and_no_archive_stays(tmp_path):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("compile.py", "print()")

    def handler(request):
        assert request.url.params["format"] == "metaschedule"
        return httpx2.Response(200, content=packed.getvalue())

    folder = client_of(handler).download_metaschedule("j1", tmp_path / "ms")
    assert [path.name for path in folder.iterdir()] == ["compile.py"]


def test_a_refused_download_leaves_no_folder(tmp_path):
    client = client_of(lambda request: httpx2.Response(404, json=NotFound("there is no job j1").problem()))
    with pytest.raises(NotFound):
        client.download_metaschedule("j1", tmp_path / "ms")
    assert list(tmp_path.iterdir()) == []


def test_trials_and_rounds_come_page_by_page():
    seen = []

    def handler(request):
        seen.append((request.url.path, dict(request.url.params)))
        first = "cursor" not in request.url.params
        return httpx2.Response(200, json={"items": [{"id": 1 if first else 2}], "next_cursor": "c" if first else None})

    client = client_of(handler)
    trials = client.trials("j1")
    assert seen == []
    assert [trial["id"] for trial in trials] == [1, 2]
    assert [round_["id"] for round_ in client.rounds("j1")] == [1, 2]
    assert seen[:2] == [
        ("/v1/jobs/j1/trials", {"limit": "200"}),
        ("/v1/jobs/j1/trials", {"limit": "200", "cursor": "c"}),
    ]


def test_fields_of_a_newer_server_are_ignored():
    answer = job(budget={"trials": 9, "seconds": None, "stop_when_converged": False, "joules": 4}, colour="blue")
    found = client_of(lambda request: httpx2.Response(200, json=answer)).job("j1")
    assert found.budget.trials == 9
    assert {"budget", "colour"} & found.model_dump().keys() == {"budget"}
    assert "joules" not in found.model_dump()["budget"]
