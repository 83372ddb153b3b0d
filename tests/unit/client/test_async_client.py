from __future__ import annotations

import asyncio
import io
import typing
import zipfile
from contextlib import aclosing

import httpx2
import pytest
from answers import completed, whole

from services.coordinator.requests import JobRequest
from tools import sync_client
from tunesmith.answers.events import EventBody
from tunesmith.client import AsyncClient, Client, JobChoices, exchange
from tunesmith.errors import InvalidInput, NotFound, RateLimited, ServerUnreachable


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(exchange, "FIRST_PAUSE", 0.0)


def run(handler, use):
    """What ``use`` returns with a client whose server is ``handler``."""

    def answer(request):
        return completed(request, handler(request))

    async def main():
        async with AsyncClient("server:1", "secret", transport=httpx2.MockTransport(answer)) as client:
            return await use(client)

    return asyncio.run(main())


def job(state="running", number=1, **more):
    return {"id": f"j{number}", "state": state, "progress": {"trials": 3}, **more}


def test_the_synchronous_client_is_written_from_the_asynchronous_one():
    stale = [
        path.name
        for path in sync_client.modules()
        if (sync_client.TO / path.name).read_text("utf-8") != sync_client.synchronous(path)
    ]
    assert stale == [], "run: python -m tools.sync_client"


def test_both_clients_have_the_same_methods():
    def public(cls):
        return {name.replace("aclose", "close") for name in dir(cls) if not name.startswith("_")}

    assert public(AsyncClient) == public(Client)


def test_what_a_job_can_be_asked_for_is_what_the_server_takes():
    named = {"target", "model_id", "operator", "operators", "budget"}
    assert set(JobChoices.__annotations__) == set(JobRequest.model_fields) - named
    hints = typing.get_type_hints(JobChoices)
    for name, field in JobRequest.model_fields.items():
        if isinstance(field.annotation, type) and field.annotation in (bool, int, float, str):
            assert hints[name] == field.annotation | None, name


def test_problems_are_exceptions_and_get_is_repeated():
    calls = []

    def handler(request):
        calls.append(request.method)
        if len(calls) < 3:
            raise httpx2.ConnectError("refused")
        return httpx2.Response(404, json=NotFound("no job j1", field="job", value="j1").problem())

    with pytest.raises(NotFound, match="no job j1"):
        run(handler, lambda client: client.job("j1"))
    assert calls == ["GET"] * 3

    def refuse(request):
        raise httpx2.ConnectError("refused")

    with pytest.raises(ServerUnreachable, match="http://server:1"):
        run(refuse, lambda client: client.cancel("j1"))


def test_a_request_that_came_too_soon_is_sent_again():
    answers = [httpx2.Response(429, headers={"retry-after": "0"}), httpx2.Response(200, json=job())]
    assert run(lambda request: answers.pop(0), lambda client: client.pause("j1")).id == "j1"
    long = httpx2.Response(429, headers={"retry-after": "3600"})
    with pytest.raises(RateLimited):
        run(lambda request: long, lambda client: client.pause("j1"))


def test_each_goes_through_the_pages():
    seen = []

    def handler(request):
        seen.append(dict(request.url.params))
        number = 2 if "cursor" in request.url.params else 1
        items = [job(number=2 * number - 1), job(number=2 * number)]
        return httpx2.Response(200, json={"items": items, "next_cursor": "c" if number == 1 else None})

    async def ids(client):
        return [found.id async for found in client.each(client.jobs, state="running", limit=2)]

    assert run(handler, ids) == ["j1", "j2", "j3", "j4"]
    assert seen == [{"state": "running", "limit": "2"}, {"state": "running", "limit": "2", "cursor": "c"}]
    mock = httpx2.MockTransport(lambda request: completed(request, handler(request)))
    with Client("http://server", transport=mock) as client:
        found = client.each(client.jobs, limit=2)
        assert next(found).id == "j1"
        assert len(seen) == 3  # the second page was not asked for


def test_requests_of_several_tasks_are_under_way_at_once():
    arrived, all_there = [], asyncio.Event()

    async def handler(request):
        arrived.append(request.url.path)
        if len(arrived) == 3:
            all_there.set()
        await all_there.wait()
        return completed(request, httpx2.Response(200, json=job(number=request.url.path[-1])))

    async def main():
        async with AsyncClient("http://server", transport=httpx2.MockTransport(handler)) as client:
            return await asyncio.gather(*(client.job(f"j{number}") for number in (1, 2, 3)))

    assert [found.id for found in asyncio.run(main())] == ["j1", "j2", "j3"]


def line(number):
    event = EventBody.model_validate(whole(EventBody, {"id": number, "kind": "round", "data": {}}))
    return f"id: {number}\nevent: round\ndata: {event.model_dump_json()}\n\n"


def test_events_come_as_they_happen_and_a_reader_may_stop():
    streams = [f"{line(1)}{line(2)}", line(3)]

    def handler(request):
        if not request.url.path.endswith("/events"):
            return httpx2.Response(200, json=job("running" if streams else "succeeded"))
        if "text/event-stream" in request.headers["accept"]:
            return httpx2.Response(200, headers={"content-type": "text/event-stream"}, text=streams.pop(0))
        return httpx2.Response(200, json={"items": [], "next_cursor": None})

    async def first(client):
        async with aclosing(client.follow("j1")) as events:
            async for event in events:
                return event.id

    async def rest(client):
        return [event.id async for event in client.follow("j1", after=2)]

    assert run(handler, first) == 1
    assert run(handler, rest) == [3]


def test_files_go_up_and_come_down(tmp_path):
    path, packed = tmp_path / "m.onnx", io.BytesIO()
    path.write_bytes(b"x" * 100_000)
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("compile.py", "print()")

    async def handler(request):
        if request.method == "POST":
            body = b"".join([piece async for piece in request.stream])
            assert body.count(b"x" * 100_000) == 1
            return completed(request, httpx2.Response(201, json={"id": "m1", "state": "importing"}))
        return httpx2.Response(200, content=packed.getvalue())

    async def main():
        async with AsyncClient("http://server", transport=httpx2.MockTransport(handler)) as client:
            assert (await client.upload_model(path)).id == "m1"
            return await client.download_metaschedule("j1", tmp_path / "ms")

    assert [found.name for found in asyncio.run(main()).iterdir()] == ["compile.py"]
    with pytest.raises(InvalidInput, match="holds no MetaSchedule database"):
        run(handler, lambda client: client.import_records(tmp_path))
