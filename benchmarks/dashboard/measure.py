"""Opens the dashboard's pages in a browser with an empty cache, and asks for the routes behind them."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from benchmarks.dashboard import plan
from benchmarks.dashboard.plan import LONG, WIDE
from benchmarks.harness.coordinator import Looks, Server, look_at
from benchmarks.harness.processes import Tree, environment
from benchmarks.harness.progress import Progress
from services.embedded.net import free_port, get_json
from tunesmith.errors import MeasurementFailed

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CORE = "core"
"""The role of the worker whose page and log are asked for."""
ROW, LINK, CHART = ".ts-table tbody td", ".ts-table tbody a", ".nicegui-echart canvas"
JOB = (LINK, CHART, ".ts-log .font-semibold")
PAGES: dict[str, tuple[str, ...]] = {
    "/": (LINK, ".ts-device"),
    "/submit": (".ts-drop",),
    "/jobs/{long}": JOB,
    "/jobs/{wide}": JOB,
    "/jobs/{long}/trials": (LINK,),
    "/jobs/{long}/trials?task={task}": (LINK,),
    "/jobs/{long}/trials?failure={failure}": (LINK,),
    "/jobs/{wide}/trials": (LINK,),
    "/jobs/{long}/trials/{trial}": (ROW, CHART),
    "/compare?jobs={long},{wide}": (ROW, CHART),
    "/records": (LINK,),
    "/records?find={find}": (LINK,),
    "/records/{workload}": (LINK,),
    "/costmodels": (LINK,),
    "/costmodels/{costmodel}": (ROW,),
    "/models": (ROW,),
    "/jobs/{wide}/families": (ROW,),
    "/devices": (ROW,),
    "/workers": (ROW,),
    "/workers/{worker}": (ROW,),
    "/keys": (ROW,),
    "/audit": (ROW,),
    "/login": (".ts-login",),
}
"""Addresses, and what a page shows once its data is there."""
ROUTES = (
    "/v1/jobs",
    "/v1/jobs?q=model-0",
    "/v1/jobs?state=running",
    *(
        f"/v1/jobs/{job}{rest}"
        for job in ("{long}", "{wide}")
        for rest in (
            "",
            "/forecast",
            "/curve",
            "/roofline",
            "/tasks",
            "/tasks?sort=-share",
            "/tasks?sort=-share&q={find}",
            "/decisions?sort=-number",
            "/failures",
            "/events?sort=-id&limit=200",
            "/trials?sort=latency",
            "/trials?sort=-id&failure={failure}",
        )
    ),
    "/v1/jobs/{long}/trials?sort=latency&task={task}",
    "/v1/jobs/{long}/trials?sort=-id&task={task}",
    "/v1/jobs/{long}/trials/{trial}",
    "/v1/models",
    "/v1/models/m-0",
    "/v1/models/m-0/tasks",
    "/v1/workloads",
    "/v1/workloads?q={find}",
    "/v1/workloads/{workload}",
    "/v1/records?workload={workload}&sort=latency&limit=20",
    "/v1/costmodels",
    "/v1/devices",
    "/v1/workers",
    "/v1/workers/log?worker={worker}",
    "/v1/queues",
    "/v1/keys",
    "/v1/audit",
    "/v1/audit?owner=user-1",
)
EMPTY = """import sys
from nicegui import ui


@ui.page("/")
def page() -> None:
    ui.label("nothing").classes("shown")


