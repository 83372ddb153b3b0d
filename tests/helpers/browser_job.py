"""A job that is led by the browser alone, from its model to its log."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from browser_pages import card
from playwright.sync_api import Page, expect

from tools.browsing import Watched

LONG = 240_000.0
"""Milliseconds for what workers have to do, on a machine that is busy with others."""


def submit(page: Page, url: str, model: Path, trials: int) -> str:
    """Submit a model by the form; the job's id, once its page shows it."""
    page.goto(f"{url}/submit")
    page.locator("input[type=file]").set_input_files(model)
    expect(card(page, "What to tune").locator("tbody tr").first).to_be_visible(timeout=LONG)
    page.get_by_label("Name").fill("by hand")
    page.get_by_label("Trials").fill(str(trials))
    page.get_by_role("button", name="Submit", exact=True).click()
    expect(page.get_by_role("heading", name="by hand")).to_be_visible()
    return page.url.rsplit("/", 1)[1]


def steer(watched: Watched, kill_server: Callable[[], list[int]]) -> list[int]:
    """Pause a job, lose the server under the open page, let the job go on, and wait for its end; who was killed."""
    page = watched.page
    state = page.locator("main .ts-badge").first
    page.get_by_role("button", name="Pause").click(timeout=LONG)
    expect(state).to_have_text("Paused", timeout=LONG)
    page.evaluate("window.isOfBefore = true")
    with watched.server_away():
        killed = kill_server()
        page.wait_for_function("window.isOfBefore === undefined", timeout=LONG)  # it comes back by itself
        expect(state).to_have_text("Paused", timeout=LONG)
    page.get_by_role("button", name="Resume").click()
    expect(state).to_have_text("Succeeded", timeout=LONG)
    expect(card(page, "Allocation").locator("tbody tr").first).not_to_be_empty()
    return killed


def open_fastest(page: Page) -> str:
    """From a job's page to the program of its only task's fastest trial; the text."""
    card(page, "Tasks").locator("tbody a").first.click()
    expect(page).to_have_url(re.compile("/trials"))
    page.locator("tbody tr a").first.click()
    program = page.get_by_label("Program in TVMScript")
    expect(program).to_contain_text("def main", timeout=LONG)
    return program.inner_text()


def download(page: Page, url: str, job: str, path: Path) -> None:
    """Save a job's log."""
    page.goto(f"{url}/jobs/{job}")
    with page.expect_download() as started:
        page.get_by_role("link", name="JSON log").click()
    started.value.save_as(path)


def read_log(page: Page, url: str) -> None:
    """From the list of workers to what the one that records results logged, and from there to its warnings."""
    page.goto(f"{url}/workers")
    page.get_by_role("link", name=re.compile("^record-")).click(timeout=LONG)
    lines = card(page, "Log").locator("tbody tr")
    expect(lines.first).to_contain_text("tunesmith.record_", timeout=LONG)
    page.get_by_label("Find in the lines").fill("ready.")
    expect(lines.first).to_contain_text("ready.")
    page.get_by_role("button", name="Errors").click()
    expect(card(page, "Log").get_by_text("No lines")).to_be_visible()
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") == 390
