"""Two or more jobs side by side: their curves in one chart, and what each came to."""

from __future__ import annotations

from typing import Any

from nicegui import ui

from services.dashboard import format as fmt
from services.dashboard.api import Api, Json
from services.dashboard.chart import Chart
from services.dashboard.charts import CHOICES, several
from services.dashboard.context import Context, keep_fresh
from services.dashboard.overview import ACTIVE, model_name, target_text
from services.dashboard.parts import Banner, empty, words
from services.dashboard.theme import frame

MAX_JOBS = 6
MAX_NAME = 36
"""Characters of a name in legends and heads of columns."""
FACTS = (
    ("State", lambda job: words(job["state"])),
    ("Model", model_name),
    ("Target", target_text),
    ("Precision", lambda job: job["precision"]),
    ("Search", lambda job: job["search"]),
    ("Cost model", lambda job: job["cost_model"]),
    ("Allocator", lambda job: job["allocator"]),
    ("Seed", lambda job: str(job["seed"])),
    ("Trials", lambda job: fmt.trials(job["progress"])),
    ("Time", lambda job: fmt.duration(job["progress"]["seconds"])),
    ("Untuned", lambda job: fmt.latency(job["latency"]["untuned"])),
    ("Latency", lambda job: fmt.latency(job["latency"]["current"])),
    ("Speed-up", lambda job: fmt.change(job["latency"])),
    ("Devices", lambda job: "simulated" if job["simulated"] else "real"),
)


def job_ids(text: str) -> list[str]:
    """Ids of an address, each once, in their order."""
    return list(dict.fromkeys(part for part in text.split(",") if part))[:MAX_JOBS]


def title(job: Json) -> str:
    """What the chart's legend calls a job; ids tell jobs of one name apart."""
    invented = ", simulated" if job.get("simulated") else ""
    name = job.get("name") or model_name(job) or "job"
    short = name if len(name) <= MAX_NAME else f"{name[: MAX_NAME - 1]}…"
    return f"{short} ({job['id'][-6:]}{invented})"


def columns(jobs: list[Json]) -> list[dict[str, Any]]:
    """One column a job."""
    head = {"name": "fact", "label": "Fact", "field": "fact", "align": "left"}
    return [head, *({"name": j["id"], "label": title(j), "field": j["id"], "align": "right"} for j in jobs)]


def rows(jobs: list[Json]) -> list[Json]:
    """One row a fact."""
    return [{"fact": name, **{job["id"]: str(of(job) or fmt.NOTHING) for job in jobs}} for name, of in FACTS]


def build(context: Context, jobs: str) -> None:
    """Fill the page."""
    visitor, ids = context.visitor(), job_ids(jobs)
    with frame("Compare", logged_in=visitor.logged_in, on_logout=visitor.logout):
        banner = Banner()
        ui.label("Compare jobs").classes("ts-title").props("role=heading aria-level=1")
        with ui.element("section").classes("ts-card"):
            with ui.row().classes("w-full items-center justify-between"):
                ui.label("Best latency so far").classes("ts-head").props("role=heading aria-level=2")
                axis = ui.toggle(CHOICES, value="trials")
                axis.props("no-caps dense unelevated aria-label='Horizontal axis'")
            nothing = empty("show_chart", "Nothing to draw", "A curve starts once each task of its job has a latency.")
            chart = Chart("Best latency so far of each job", 360).mark("curves")
        with ui.element("section").classes("ts-card"):
            table = ui.table(columns=columns([]), rows=[], row_key="fact", pagination={"rowsPerPage": 0})
            table.classes("ts-table w-full").props("flat dense hide-pagination")
    drawn: dict[str, list[Json]] = {}

    def draw() -> None:
        chart.draw(several(drawn, axis.value))
        nothing.set_visibility(not any(drawn.values()))
        chart.set_visibility(any(drawn.values()))

    async def refresh() -> float:
        found, curves = await visitor.call(lambda api: _load(api, ids))
        if curves != drawn:
            drawn.clear()
            drawn.update(curves)
            draw()
        if table.rows != rows(found):
            table.columns, table.rows = columns(found), rows(found)
            table.update()
        return 2.0 if any(job["state"] in ACTIVE for job in found) else 10.0

    axis.on_value_change(draw)
    if len(ids) < 2:
        banner.show("warn", "Nothing to compare", "Give two or more jobs: /compare?jobs=JOB,JOB")
    else:
        keep_fresh(refresh, banner, f"/compare?jobs={jobs}")


def _load(api: Api, ids: list[str]) -> tuple[list[Json], dict[str, list[Json]]]:
    jobs = [api.job(job) for job in ids]
    return jobs, {title(job): api.curve(job["id"])["points"] for job in jobs}