ui.run(host="127.0.0.1", port=int(sys.argv[1]), show=False, reload=False, tailwind=False)
"""
"""An application with such a page."""
SHOWN = """selectors => performance.getEntriesByName('first-contentful-paint').length > 0 && selectors.every(selector =>
  [...document.querySelectorAll(selector)].some(element => element.getClientRects().length > 0))"""
TIMES = """() => {
  const paint = performance.getEntriesByName('first-contentful-paint')[0];
  const loaded = performance.getEntriesByType('resource').concat(performance.getEntriesByType('navigation'));
  return [performance.now(), paint ? paint.startTime : NaN, loaded.reduce((sum, each) => sum + each.transferSize, 0)];
}"""


@dataclass(frozen=True)
class Opened:
    """A page, opened several times with an empty cache.

    Attributes:
        path: as in :data:`PAGES`.
        paint: seconds until its first contentful paint.
        data: seconds until its data is shown.
        size: bytes that were loaded.
        cpu: seconds of the server's processors, of one time on average.
    """

    path: str
    paint: tuple[float, ...]
    data: tuple[float, ...]
    size: int
    cpu: float

    @property
    def median(self) -> float:
        """Seconds until the data is shown, half of the times."""
        return statistics.median(self.data)


def values(ask: Callable[[str], Any]) -> dict[str, str]:
    """What stands in the addresses: ids of the database, by what ``ask`` answers to a path."""
    task = ask(f"/v1/jobs/{LONG}/tasks?sort=-share&limit=1")["items"][0]
    trial = ask(f"/v1/jobs/{LONG}/trials?sort=latency&limit=1")["items"][0]
    worker = next(each["name"] for each in ask("/v1/workers")["items"] if CORE in each["roles"])
    return {
        "long": LONG,
        "wide": WIDE,
        "task": str(task["id"]),
        "trial": str(trial["id"]),
        "workload": plan.workload(0),
        "costmodel": ask("/v1/costmodels?limit=1")["items"][0]["id"],
        "failure": "build_error",
        "find": "softmax",
        "worker": quote(worker),
    }


def open_pages(browser: Browser, server: Server, loads: int, say: Progress) -> list[Opened]:
    """Open every page so many times, each time as somebody who was never there.

    Raises:
        MeasurementFailed: a page complains, or never shows its data.
    """
    known = values(lambda path: get_json(server.url + path))
    _open(browser, server, "/login", PAGES["/login"])  # which does not count: the browser itself begins
    found = []
    for path, selectors in PAGES.items():
        began = server.cpu_seconds()
        times = [_open(browser, server, path.format_map(known), selectors) for _ in range(loads)]
        cpu = (server.cpu_seconds() - began) / loads
        paint, data = (tuple(each[place] / 1e3 for each in times) for place in (1, 0))
        found.append(Opened(path, paint, data, int(times[0][2]), cpu))
        say(f"{path}: {found[-1].median:.2f} s")
    return found


def _open(browser: Browser, server: Server, path: str, selectors: tuple[str, ...]) -> list[float]:
    from playwright.sync_api import Error

    from tools.browsing import Watched

    watched = Watched(browser, server.url)
    try:
        watched.page.goto(server.url + path, wait_until="commit")
        watched.page.wait_for_function(SHOWN, arg=list(selectors))
        times: list[float] = watched.page.evaluate(TIMES)
    except Error as error:
        raise MeasurementFailed(f"{path} does not show {', '.join(selectors)}: {error.message[:200]}") from error
    finally:
        watched.context.close()
    if watched.complaints:
        raise MeasurementFailed(f"{path}: {watched.complaints[0][:300]}")
    return times


def empty_page(browser: Browser, folder: Path, loads: int) -> float:
    """Seconds until an empty page of the toolkit is shown, half of the times: no page of the dashboard can be faster.

    Raises:
        MeasurementFailed: it is not shown.
    """
    port = free_port()
    with Tree(
        [sys.executable, "-c", EMPTY, str(port)], log=folder / "empty.log", folder=folder, env=environment()
    ) as app:
        server = Server(port, app)
        server.wait("/")
        _open(browser, server, "/", (".shown",))
        times = [_open(browser, server, "/", (".shown",))[0] / 1e3 for _ in range(max(loads, 5))]
    return statistics.median(times)


def ask_routes(server: Server, looks: int, say: Progress) -> dict[str, Looks]:
    """Ask for every route."""
    known = values(lambda path: get_json(server.url + path))
    found = {}
    for route in ROUTES:
        found[route] = look_at(server, route.format_map(known), looks)
        say(f"{route}: {found[route].quantile(0.5):.0f} ms")
    return found
