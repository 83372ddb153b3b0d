"""``tunesmith bench dashboard``: its rows, on a small database; with a browser in the thorough mode."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from api_driver import Api
from fake_fleet import Folder

from benchmarks.dashboard import figures, measure
from benchmarks.dashboard.plan import LONG, WIDE, Sizes
from benchmarks.dashboard.rows import count, fill
from benchmarks.harness.coordinator import Looks
from db.engine import create_engine
from services.coordinator.broker import Node
from tunesmith.cli.main import run_command_line
from tunesmith.core_workers import CoreReport
from tunesmith.worker_logs import LogLine

SIZES = Sizes(records=1000, jobs=8, trials=320, tasks=210)


@pytest.mark.parallel
@pytest.mark.both_databases
def test_every_route_finds_what_was_written(tmp_path: Path, database_url: str) -> None:
    api = Api(Folder(tmp_path, database_url))
    engine = create_engine(database_url, foreign_keys=False)
    fill(engine, SIZES)
    assert count(engine) == 8
    engine.dispose()

    def ask(path: str) -> Any:
        answer = api.client.get(path)
        assert answer.status_code == 200, f"{path}: {answer.text[:300]}"
        return answer.json()

    api.broker.workers = [Node(CoreReport(name="search-7@h"))]
    api.broker.logs = {"core.search@h": [LogLine(at=1.0, level="info", logger="l", process=7, text="ready")]}
    known = measure.values(ask)
    for route in measure.ROUTES:
        answer = ask(route.format_map(known))
        assert answer.get("items", answer), route
    assert ask(f"/v1/jobs/{LONG}")["progress"]["trials"] == 320 - 20
    assert ask("/v1/jobs")["items"][0]["latency"]["source"] == "measured"
    assert len(ask(f"/v1/jobs/{WIDE}/tasks")["items"]) == 200
    api.close()


def test_the_tables_say_what_is_late() -> None:
    looks = {"/v1/jobs": Looks(30.0, (10.0,) * 99 + (151.0,), 2000, 4.0), "/v1/keys": Looks(9.0, (5.0,), 80, 1.0)}
    opened = [measure.Opened("/", (0.3, 0.4), (0.8, 0.9), 5000, 0.2), measure.Opened("/x", (0.4,), (1.0,), 1, 0.1)]
    assert (figures.late_pages(opened), figures.late_routes(looks)) == (["/x"], ["/v1/jobs"])
    assert figures.routes(looks, SIZES, {"database": "postgresql"}).name == "dashboard-routes-postgresql"
    report = figures.routes(looks, SIZES, {})
    assert "1 of 2 are there 99 times of 100 within 150 ms; late: `/v1/jobs`." in report.summary
    assert "1 of 2 are there within 1 s; late: `/x`." in figures.pages(opened, 0.3, SIZES, {}).summary


@pytest.mark.thorough
@pytest.mark.servers
@pytest.mark.browser
def test_every_page_shows_its_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTEST_CURRENT_TEST")  # with it, the toolkit's empty page waits for a plugin of its own
    sizes = ["--records", "1000", "--jobs", "8", "--trials", "320", "--tasks", "210", "--loads", "1", "--looks", "2"]
    assert run_command_line(["bench", "dashboard", *sizes, "--out", str(tmp_path)]) == 0
    assert len((tmp_path / "dashboard.csv").read_text().splitlines()) == 1 + len(measure.PAGES)
    assert len((tmp_path / "dashboard-routes.csv").read_text().splitlines()) == 1 + len(measure.ROUTES)
