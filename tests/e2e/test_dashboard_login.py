"""Who gets past the dashboard's login, in a real browser."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from coordinator_process import coordinator
from playwright.sync_api import Browser, expect

from tools.browsing import Watched

pytestmark = pytest.mark.browser
KEY = "a-key-for-the-dashboard-tests"


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An empty server that asks for a key."""
    with coordinator(tmp_path_factory.mktemp("locked"), admin_key=KEY) as url:
        yield url


@pytest.fixture
def guest(browser: Browser, locked: str) -> Iterator[Watched]:
    watched = Watched(browser, locked)
    yield watched
    watched.context.close()
    assert watched.complaints == []


def test_a_key_is_asked_for_once_and_stays_on_the_server(guest: Watched, locked: str) -> None:
    page = guest.page
    page.goto(f"{locked}/?from=bookmark")
    expect(page).to_have_url(re.compile(r"/login\?next="))
    field = page.get_by_label("API key")
    field.fill("not-the-key")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_text("Key refused")).to_be_visible()
    before = {cookie["name"]: cookie["value"] for cookie in guest.context.cookies()}
    field.fill(KEY)
    field.press("Enter")
    expect(page.get_by_text("No job yet")).to_be_visible()
    after = {cookie["name"]: cookie["value"] for cookie in guest.context.cookies()}
    assert before.keys() == after.keys()
    assert not set(before.values()) & set(after.values()), "the session is renewed at login"
    expect(page.get_by_text("No device yet")).to_be_visible()

    cookies = guest.context.cookies()
    assert cookies
    assert all(cookie["httpOnly"] and cookie["sameSite"] == "Lax" for cookie in cookies)
    kept = json.dumps([cookies, page.evaluate("JSON.stringify([localStorage, sessionStorage])"), page.content()])
    assert KEY not in kept

    page.reload()
    expect(page.get_by_text("No job yet")).to_be_visible()
    page.get_by_role("button", name="Log out").click()
    expect(page).to_have_url(re.compile("/login"))
    page.goto(locked)
    expect(page).to_have_url(re.compile(r"/login\?next="))


def test_who_is_no_operator_reads_no_log_and_exports_records(guest: Watched, locked: str) -> None:
    page, admin = guest.page, {"authorization": f"Bearer {KEY}"}
    made = page.request.post(f"{locked}/v1/keys", data={"scopes": ["viewer"]}, headers=admin).json()
    page.goto(f"{locked}/workers/search-1%40host")
    page.get_by_label("API key").fill(made["key"])
    page.get_by_role("button", name="Log in").click()
    expect(page).to_have_url(re.compile("/workers/search-1"))
    expect(page.get_by_text("Lines of a log may name jobs")).to_be_visible()
    page.get_by_role("navigation").get_by_role("link", name="Audit", exact=True).click()
    expect(page.get_by_text("(forbidden)")).to_be_visible()
    page.get_by_role("navigation").get_by_role("link", name="Records", exact=True).click()
    with page.expect_download() as started:
        page.get_by_role("link", name="All records (Parquet)").click()
    assert started.value.suggested_filename == "records.parquet"
    assert started.value.path().read_bytes()[:4] == b"PAR1"


def test_no_download_without_a_key(guest: Watched, locked: str) -> None:
    for path in ("/jobs/anything/best/jsonl", "/records.parquet"):
        answer = guest.page.request.get(locked + path, max_redirects=0)
        assert (answer.status, answer.headers["location"]) == (303, "/login")
    file = {"name": "m.onnx", "mimeType": "application/octet-stream", "buffer": b"x"}
    assert guest.page.request.post(f"{locked}/submit/model", multipart={"file": file}).status == 401
    foreign = {"origin": "http://elsewhere.example"}
    assert guest.page.request.post(f"{locked}/submit/model", multipart={"file": file}, headers=foreign).status == 403
