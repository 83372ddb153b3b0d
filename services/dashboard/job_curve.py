"""The best-so-far chart of a job's page, with what its latency may be held against."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from nicegui import ui

from services.dashboard.api import Api, Json
from services.dashboard.chart import Chart
from services.dashboard.charts import CHOICES, LEAST, SOFT, Mark, best_so_far
from services.dashboard.compare import title
from services.dashboard.parts import empty

OTHERS = 20
"""Other jobs of the model that can be chosen, the newest."""
MOST_CHOSEN = 5


def marks(job: Json, untuned: float | None, least: float | None) -> list[Mark]:
    """Lines across the chart: untuned, other runtimes that were measured, and the machine's limit."""
    found = [Mark("untuned", untuned)] if untuned else []
    found += [Mark(each["runtime"], each["seconds"], SOFT) for each in job.get("references") or [] if each["seconds"]]
    return [*found, *([Mark("limit of the machine", least, LEAST)] if least else [])]


class Curve:
    """The chart.

    Args:
        chosen: called when other jobs are chosen; it loads their curves and shows everything again.
    """

    def __init__(self, chosen: Callable[[], Awaitable[None]]) -> None:
        self._drawn: tuple[Any, ...] = ([], [], {})
        with ui.element("section").classes("ts-card"):
            with ui.row().classes("w-full items-center justify-between"):
                ui.label("Best latency so far").classes("ts-head").props("role=heading aria-level=2")
                with ui.row().classes("items-center gap-4"):
                    self._axis = ui.toggle(CHOICES, value="trials", on_change=self._draw)
                    self._axis.props("no-caps dense unelevated aria-label='Horizontal axis'")
                    self._log = ui.switch("Log scale", value=True, on_change=self._draw).props("dense")
                    self._lines = ui.switch("References", value=True, on_change=self._draw).props("dense")
            self._others = ui.select({}, multiple=True, label="Other jobs of this model", on_change=chosen)
            self._others.classes("w-full").props(f"dense outlined use-chips max-values={MOST_CHOSEN}")
            self._others.set_visibility(False)
            self._empty = empty("show_chart", "Nothing measured yet", "The curve starts once each task has a latency.")
            self._chart = Chart("Best latency so far", 330).mark("curve")

    @property
    def chosen(self) -> list[str]:
        """Ids of the other jobs whose curves are wanted."""
        return list(self._others.value or [])

    def offer(self, jobs: list[Json]) -> None:
        """Know the other jobs of the model."""
        options = {job["id"]: title(job) for job in jobs}
        if options != self._others.options:
            self._others.set_options(options, value=[each for each in self.chosen if each in options])
            self._others.set_visibility(bool(options))

    def show(self, points: list[Json], lines: list[Mark], others: dict[str, list[Json]]) -> None:
        """Draw again when there is something new; ``others`` are points of other jobs by their ids."""
        names = dict(self._others.options)
        named = {str(names.get(job, job)): found for job, found in others.items()}
        if (points, lines, named) != self._drawn:
            self._drawn = (points, lines, named)
            self._draw()
        self._empty.set_visibility(not points)
        self._chart.set_visibility(bool(points))

    def _draw(self) -> None:
        points, lines, named = self._drawn
        shown = lines if self._lines.value else []
        if points:
            self._chart.draw(best_so_far(points, self._axis.value, shown, log=self._log.value, others=named))


def others_of(api: Api, job: Json) -> list[Json]:
    """The newest other jobs of a job's model."""
    found = api.jobs(OTHERS + 1, model=job["model_id"])["items"]
    return [each for each in found if each["id"] != job["id"]][:OTHERS]
