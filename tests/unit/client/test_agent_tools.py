"""The tools for agents, as a client of the Model Context Protocol finds them."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx2
import pytest
from answers import completed, whole
from mcp import Client, StdioServerParameters

from tunesmith.agent_tools import server_of
from tunesmith.answers.proposals import ProposalBody
from tunesmith.answers.spaces import SpaceBody
from tunesmith.cli import agents
from tunesmith.client import AsyncClient
from tunesmith.errors import KnobOutOfRange, MissingDependency

TASK = {"job": "j1", "task": 7}
GIVEN = {"sketch": "a", "knobs": {"unroll": 2}}


def asked(tool: str, seen: list[Any], **arguments: Any) -> Any:
    """What a tool answers, of a coordinator whose requests are seen."""

    def handler(request: httpx2.Request) -> httpx2.Response:
        seen.append((request.method, str(request.url.raw_path.decode()), request.content))
        path = request.url.path
        if request.method == "POST" and b"unroll" in request.content:
            body = json.loads(request.content)
            if body["candidates"][0]["knobs"]["unroll"] != 2:
                problem = KnobOutOfRange("knob 'unroll' is the place of one of 4 choices, 0 to 3", field="candidates.0")
                return httpx2.Response(422, json=problem.problem())
            item = whole(ProposalBody, {"id": 4, "state": "waiting", "author": body["author"], "source": "agent"})
            return httpx2.Response(202, json={"items": [item], "next_cursor": None})
        if path.endswith("/proposals"):
            items = [whole(ProposalBody, {"id": i, "state": "measured", "latency": i / 1e3}) for i in (3, 4)]
            return httpx2.Response(200, json={"items": items, "next_cursor": None})
        if path.endswith("/space"):
            return httpx2.Response(200, json=whole(SpaceBody, {"task": 7}))
        return completed(request, httpx2.Response(200, json={"items": [{"id": "j1", "name": "net"}]}))

    async def main() -> Any:
        async with AsyncClient("http://server", transport=httpx2.MockTransport(handler)) as client:
            async with Client(server_of(client, "an agent")) as agent:
                return await agent.call_tool(tool, arguments)

    return asyncio.run(main())


def told(answer: Any) -> Any:
    """The JSON of an answer that is no error."""
    assert not answer.is_error, answer.content[0].text
    return json.loads(answer.content[0].text)


def test_an_agent_reads_proposes_and_reads_again() -> None:
    seen: list[Any] = []
    assert told(asked("task_space", seen, **TASK))["task"] == 7
    (verdict,) = told(asked("propose", seen, **TASK, candidates=[GIVEN]))["items"]
    assert (verdict["id"], verdict["state"], verdict["author"]) == (4, "waiting", "an agent")
    assert told(asked("read_proposals", seen, **TASK, ids=[4], wait=5))["items"][0]["latency"] == 0.004
    assert [each[1] for each in seen][:2] == ["/v1/jobs/j1/tasks/7/space", "/v1/jobs/j1/tasks/7/proposals"]
    assert json.loads(seen[1][2])["source"] == "agent"


def test_what_is_refused_is_told_in_words() -> None:
    refused = asked("propose", [], **TASK, candidates=[{**GIVEN, "knobs": {"unroll": 9}}])
    assert refused.is_error
    assert "knob_out_of_range: knob 'unroll' is the place of one of 4 choices" in refused.content[0].text
    sent: list[Any] = []
    for arguments in ({"candidates": []}, {"candidates": [GIVEN] * 65}, {"candidates": [{"knobs": {}}]}):
        assert asked("propose", sent, **TASK, **arguments).is_error
    assert asked("list_jobs", sent, limit=1000).is_error
    assert sent == []


class Coordinator(BaseHTTPRequestHandler):
    """Lists one job."""

    def do_GET(self) -> None:
        answer = completed(
            httpx2.Request("GET", f"http://server{self.path}"),
            httpx2.Response(200, json={"items": [{"id": "j1", "name": "net", "state": "running"}]}),
        )
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(answer.content)))
        self.end_headers()
        self.wfile.write(answer.content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def coordinator() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Coordinator) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_the_command_serves_on_standard_input_and_output(coordinator: str) -> None:
    command = StdioServerParameters(
        command=sys.executable, args=["-m", "tunesmith.cli", "mcp", "--server", coordinator]
    )

    async def main() -> Any:
        async with Client(command, read_timeout_seconds=60) as agent:
            tools = (await agent.list_tools()).tools
            return {each.name: each for each in tools}, told(await agent.call_tool("list_jobs", {}))

    tools, jobs = asyncio.run(main())
    assert [(each["id"], each["name"], each["state"]) for each in jobs["items"]] == [("j1", "net", "running")]
    assert {"list_jobs", "task_space", "propose", "read_proposals"} < set(tools)
    assert [name for name, tool in tools.items() if not tool.annotations.read_only_hint] == ["propose"]
    assert all(tool.description for tool in tools.values())


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agents, "here", lambda name: False)
    with pytest.raises(MissingDependency, match=r"\[mcp\]"):
        agents.mcp()
