"""What an owner may keep, and the log of who did what."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tenants
from api_driver import GEMM, Api, problem
from fake_fleet import Folder
from tenants import ADMIN, bearer

from db.models import AuditRow, Model
from services.coordinator import audit

pytestmark = pytest.mark.parallel
Headers = dict[str, str]


@pytest.fixture
def keyed(tmp_path: Path, sqlite_url: str) -> Iterator[Api]:
    made = Api(Folder(tmp_path, sqlite_url), admin_key=ADMIN, max_models=2, max_stored_bytes=100)
    yield made
    made.close()


def upload(api: Api, content: bytes, headers: Headers) -> Any:
    return api.client.post("/v1/models", files={"file": ("m.onnx", content)}, headers=headers)


def blobs(api: Api) -> list[Path]:
    return [path for path in api.context.blobs.directory.rglob("*") if path.is_file()]


def test_an_owner_keeps_so_many_models(keyed: Api) -> None:
    ann, ben = (tenants.keys(keyed, name)["user"] for name in ("ann", "ben"))
    first = upload(keyed, b"one", ann).json()["id"]
    assert upload(keyed, b"two", ann).status_code == 201
    before = blobs(keyed)
    body = problem(upload(keyed, b"three", ann), 413, "storage_quota_exceeded")
    assert (body["quota"], body["limit"], body["used"]) == ("max_models", 2, 2)
    assert "TUNESMITH_MAX_MODELS" in body["detail"]
    assert "delete models" in body["detail"]
    assert blobs(keyed) == before, "what is refused is not kept"
    assert upload(keyed, b"one", ann).status_code == 200, "what is there already costs nothing"
    assert upload(keyed, b"three", ben).status_code == 201
    job = keyed.client.post("/v1/jobs", json=GEMM, headers=ann)
    assert job.status_code == 202, "operators are no uploads"
    assert keyed.client.delete(f"/v1/models/{first}", headers=ann).status_code == 204
    assert upload(keyed, b"three", ann).status_code == 201


def test_an_owner_keeps_so_many_bytes(keyed: Api) -> None:
    ann = tenants.keys(keyed, "ann")["user"]
    model = upload(keyed, bytes(60), ann).json()["id"]
    body = problem(upload(keyed, bytes(41), ann), 413, "storage_quota_exceeded")
    assert (body["quota"], body["limit"], body["used"]) == ("max_stored_bytes", 100, 60)
    with keyed.context.sessions.begin() as session:
        session.get_one(Model, model).params_size = 30  # as its import finds out
    assert problem(upload(keyed, bytes(11), ann), 413, "storage_quota_exceeded")["used"] == 90
    assert upload(keyed, bytes(10), ann).status_code == 201


def test_without_keys_and_with_zero_there_is_no_quota(tmp_path: Path, sqlite_url: str) -> None:
    for values in ({"max_models": 1}, {"admin_key": ADMIN, "max_models": 0, "max_stored_bytes": 0}):
        api = Api(Folder(tmp_path, sqlite_url), **values)
        assert [upload(api, bytes(5 + n), bearer(ADMIN)).status_code for n in range(3)] in ([201] * 3, [200] * 3)
        api.close()


def entries(api: Api, **params: Any) -> list[dict[str, Any]]:
    answer = api.client.get("/v1/audit", params=params, headers=bearer(ADMIN))
    assert answer.status_code == 200, answer.text
    return list(answer.json()["items"])


def test_changes_refusals_and_uses_are_written_down(keyed: Api) -> None:
    made = keyed.client.post("/v1/keys", json={"owner": "ann"}, headers=bearer(ADMIN)).json()
    ann = bearer(made["key"])
    job = keyed.client.post("/v1/jobs", json=GEMM, headers=ann).json()["id"]
    for _ in range(3):
        keyed.client.get(f"/v1/jobs/{job}", headers=ann)
    keyed.client.post(f"/v1/jobs/{job}/cancel", headers=ann)
    keyed.client.get("/v1/keys", headers=ann)
    keyed.client.get("/v1/jobs", headers=bearer("a-wrong-key"))
    keyed.client.delete(f"/v1/keys/{made['id']}", headers=bearer(ADMIN))
    entries_ = [(row["action"], row["target"], row["owner"], row["key_id"], row["status"]) for row in entries(keyed)]
    key, used = made["id"], f"/v1/jobs/{job}"
    assert entries_ == [
        ("DELETE /v1/keys/{key_id}", f"/v1/keys/{key}", "local", "admin", 204),
        ("GET /v1/jobs", "/v1/jobs", None, None, 401),
        ("GET /v1/keys", "/v1/keys", "ann", key, 403),
        ("POST /v1/jobs/{job_id}/cancel", f"{used}/cancel", "ann", key, 200),
        ("GET /v1/jobs/{job_id}", used, "ann", key, 200),
        ("POST /v1/jobs", used, "ann", key, 202),
        ("POST /v1/keys", f"/v1/keys/{key}", "local", "admin", 201),
    ]
    assert {row["address"] for row in entries(keyed)} == {"testclient"}
    assert all(row["request_id"] for row in entries(keyed))
    assert [row["owner"] for row in entries(keyed, owner="ann")] == ["ann"] * 4
    stored = json.dumps(entries(keyed))
    assert not any(secret in stored for secret in (ADMIN, made["key"], "a-wrong-key"))


def test_the_log_is_paged_and_for_operators(keyed: Api) -> None:
    ids = [keyed.client.post("/v1/keys", json={"owner": f"o{n}"}, headers=bearer(ADMIN)).json()["id"] for n in range(3)]
    seen: list[str] = []
    cursor = None
    while True:
        params = {"limit": 1, **({"cursor": cursor} if cursor else {})}
        page = keyed.client.get("/v1/audit", params=params, headers=bearer(ADMIN)).json()
        seen += [row["target"] for row in page["items"] if row["action"] == "POST /v1/keys"]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert seen == [f"/v1/keys/{key}" for key in reversed(ids)]
    user = tenants.keys(keyed, "ann")["user"]
    problem(keyed.client.get("/v1/audit", headers=user), 403, "forbidden")


def test_a_flood_of_refusals_does_not_fill_the_log(
    tmp_path: Path, sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Windows begin with the clock's: a minute that begins among the requests would let another one through.
    monkeypatch.setattr(audit, "REFUSED", audit.REFUSED.replace("minute", "day"))
    api = Api(Folder(tmp_path, sqlite_url), admin_key=ADMIN, wrong_key_limit="")
    for _ in range(80):
        api.client.get("/v1/jobs", headers=bearer("wrong"))
    problem(api.client.post("/v1/jobs", headers=bearer(ADMIN)), 422, "invalid_input")  # the last entry, and awaited
    assert api.count(AuditRow) == 60 + 1
    api.close()
