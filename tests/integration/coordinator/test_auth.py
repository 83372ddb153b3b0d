"""Keys, scopes, owners."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from api_driver import GEMM, Api, problem
from fake_fleet import Folder
from starlette.websockets import WebSocketDisconnect

from db.models import ApiKey, Job
from tunesmith.errors import InvalidInput

pytestmark = pytest.mark.parallel


def test_an_admin_key_is_required_everywhere(tmp_path: Path, sqlite_url: str) -> None:
    api = Api(Folder(tmp_path, sqlite_url), admin_key="first-key", wrong_key_limit="")
    admin = {"authorization": "Bearer first-key"}
    document = api.client.get("/openapi.json").json()
    for path, operations in document["paths"].items():
        if not path.startswith("/v1"):
            continue
        for method in operations:
            url = re.sub(r"\{\w+\}", "x", path)
            for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": "Bearer tsm_a_b"}):
                response = api.client.request(method, url, headers=headers)
                problem(response, 401, "unauthorized")
                assert response.headers["www-authenticate"] == "Bearer"
    for open_path in ("/livez", "/readyz", "/docs", "/openapi.json"):
        assert api.client.get(open_path).status_code == 200
    problem(api.client.get("/metrics"), 401, "unauthorized")
    assert api.client.get("/v1/jobs", headers=admin).status_code == 200
    with api.context.reading() as session:
        assert "first-key" not in {key.sha256 for key in session.query(ApiKey)}
    api.close()


def test_keys_have_scopes_and_owners(tmp_path: Path, sqlite_url: str) -> None:
    api = Api(Folder(tmp_path, sqlite_url), admin_key="first-key")
    admin = {"authorization": "Bearer first-key"}

    def key(owner: str, *scopes: str) -> dict[str, str]:
        made = api.client.post("/v1/keys", json={"owner": owner, "scopes": scopes}, headers=admin)
        assert made.status_code == 201
        return {"authorization": f"Bearer {made.json()['key']}"}

    ann, ben, eye = key("ann", "user"), key("ben", "user"), key("ann", "viewer")
    mine = api.client.post("/v1/jobs", json=GEMM, headers=ann).json()["id"]
    assert api.client.get(f"/v1/jobs/{mine}", headers=eye).json()["owner"] == "ann"
    problem(api.client.get(f"/v1/jobs/{mine}", headers=ben), 404, "not_found")
    problem(api.client.post(f"/v1/jobs/{mine}/cancel", headers=ben), 404, "not_found")
    assert api.client.get("/v1/jobs", headers=ben).json()["items"] == []
    assert len(api.client.get("/v1/jobs", headers=admin).json()["items"]) == 1
    problem(api.client.post("/v1/jobs", json=GEMM, headers=eye), 403, "forbidden")
    problem(api.client.get("/v1/keys", headers=ann), 403, "forbidden")
    problem(api.client.post("/v1/keys", json={}, headers=ann), 403, "forbidden")
    problem(api.client.get("/v1/jobs", headers=key("w", "worker")), 403, "forbidden")
    listed = api.client.get("/v1/keys", headers=admin).json()["items"]
    assert "key" not in listed[0]
    ben_id = next(row["id"] for row in listed if row["owner"] == "ben")
    assert api.client.delete(f"/v1/keys/{ben_id}", headers=admin).status_code == 204
    problem(api.client.get("/v1/jobs", headers=ben), 401, "unauthorized")
    api.close()
    repeated = Api(Folder(tmp_path, sqlite_url), admin_key="second-key")
    problem(repeated.client.get("/v1/jobs", headers=admin), 401, "unauthorized")
    assert repeated.client.get("/v1/jobs", headers={"authorization": "Bearer second-key"}).status_code == 200
    repeated.close()


def test_strangers_learn_of_readiness_only_which_parts_work(tmp_path: Path, sqlite_url: str) -> None:
    api = Api(Folder(tmp_path, sqlite_url), admin_key="first-key")
    admin = {"authorization": "Bearer first-key"}
    api.broker.alive = False
    answer = api.client.get("/readyz")
    assert answer.status_code == 503
    checks = answer.json()["checks"]
    assert {name: check["ok"] for name, check in checks.items()}["broker"] is False
    assert {(check["detail"], check["ms"]) for check in checks.values()} == {("", 0.0)}
    assert answer.json()["version"] == ""
    key = api.client.post("/v1/keys", json={"scopes": ["monitor"]}, headers=admin).json()["key"]
    monitor = {"authorization": f"Bearer {key}"}
    for headers in (admin, monitor):
        assert api.client.get("/readyz", headers=headers).json()["checks"]["broker"]["detail"]
        assert api.client.get("/metrics", headers=headers).status_code == 200
    problem(api.client.get("/v1/jobs", headers=monitor), 403, "forbidden")
    api.close()


def test_a_public_address_without_a_key_is_refused(tmp_path: Path, sqlite_url: str) -> None:
    with pytest.raises(InvalidInput, match="TUNESMITH_ADMIN_KEY"):
        Api(Folder(tmp_path, sqlite_url), host="0.0.0.0")


OWN = {"host": "127.0.0.1:8700"}
FOREIGN = (
    {**OWN, "origin": "https://evil.example"},
    {**OWN, "origin": "http://127.0.0.1:9999"},
    {**OWN, "origin": "null"},
    {"host": "rebound.evil.example:8700"},
    {"host": "rebound.evil.example:8700", "origin": "http://rebound.evil.example:8700"},
    {"host": "[::1"},
)


def test_without_a_key_foreign_pages_are_refused(tmp_path: Path, sqlite_url: str) -> None:
    api = Api(Folder(tmp_path, sqlite_url))
    for headers in FOREIGN:
        problem(api.client.post("/v1/jobs", json=GEMM, headers=headers), 403, "forbidden")
        problem(api.client.post("/v1/models", files={"file": b"x"}, headers=headers), 403, "forbidden")
        problem(api.client.get("/v1/jobs", headers=headers), 403, "forbidden")
        with (
            pytest.raises(WebSocketDisconnect) as closed,
            api.client.websocket_connect("/socket", headers=headers),
        ):
            pass
        assert closed.value.code == 1008
    assert api.count(Job) == 0
    for headers in (
        OWN,
        {**OWN, "origin": "http://127.0.0.1:8700"},
        {"host": "[::1]:8700"},
        {"host": "localhost"},
        {"host": "coordinator:8700"},
        {"host": "tunesmith.localhost:1", "origin": "https://tunesmith.localhost:1"},
    ):
        assert api.client.post("/v1/jobs", json=GEMM, headers=headers).status_code == 202
    api.close()


def test_with_a_key_foreign_pages_are_refused_too(tmp_path: Path, sqlite_url: str) -> None:
    api = Api(Folder(tmp_path, sqlite_url), admin_key="first-key", public_url="https://tune.example/")
    key = {"authorization": "Bearer first-key"}
    inner = {**key, "host": "coordinator:8700"}
    for origin in ("https://app.example", "http://tune.example", "null", "https://tune.example:444"):
        problem(api.client.get("/v1/jobs", headers={**inner, "origin": origin}), 403, "forbidden")
    for headers in (
        inner,
        {**inner, "origin": "https://tune.example"},
        {**inner, "origin": "http://coordinator:8700"},
        {**key, "host": "other.example", "origin": "https://other.example"},
    ):
        assert api.client.get("/v1/jobs", headers=headers).status_code == 200
    api.close()
