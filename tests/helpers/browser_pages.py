"""Pages of the dashboard in a real browser: what its tests share."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dashboard_rows
from playwright.sync_api import Locator, Page

from db.blobs import BlobStore
from db.engine import create_engine, session_factory
from db.queries import listings
from db.transactions.listings import finish
from db.transactions.transitions import transition
from tools.browsing import Watched, launched
from tunesmith.states import WorkState

CURVE = """() => {
  const element = document.querySelector('.nicegui-echart');
  const chart = element && getElement(element.id.slice(1))?.chart;
  const lines = chart?.getOption()?.series;
  return lines ? {solid: lines[0].data, dotted: lines[1].data, untuned: lines[0].markLine.data,
                  axis: chart.getOption().xAxis[0].name, others: lines.length - 2} : null;
}"""
CURVES = """{
  const element = document.querySelector('.nicegui-echart');
  const lines = element && getElement(element.id.slice(1))?.chart?.getOption()?.series;
  return lines && lines.length == 2 ? lines.map(({name, data}) => ({name, data})) : null;
}"""


@contextmanager
def visitor(url: str) -> Iterator[Watched]:
    """A page of a browser of its own, which must not complain."""
    with launched() as browser:
        watched = Watched(browser, url)
        yield watched
    assert watched.complaints == [], watched.complaints


def row(page: Page, text: str) -> Any:
    return page.locator("tbody tr").filter(has_text=text)


def card(page: Page, heading: str) -> Locator:
    return page.locator("section").filter(has=page.get_by_role("heading", name=heading, exact=True))


def get_json(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=20) as answer:
        return json.load(answer)


def write_program(
    folder: Path, server: str, trial: int, job: str = "done", text: str = json.dumps(dashboard_rows.PROGRAM)
) -> None:
    """What a worker does that is asked for a program."""
    urllib.request.urlopen(
        urllib.request.Request(f"{server}/v1/jobs/{job}/trials/{trial}/program", method="POST"), timeout=20
    ).close()
    engine = create_engine(f"sqlite:///{folder / 'tunesmith.db'}")
    blob = BlobStore(folder / "blobs").put_bytes(text.encode())
    with session_factory(engine).begin() as session:
        row = listings.of_record(session, trial)
        transition(session, row, WorkState.RUNNING)
        finish(session, row, blob)
    engine.dispose()


def shape(value: Any) -> Any:
    """Names of members, through every level of objects but the target, which differs by kind."""
    return {k: shape(v) for k, v in value.items() if k != "target"} if isinstance(value, dict) else None


def curve(page: Page, axis: str) -> dict[str, Any]:
    shown = f"c && c.axis === '{axis}' && c.solid.length > 0"
    page.wait_for_function(f"() => {{ const c = ({CURVE})(); return {shown}; }}")
    drawn: dict[str, Any] = page.evaluate(CURVE)
    return drawn
