"""The page that analyses a task: which knobs matter, and how well the cost model ranked its rounds."""

from __future__ import annotations

from urllib.parse import urlencode

from nicegui import ui

from services.dashboard import analysis_charts as charts
from services.dashboard import format as fmt
from services.dashboard.api import Json
from services.dashboard.chart import Chart
from services.dashboard.context import Context, keep_fresh
from services.dashboard.parts import Banner, empty, whole_table
from services.dashboard.theme import frame

KNOBS = [
    {"name": "name", "label": "Knob", "field": "name", "align": "left"},
    {"name": "importance", "label": "Explains alone", "field": "importance", "align": "right"},
    {"name": "about", "label": "Decides", "field": "about", "align": "left"},
]


def sketch_options(found: Json) -> dict[str, str]:
    """Sketches to choose from, by hash, with the number of their trials and the fastest."""
    return {
        each["sketch"]: f"{each['sketch'][:12]}: {fmt.count(each['trials'])} trials, {fmt.latency(each['latency'])}"
        for each in found["sketches"]
        if each["sketch"] is not None
    }


def knob_rows(found: Json) -> list[Json]:
    """Knobs as the table shows them."""
    return [
        {"name": each["name"], "importance": fmt.share(each["importance"]), "about": each["about"]}
        for each in found["knobs"]
    ]


class Plots:
    """The charts of one analysis."""

    def __init__(self) -> None:
        self._found: Json | None = None
        with ui.element("section").classes("ts-card"):
            ui.label("Predicted against measured").classes("ts-head").props("role=heading aria-level=2")
            self._unranked = empty("insights", "No score yet", "No cost model ranked these trials.")
            with ui.element("div").classes("ts-charts") as self._model:
                self._predicted = Chart("Score of the cost model against latency", 300).mark("predicted")
                self._ranking = Chart("How well the cost model ranked each round", 300).mark("ranking")
        with ui.element("section").classes("ts-card"):
            ui.label("Importance of knobs").classes("ts-head").props("role=heading aria-level=2")
            ui.label(
                "What each value alone explains of the latencies of the trials that the search chose. An effect that "
                "needs two knobs at once does not show."
            ).classes("ts-soft")
            self._importance = Chart("Importance of knobs", 320).mark("importance")
        with ui.element("section").classes("ts-card"):
            ui.label("Parallel coordinates").classes("ts-head").props("role=heading aria-level=2")
            self._parallel = Chart("Knobs of each trial and its latency", 380).mark("parallel")
        with ui.element("section").classes("ts-card"):
            with ui.row().classes("w-full items-center justify-between"):
                ui.label("Latency by one knob").classes("ts-head").props("role=heading aria-level=2")
                self._knob = ui.select({}, label="Knob", on_change=self._draw_slice).props("dense outlined")
            self._slice = Chart("Latency by the value of one knob", 300).mark("slice")
        with ui.element("section").classes("ts-card"):
            self._table = whole_table(KNOBS, "name")

    def show(self, found: Json) -> None:
        """Draw again when there is something new."""
        if found == self._found:
            return
        self._found = found
        scored = any(point["score"] is not None for point in found["points"])
        self._unranked.set_visibility(not scored)
        self._model.set_visibility(scored)
        self._predicted.draw(charts.predicted(found["points"]))
        self._ranking.draw(charts.ranking(found["rounds"]))
        self._importance.draw(charts.importance(found["knobs"]))
        self._parallel.draw(charts.parallel(found["knobs"], found["points"]))
        names = {at: knob["name"] for at, knob in enumerate(found["knobs"])}
        self._knob.set_options(names, value=self._knob.value if self._knob.value in names else next(iter(names), None))
        self._draw_slice()
        self._table.rows = knob_rows(found)
        self._table.update()

    def _draw_slice(self) -> None:
        at = self._knob.value
        if self._found is not None and at is not None:
            self._slice.draw(charts.slices(self._found["knobs"][at]["name"], at, self._found["points"]))


def build(context: Context, job_id: str, task_id: int, sketch: str) -> None:
    """Fill the page; ``sketch``: the one to begin with."""
    visitor, path = context.visitor(), f"/jobs/{job_id}/tasks/{task_id}/analysis"
    with frame(f"Task {task_id}", logged_in=visitor.logged_in, on_logout=visitor.logout):
        banner, invented = Banner(), Banner()
        with ui.element("section").classes("ts-card"):
            with ui.row().classes("w-full items-center justify-between"):
                heading = ui.label(f"Task {task_id}").classes("ts-title").props("role=heading aria-level=1")
                with ui.row().classes("gap-3"):
                    ui.link("Its trials", f"/jobs/{job_id}/trials?task={task_id}").classes("ts-link")
                    ui.link("Back to the job", f"/jobs/{job_id}").classes("ts-link")
            about = ui.label().classes("ts-soft")
            chosen = ui.select({}, label="Sketch").classes("w-full").props("dense outlined")
        plots = Plots()
    told: str | None = None

    async def refresh() -> float:
        nonlocal told
        found = await visitor.call(lambda api: api.analysis(job_id, task_id, sketch or None))
        heading.set_text(found["name"])
        invented.simulated(found["simulated"])
        shown, trials = len(found["points"]), fmt.count(found["trials"])
        about.set_text(f"{trials} trials that ran" + (f", {fmt.count(shown)} shown" if shown < found["trials"] else ""))
        told = found["sketch"]
        chosen.set_options(sketch_options(found), value=told)
        plots.show(found)
        return 5.0

    def choose() -> None:
        """Another sketch has other axes: a page of its own."""
        if chosen.value not in (None, told):
            ui.navigate.to(f"{path}?{urlencode({'sketch': chosen.value})}")

    keep_fresh(refresh, banner, path)
    chosen.on_value_change(choose)
