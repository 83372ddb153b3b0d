"""Rates: requests of a key, wrong keys from an address, and clients that wait as they are told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from api_driver import Api, problem
from fake_fleet import Folder
from pydantic import ValidationError

from services.coordinator.rates import DASHBOARD_HEADER
from services.rates import Rate, network_of
from tunesmith.client import Client, transport
from tunesmith.errors import QuotaExceeded, RateLimited

pytestmark = pytest.mark.parallel
ADMIN = {"authorization": "Bearer first-key"}
WRONG = {"authorization": "Bearer wrong"}


@pytest.fixture
def limited(tmp_path: Path, sqlite_url: str) -> Iterator[Api]:
    made = Api(Folder(tmp_path, sqlite_url), admin_key="first-key", rate_limit="3/hour", wrong_key_limit="2/hour")
    yield made
    made.close()


def test_a_key_that_asks_too_often_is_told_when_to_come_back(limited: Api) -> None:
    answers = [limited.client.get("/v1/jobs", headers=ADMIN) for _ in range(5)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429, 429]
    body = problem(answers[3], 429, "rate_limited")
    assert 0 < int(answers[3].headers["retry-after"]) <= 3600
    assert body["retry_after"] == int(answers[3].headers["retry-after"])
    assert "TUNESMITH_RATE_LIMIT" in body["detail"]
    # Nobody else pays for it, and what needs no key goes on.
    assert limited.client.get("/livez", headers=ADMIN).status_code == 200
    assert limited.client.get("/readyz").status_code == 200
    token = {DASHBOARD_HEADER: limited.context.settings.dashboard_token()}
    assert limited.client.get("/v1/jobs", headers={**ADMIN, **token}).status_code == 200
    problem(limited.client.get("/v1/jobs", headers={**ADMIN, DASHBOARD_HEADER: "made-up"}), 429, "rate_limited")


def test_every_key_has_a_rate_of_its_own(limited: Api) -> None:
    made = limited.client.post("/v1/keys", json={"owner": "ann"}, headers=ADMIN).json()
    ann = {"authorization": f"Bearer {made['key']}"}
    assert [limited.client.get("/v1/jobs", headers=ADMIN).status_code for _ in range(3)] == [200, 200, 429]
    assert limited.client.get("/v1/jobs", headers=ann).status_code == 200


def test_guessing_keys_ends_soon(limited: Api) -> None:
    assert limited.client.get("/v1/jobs", headers=ADMIN).status_code == 200
    made = limited.client.post("/v1/keys", json={"owner": "ann"}, headers=ADMIN).json()
    statuses = [limited.client.get("/v1/jobs", headers=WRONG).status_code for _ in range(4)]
    assert statuses == [401, 401, 429, 429]
    problem(limited.client.get("/readyz", headers=WRONG), 429, "rate_limited")
    # Not even a right guess is confirmed, while a key that was right before goes on working.
    first_use = limited.client.get("/v1/jobs", headers={"authorization": f"Bearer {made['key']}"})
    assert int(first_use.headers["retry-after"]) > 0
    problem(first_use, 429, "rate_limited")
    assert limited.client.get("/v1/jobs", headers=ADMIN).status_code == 200
    assert limited.client.get("/v1/jobs").status_code == 401


def test_without_keys_nothing_is_counted(tmp_path: Path, sqlite_url: str) -> None:
    api = Api(Folder(tmp_path, sqlite_url), rate_limit="1/hour")
    assert [api.client.get("/v1/jobs").status_code for _ in range(3)] == [200] * 3
    api.close()


@pytest.mark.parametrize("text", ["fast", "1200", "10/fortnight"])
def test_a_rate_that_is_none_is_refused_at_the_start(tmp_path: Path, sqlite_url: str, text: str) -> None:
    with pytest.raises(ValidationError, match="rate_limit"):
        Folder(tmp_path, sqlite_url).settings(rate_limit=text)


def test_an_ipv6_network_counts_as_one_address() -> None:
    assert network_of("2001:db8::1") == network_of("2001:db8::ffff") != network_of("2001:db8:0:1::1")
    assert network_of("::ffff:192.0.2.1") == "192.0.2.1" == network_of("192.0.2.1")
    assert network_of("testclient") == "testclient"
    rate = Rate("1/hour")
    assert (rate.full("a"), rate.hit("a"), rate.hit("b")) == (0, 0, 0)
    assert min(rate.full("a"), rate.hit("a")) > 0


def test_clients_wait_as_they_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(transport, "sleep", slept.append)
    busy = {"code": "rate_limited", "detail": "wait", "status": 429, "retry_after": 7}
    answers = [httpx2.Response(429, json=busy), httpx2.Response(429, headers={"retry-after": "2"})]
    page = httpx2.Response(200, json={"items": [], "next_cursor": None})
    turn = iter([*answers, page, *[answers[0]] * 20])
    with Client(transport=httpx2.MockTransport(lambda _: next(turn))) as client:
        assert client.jobs().items == []
        assert slept == [7.0, 2.0]
        with pytest.raises(RateLimited):
            client.cancel("j1")
    assert sum(slept[2:]) <= transport.RATE_PATIENCE
    full = httpx2.Response(429, json={"code": "quota_exceeded", "detail": "full", "status": 429})
    with Client(transport=httpx2.MockTransport(lambda _: full)) as client, pytest.raises(QuotaExceeded):
        client.jobs()
