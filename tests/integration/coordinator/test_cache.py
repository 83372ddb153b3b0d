"""Texts that users keep: by REST, by the client, and by Helion's autotuner."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
import tenants
from api_driver import Api, problem
from fake_fleet import Folder
from helion_interface import remote_cache
from tenants import ADMIN

from db.engine import migrate
from db.queries import cache_entries
from tunesmith.client import Client
from tunesmith.errors import MissingDependency, NotFound

pytestmark = pytest.mark.parallel


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    folder = tmp_path_factory.mktemp("cache")
    url = f"sqlite:///{folder / 'tunesmith.db'}"
    migrate(url)
    made = Api(Folder(folder, url), admin_key=ADMIN, max_cache_entries=4)
    yield made
    made.close()


def client_of(api: Api, owner: str) -> Client:
    """A client with a key of a user."""
    key = tenants.keys(api, owner)["user"]["authorization"].removeprefix("Bearer ")

    def handler(request: httpx2.Request) -> httpx2.Response:
        headers = dict(request.headers)
        answer = api.client.request(
            request.method, str(request.url.raw_path.decode()), content=request.content, headers=headers
        )
        return httpx2.Response(answer.status_code, content=answer.content, headers={"content-type": "application/json"})

    return Client("http://testserver", key, transport=httpx2.MockTransport(handler))


def test_texts_are_kept_replaced_listed_and_forgotten_by_their_owner_alone(api: Api) -> None:
    ann, ben = client_of(api, "ann"), client_of(api, "ben")
    assert ann.cached("tuner", "k") is None
    for key, value in (("k", "1"), ("other", "2"), ("k", "3")):
        ann.put_cached("tuner", key, value)
    assert (ann.cached("tuner", "k"), ann.cached("elsewhere", "k"), ben.cached("tuner", "k")) == ("3", None, None)
    assert [(each.key, each.value) for each in ann.list_cached("tuner")] == [("k", "3"), ("other", "2")]
    ben.put_cached("tuner", "k", "his")
    ann.delete_cached("tuner", "k")
    with pytest.raises(NotFound):
        ann.delete_cached("tuner", "k")
    assert (ann.cached("tuner", "k"), ben.cached("tuner", "k")) == (None, "his")


def test_the_oldest_give_way_and_limits_are_named(api: Api) -> None:
    eve = client_of(api, "eve")
    for number in range(6):
        eve.put_cached("a" if number % 2 else "b", f"k{number}", str(number))
    assert [each.value for each in eve.list_cached("a")] == ["5", "3"]
    assert [each.value for each in eve.list_cached("b")] == ["4", "2"]
    headers = tenants.keys(api, "eve")["user"]
    for path, body in (
        ("/v1/cache/n/k", {"value": "x" * 65_537}),
        ("/v1/cache/n/k", {"value": 1}),
        ("/v1/cache/n/k", {}),
        ("/v1/cache/-n/k", {"value": "x"}),
        (f"/v1/cache/n/{'k' * 201}", {"value": "x"}),
        ("/v1/cache/n/a%20b", {"value": "x"}),
    ):
        problem(api.client.put(path, json=body, headers=headers), 422, "invalid_input")
    problem(
        api.client.put("/v1/cache/n/k", json={"value": "x"}, headers=tenants.keys(api, "eve")["viewer"]),
        403,
        "forbidden",
    )


def test_a_page_of_large_texts_is_short(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    dan, headers = client_of(api, "dan"), tenants.keys(api, "dan")["user"]
    for number, size in enumerate((60, 50, 60, 200)):
        dan.put_cached("large", f"k{number}", "x" * size)
    monkeypatch.setattr(cache_entries, "MAX_PAGE", 120)
    sizes, cursor = [], None
    while True:
        page = api.client.get("/v1/cache/large", params={"cursor": cursor} if cursor else {}, headers=headers).json()
        sizes.append([len(item["value"]) for item in page["items"]])
        if (cursor := page["next_cursor"]) is None:
            break
    assert sizes == [[200], [60, 50], [60]]
    assert [len(each.value) for each in dan.list_cached("large")] == [200, 60, 50, 60]


def test_helion_finds_what_another_machine_tuned(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    helion = remote_cache(monkeypatch)
    monkeypatch.setenv("HELION_REMOTE_CACHE_BACKEND", "tunesmith.helion.CacheBackend")
    monkeypatch.setenv("TUNESMITH_SERVER", "http://testserver")
    one, two = helion._load_remote_backend(), helion._load_remote_backend()
    for backend in (one, two):
        monkeypatch.setattr(backend, "_client", client_of(api, "helion-user"))
    entry: dict[str, Any] = {"config": json.dumps({"block_sizes": [64, 64], "num_warps": 4}), "key": {"fields": {}}}
    assert one.get("0a" * 32) is None
    one.put("0a" * 32, json.dumps(entry))
    one.put("0b" * 32, "{}")
    assert json.loads(two.get("0a" * 32)) == entry
    assert list(two.list()) == ["{}", json.dumps(entry)]
    assert list(two.list(max_results=1)) == ["{}"]


def test_without_helion_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    remote_cache(monkeypatch)
    monkeypatch.setattr("tunesmith.extras.here", lambda name: False)
    with pytest.raises(MissingDependency, match="pip install helion"):
        __import__("tunesmith.helion")
