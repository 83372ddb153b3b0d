"""The page of a job's families: tasks of similar computation, what they got of the budget, and what that found."""

from __future__ import annotations

from nicegui import ui

from services.dashboard import format as fmt
from services.dashboard.api import Json
from services.dashboard.context import Context, keep_fresh
from services.dashboard.parts import Banner, empty, whole_table
from services.dashboard.theme import frame

COLUMNS = [
    {"name": "name", "label": "Family", "field": "name", "align": "left"},
    {"name": "tasks", "label": "Tasks", "field": "tasks", "align": "right"},
    {"name": "trials", "label": "Trials (share of budget)", "field": "trials", "align": "right"},
    {"name": "failures", "label": "Failures", "field": "failures", "align": "right"},
    {"name": "untuned", "label": "Untuned", "field": "untuned", "align": "right"},
    {"name": "best", "label": "Best", "field": "best", "align": "right"},
    {"name": "speedup", "label": "Speed-up", "field": "speedup", "align": "right"},
]


def rows(families: list[Json]) -> list[Json]:
    """Lines of the table, the family with the most trials first."""
    return [
        {
            "name": each["name"],
            "tasks": fmt.count(each["tasks"]),
            "trials": f"{fmt.count(each['trials'])} ({fmt.share(each['budget_share'])})",
            "failures": fmt.count(each["failures"]),
            "untuned": fmt.latency(each["untuned_latency"]),
            "best": fmt.latency(each["best_latency"]),
            "speedup": fmt.speedup(_ratio(each["untuned_latency"], each["best_latency"])),
        }
        for each in sorted(families, key=lambda each: -each["trials"])
    ]


def _ratio(untuned: float | None, best: float | None) -> float:
    return untuned / best if untuned and best else 0.0


def build(context: Context, job_id: str) -> None:
    """Fill the page."""
    visitor = context.visitor()
    with frame("Families", logged_in=visitor.logged_in, on_logout=visitor.logout):
        banner = Banner()
        with ui.element("section").classes("ts-card"):
            with ui.row().classes("w-full items-center justify-between"):
                ui.label("Families").classes("ts-title").props("role=heading aria-level=1")
                ui.link("The job", f"/jobs/{job_id}").classes("ts-link")
            ui.label("Latencies are sums over the tasks of a family, each as often as the model runs it.").classes(
                "ts-soft"
            )
            nothing = empty("account_tree", "No tasks yet", "They appear when the model is imported and prepared.")
            table = whole_table(COLUMNS, "name")

    async def refresh() -> float:
        found = rows(await visitor.call(lambda api: api.families(job_id)))
        if table.rows != found:
            table.rows = found
            table.update()
        nothing.set_visibility(not found)
        table.set_visibility(bool(found))
        return 5.0

    keep_fresh(refresh, banner, f"/jobs/{job_id}/families")
