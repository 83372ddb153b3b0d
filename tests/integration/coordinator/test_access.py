"""Every route, called with every scope, as owner and as stranger: the answers are those of the table of access."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import tenants
from api_driver import GEMM, Api, problem
from fake_fleet import Folder
from fastapi.concurrency import run_in_threadpool
from fastapi.routing import APIRoute
from rows import TARGET
from tenants import ADMIN, WORKLOAD, Owned, bearer

from db.models import Round, TargetRow
from db.transactions import events
from services.coordinator.access import RULES, SCOPES, Visibility
from services.coordinator.auth import ADMIN_ID, verify
from services.coordinator.routers import events as event_stream
from tunesmith.events import ChampionAdopted
from tunesmith.signing import Signer

pytestmark = pytest.mark.parallel
Headers = dict[str, str]
ROUTES = sorted(RULES, key=lambda key: (key[0] != "GET", key[1]))


@dataclass(frozen=True)
class Call:
    """How a route is called. ``status``: what a permitted owner is answered."""

    status: int = 200
    json: dict[str, Any] | None = None
    path: dict[str, str] | None = None
    query: dict[str, str] | None = None
    files: dict[str, tuple[str, bytes]] | None = None


def example(method: str, path: str, it: Owned) -> Call:
    """A call of the route about what ``it`` owns; every route that changes something has its own."""
    calls = {
        ("POST", "/v1/models"): Call(201, files={"file": ("m.onnx", f"bytes of {it.marks}".encode())}),
        ("DELETE", "/v1/models/{model_id}"): Call(204),
        ("POST", "/v1/jobs"): Call(202, json={**GEMM, "operator": None, "model_id": it.model}),
        ("PATCH", "/v1/jobs/{job_id}"): Call(json={"priority": 3}),
        ("POST", "/v1/jobs/{job_id}/cancel"): Call(),
        ("POST", "/v1/jobs/{job_id}/pause"): Call(),
        ("POST", "/v1/jobs/{job_id}/resume"): Call(),
        ("POST", "/v1/jobs/{job_id}/trials/{trial_id}/program"): Call(202),
        ("POST", "/v1/jobs/{job_id}/tasks/{task_id}/proposals"): Call(
            422, json={"candidates": [{"sketch": "none of it", "knobs": {}}]}
        ),
        ("GET", "/v1/cache/{namespace}"): Call(path={"namespace": "helion"}),
        ("GET", "/v1/cache/{namespace}/{key}"): Call(404, path={"namespace": "helion", "key": "nothing"}),
        ("PUT", "/v1/cache/{namespace}/{key}"): Call(json={"value": "{}"}, path={"namespace": "other", "key": "x"}),
        ("DELETE", "/v1/cache/{namespace}/{key}"): Call(404, path={"namespace": "helion", "key": "nothing"}),
        ("DELETE", "/v1/jobs/{job_id}"): Call(204, path={"job_id": it.finished}),
        ("POST", "/v1/records/export"): Call(json={"family": "matmul"}),
        ("POST", "/v1/records/import"): Call(202, files={"file": ("r.parquet", f"rows of {it.marks}".encode())}),
        ("GET", "/docs/{name}"): Call(path={"name": "swagger-ui.css"}),
        ("POST", "/v1/keys"): Call(201, json={"owner": "somebody", "scopes": ["viewer"]}),
        ("DELETE", "/v1/keys/{key_id}"): Call(404, path={"key_id": "nobody"}),
        ("POST", "/v1/workers"): Call(201, json={"name": "w", "public_key": Signer.fresh().public_key}),
        ("DELETE", "/v1/workers/enrolled/{worker_id}"): Call(404, path={"worker_id": "nobody"}),
        ("POST", "/v1/workloads/{workload}/revoke"): Call(404, path={"workload": "0"}, json={"target": "x"}),
        ("GET", "/v1/blobs/{sha}"): Call(401, path={"sha": "0" * 64}),
        ("GET", "/v1/costmodels"): Call(query={"limit": "200"}),
        ("POST", "/v1/costmodels/train"): Call(202, json={"target": TARGET}),
        ("GET", "/v1/jobs/{job_id}/events"): Call(query={"limit": "200"}),
        ("GET", "/v1/workers/log"): Call(query={"worker": "search-7@host"}),
        ("GET", "/v1/devices/history"): Call(query={"device": "nobody"}),
    }
    if (method, path) in calls:
        return calls[method, path]
    assert method == "GET", f"{method} {path} has no example: add one here"
    return Call()


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory, migrated_sqlite: Path) -> Iterator[Api]:
    folder = tmp_path_factory.mktemp("access")
    url = f"sqlite:///{folder / 'tunesmith.db'}"
    (folder / "tunesmith.db").write_bytes(migrated_sqlite.read_bytes())
    made = Api(Folder(folder, url), admin_key=ADMIN, rate_limit="", wrong_key_limit="")
    made.fleet.register_device()
    yield made
    made.close()


@pytest.fixture(scope="module")
def owner(api: Api) -> dict[str, Headers]:
    return tenants.keys(api, "ann")


@pytest.fixture(scope="module")
def stranger(api: Api) -> dict[str, Headers]:
    return tenants.keys(api, "ben")


@pytest.fixture(scope="module")
def refused(api: Api) -> list[Headers]:
    """No key, and keys that are not valid."""
    basic = {"authorization": f"Basic {ADMIN}"}
    return [{}, bearer("wrong"), bearer("tsm_a_b"), bearer(""), basic, tenants.revoked(api)]


def send(api: Api, method: str, path: str, it: Owned, headers: Headers) -> tuple[Any, int]:
    """The answer, and the status that a permitted owner gets."""
    call = example(method, path, it)
    known = {
        "model_id": it.model,
        "job_id": it.job,
        "key": it.cost_model,
        "import_id": it.record_import,
        "trial_id": str(it.trial),
        "task_id": str(it.task),
        "workload": WORKLOAD,
        **(call.path or {}),
    }
    url = re.sub(r"\{(\w+)\}", lambda part: known[part[1]], path)
    answer = api.client.request(method, url, json=call.json, params=call.query, files=call.files, headers=headers)
    return answer, call.status


def routes_of(router: Any) -> Iterator[tuple[str, str]]:
    """Method and path of every route, those of included routers too."""
    for route in router.routes:
        if hasattr(route, "original_router"):
            yield from routes_of(route.original_router)
        elif hasattr(route, "path"):
            methods = set(route.methods) - {"HEAD", "OPTIONS"}
            assert isinstance(route, APIRoute) or methods == {"GET"}
            yield from ((method, route.path) for method in methods)


def test_every_route_stands_in_the_table(api: Api) -> None:
    assert set(routes_of(api.app)) == set(RULES), "add the route to services/coordinator/access.py"


@pytest.mark.parametrize(("method", "path"), ROUTES, ids=lambda part: str(part))
def test_without_a_valid_key(api: Api, refused: list[Headers], method: str, path: str) -> None:
    it = tenants.seed(api, "ann")
    for headers in refused:
        answer, status = send(api, method, path, it, headers)
        if RULES[method, path].scopes is None and not (path == "/readyz" and is_bearer(headers)):
            assert answer.status_code == status
        else:
            problem(answer, 401, "unauthorized")
        assert leaks(it, answer) == []


def leaks(it: Owned, answer: Any) -> list[str]:
    """What a stranger was told of what ``it`` owns, beyond the ids that the request named itself."""
    request = answer.request
    body = b"" if "multipart" in request.headers.get("content-type", "") else request.content
    named = str(request.url) + body.decode()
    text = answer.text
    for mark in sorted(it.marks, key=len, reverse=True):
        text = text.replace(mark, "") if mark in named else text
    return [mark for mark in it.marks if mark in text]


def is_bearer(headers: Headers) -> bool:
    """True for a request that brings a key, however wrong."""
    return headers.get("authorization", "").startswith("Bearer ") and headers["authorization"] != "Bearer "


@pytest.mark.parametrize(("method", "path"), ROUTES, ids=lambda part: str(part))
def test_scopes_owners_and_strangers(
    api: Api, owner: dict[str, Headers], stranger: dict[str, Headers], method: str, path: str
) -> None:
    rule = RULES[method, path]
    it = tenants.seed(api, "ann")
    for scope in SCOPES:
        permitted = rule.scopes is None or scope in rule.scopes
        for who, keys in (("stranger", stranger), ("owner", owner)):
            answer, status = send(api, method, path, it, keys[scope])
            if not permitted:
                problem(answer, 403, "forbidden")
            elif who == "stranger" and rule.visibility is Visibility.NOT_FOUND and scope != "operator":
                problem(answer, 404, "not_found")
            else:
                assert answer.status_code == status, f"{scope} {who}: {answer.text}"
            if who == "stranger" and scope != "operator":
                assert leaks(it, answer) == []
            elif permitted and rule.visibility is Visibility.OWN_ROWS:
                assert it.model in answer.text or it.job in answer.text
            if method != "GET" and answer.is_success:
                it = tenants.seed(api, "ann")


def test_what_users_share_names_no_owner(api: Api, owner: dict[str, Headers], stranger: dict[str, Headers]) -> None:
    finder = tenants.seed(api, "ann")
    url = f"/v1/workloads/{WORKLOAD}/best"
    seen = {
        who: api.client.get(url, headers=keys["user"]).json()
        for who, keys in (("owner", owner), ("stranger", stranger))
    }
    assert seen["owner"]["job"].startswith("ann-job-")
    assert seen["owner"]["record"] > 0
    assert seen["stranger"]["program"] == seen["owner"]["program"] == "bW9kdWxl"
    assert (seen["stranger"]["job"], seen["stranger"]["record"]) == (None, None)
    assert seen["stranger"]["latency"] == seen["owner"]["latency"]
    assert finder.owner not in str(seen["stranger"])
    records = {
        who: api.client.get("/v1/records", params={"workload": WORKLOAD}, headers=keys["user"]).json()["items"]
        for who, keys in (("owner", owner), ("stranger", stranger))
    }
    assert records["owner"][0]["job"] == finder.job
    assert {row["job"] for row in records["stranger"]} == {None}
    assert [row["id"] for row in records["stranger"]] == [row["id"] for row in records["owner"]]
    mine = tenants.seed(api, "ben")
    log = api.client.get(f"/v1/jobs/{mine.finished}/best", headers=stranger["user"])
    assert "ann" not in log.text
    assert '"trace":[]' in log.text


def test_lists_by_a_strangers_job_are_empty(api: Api, owner: dict[str, Headers], stranger: dict[str, Headers]) -> None:
    it = tenants.seed(api, "ann")
    for keys, number in ((owner, 1), (stranger, 0)):
        for path in ("/v1/costmodels", "/v1/records"):
            found = api.client.get(path, params={"job": it.job}, headers=keys["user"]).json()["items"]
            assert len(found) == number
    # Once the job is deleted, nobody but operators is known to own its cost models.
    orphan = tenants.seed(api, "ann")
    with api.context.sessions.begin() as session:
        session.get_one(tenants.CostModelRow, orphan.cost_model).job_id = None
    problem(api.client.get(f"/v1/costmodels/{orphan.cost_model}", headers=owner["user"]), 404, "not_found")
    assert api.client.get(f"/v1/costmodels/{orphan.cost_model}", headers=owner["operator"]).status_code == 200


def test_a_ranker_is_trained_on_what_a_name_of_one_cpu_stands_for(api: Api, owner: dict[str, Headers]) -> None:
    tenants.seed(api, "ann")
    with api.context.sessions.begin() as session:
        session.add(TargetRow(hash="g" * 64, json={"kind": "cuda"}, device_class="cuda-x"))
        session.add(TargetRow(hash="u" * 64, json={"kind": "llvm", "mcpu": "x"}, device_class="llvm-x-2"))
    for target, status, code in (
        ("none", 404, "not_found"),
        ("g" * 64, 422, "invalid_input"),
        ("llvm-x-2", 422, "invalid_input"),
    ):
        answer = api.client.post("/v1/costmodels/train", json={"target": target}, headers=owner["operator"])
        assert target in problem(answer, status, code)["detail"]
    made = api.client.post("/v1/costmodels/train", json={"target": "u" * 64}, headers=owner["operator"])
    assert made.status_code == 202
    shown = api.client.get(made.headers["location"], headers=owner["operator"]).json()
    assert (shown["kind"], shown["job_id"], shown["target"], shown["state"]) == ("ranker", None, "u" * 64, "queued")


def test_the_same_bytes_of_two_users_are_two_models(
    api: Api, owner: dict[str, Headers], stranger: dict[str, Headers]
) -> None:
    form = {"file": ("m.onnx", b"the same bytes of both")}
    first, second = (api.client.post("/v1/models", files=form, headers=keys["user"]) for keys in (owner, stranger))
    assert (first.status_code, second.status_code) == (201, 201), "the second one must not be told of the first"
    assert first.json()["id"] != second.json()["id"]
    assert api.client.post("/v1/models", files=form, headers=owner["user"]).status_code == 200


def test_an_operators_job_is_not_named_to_the_owner_of_its_model(api: Api, owner: dict[str, Headers]) -> None:
    it = tenants.seed(api, "ann")
    body = {**GEMM, "operator": None, "model_id": it.model}
    job = api.client.post("/v1/jobs", json=body, headers=bearer(ADMIN))
    assert job.status_code == 202, job.text
    refusal = problem(api.client.delete(f"/v1/models/{it.model}", headers=owner["user"]), 409, "conflict")
    assert job.json()["id"] not in str(refusal)
    found_ = problem(api.client.delete(f"/v1/models/{it.model}", headers=bearer(ADMIN)), 409, "conflict")
    assert found_["jobs"] == [job.json()["id"]]


def test_the_last_key_of_an_operator_stays(tmp_path: Path, sqlite_url: str) -> None:
    api = Api(Folder(tmp_path, sqlite_url), admin_key=ADMIN)
    refusal = problem(api.client.delete(f"/v1/keys/{ADMIN_ID}", headers=bearer(ADMIN)), 409, "conflict")
    assert "create a new one first" in refusal["detail"]
    second = api.client.post("/v1/keys", json={"scopes": ["operator"]}, headers=bearer(ADMIN)).json()
    other = bearer(second["key"])
    assert api.client.delete(f"/v1/keys/{ADMIN_ID}", headers=other).status_code == 204
    problem(api.client.delete(f"/v1/keys/{second['id']}", headers=other), 409, "conflict")
    problem(api.client.get("/v1/keys", headers=bearer(ADMIN)), 401, "unauthorized")
    api.close()


def test_a_revoked_admin_key_stays_revoked_after_a_restart(
    tmp_path: Path, sqlite_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    api = Api(Folder(tmp_path, sqlite_url), admin_key=ADMIN)
    second = api.client.post("/v1/keys", json={"scopes": ["operator"]}, headers=bearer(ADMIN)).json()
    assert api.client.delete(f"/v1/keys/{ADMIN_ID}", headers=bearer(second["key"])).status_code == 204
    api.close()
    repeated = Api(Folder(tmp_path, sqlite_url), admin_key=ADMIN)
    problem(repeated.client.get("/v1/keys", headers=bearer(ADMIN)), 401, "unauthorized")
    assert "was revoked and stays so" in caplog.text
    repeated.close()
    renewed = Api(Folder(tmp_path, sqlite_url), admin_key="another-key")
    assert renewed.client.get("/v1/keys", headers=bearer("another-key")).status_code == 200
    assert "is valid again" in caplog.text
    renewed.close()


def test_what_came_from_a_strangers_job_is_not_named(api: Api, stranger: dict[str, Headers]) -> None:
    finder, mine = tenants.seed(api, "ann"), tenants.seed(api, "ben")
    with api.context.sessions.begin() as session:
        events.append(session, ChampionAdopted(1, "t", 1.0, None, 7, finder.job), mine.job)
        events.append(session, ChampionAdopted(1, "t", 1.0, None, 8, mine.finished), mine.job)
        round_ = session.query(Round).filter_by(job_id=mine.job).one()
        round_.cost_model_id = finder.cost_model
    url = f"/v1/jobs/{mine.job}"
    found_ = api.client.get(f"{url}/events", headers=stranger["user"]).json()["items"]
    adopted = [(e["data"]["found_by"], e["data"]["record"]) for e in found_ if e["kind"] == "champion_adopted"]
    assert adopted == [(None, None), (mine.finished, 8)]
    rounds = api.client.get(f"{url}/rounds", headers=stranger["user"]).json()["items"]
    assert [row["cost_model_id"] for row in rounds] == [None]
    rounds = api.client.get(f"{url}/rounds", headers=bearer(ADMIN)).json()["items"]
    assert [row["cost_model_id"] for row in rounds] == [finder.cost_model]


def test_a_stream_ends_with_its_key(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "KEY_SECONDS", 0.0)
    monkeypatch.setattr(event_stream, "POLL_SECONDS", 0.01)
    it = tenants.seed(api, "ann")
    made = api.client.post("/v1/keys", json={"owner": "ann"}, headers=bearer(ADMIN)).json()
    with api.context.reading() as session:
        caller = verify(session, made["key"])

    async def follow() -> list[bytes]:
        pieces = []
        async for piece in event_stream.tail_events(api.context, caller, it.job, 0):
            pieces.append(piece)
            if b"job_running" in piece:
                gone = await run_in_threadpool(api.client.delete, f"/v1/keys/{made['id']}", headers=bearer(ADMIN))
                assert gone.status_code == 204
        return pieces

    pieces = asyncio.run(asyncio.wait_for(follow(), 30))
    assert any(b"job_running" in piece for piece in pieces)
