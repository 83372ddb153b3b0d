"""The page of one device: how noisy, how far drifted and how busy it was lately."""

from __future__ import annotations

from typing import Any

from nicegui import ui

from services.dashboard import format as fmt
from services.dashboard.api import Api, Json
from services.dashboard.chart import Chart
from services.dashboard.charts import BASE, LINE, SOFT
from services.dashboard.context import Context, at_once, keep_fresh
from services.dashboard.parts import Banner, Figure, empty, words
from services.dashboard.theme import frame
from tunesmith.errors import NotFound

SPANS = {24: "Day", 7 * 24: "Week", 14 * 24: "Two weeks"}
"""Hours that can be looked at."""
TEXT = {"color": SOFT, "fontSize": 12}


def history(times: list[Json]) -> dict[str, Any]:
    """Options of the chart: drift on the left, noise and use in percent on the right."""
    drift = [[each["start"], each["drift"]] for each in times]
    noise = [[each["start"], _percent(each["noise_floor"])] for each in times]
    used = [[each["start"], _percent(each["busy"] / each["seen"]) if each["seen"] else None] for each in times]
    return {
        "animation": False,
        "legend": {"top": 0, "textStyle": {"color": SOFT}},
        "grid": {"left": 52, "right": 52, "top": 44, "bottom": 32},
        "tooltip": {"trigger": "axis"},
        "xAxis": {"type": "time", "axisLabel": TEXT},
        "yAxis": [
            {"type": "value", "name": "×", "scale": True, "axisLabel": TEXT, "nameTextStyle": TEXT, **_SOFT_LINE},
            {"type": "value", "name": "%", "min": 0, "axisLabel": TEXT, "nameTextStyle": TEXT, **_NO_LINE},
        ],
        "series": [
            {**_series("Times its first latency", drift, BASE), "type": "line"},
            {**_series("Noise (%)", noise, LINE), "type": "line", "yAxisIndex": 1},
            {**_series("Busy (%)", used, SOFT), "type": "bar", "yAxisIndex": 1, "barMaxWidth": 6},
        ],
    }


_SOFT_LINE = {"splitLine": {"lineStyle": {"color": SOFT, "opacity": 0.22}}}
_NO_LINE = {"splitLine": {"show": False}}


def _percent(share: float | None) -> float | None:
    return None if share is None else round(100 * share, 2)


def _series(name: str, data: list[list[Any]], colour: str) -> dict[str, Any]:
    return {"name": name, "data": data, "showSymbol": len(data) < 3, "itemStyle": {"color": colour}}


def _load(api: Api, name: str, hours: int) -> tuple[Json, list[Json]]:
    found = next((each for each in api.devices() if each["name"] == name), None)
    if found is None:
        raise NotFound(f"there is no device {name}", field="device", value=name)
    return found, api.device_history(name, hours)


def build(context: Context, name: str) -> None:
    """Fill the page."""
    visitor = context.visitor()
    with frame(name, logged_in=visitor.logged_in, on_logout=visitor.logout):
        banner, simulated = Banner(), Banner()
        with ui.element("section").classes("ts-card"):
            with ui.row().classes("w-full items-center justify-between"):
                ui.label(name).classes("ts-title").props("role=heading aria-level=1")
                ui.link("Every device", "/devices").classes("ts-link")
            about = ui.label().classes("ts-soft ts-wrap")
        with ui.element("div").classes("ts-grid"):
            health, used = Figure("Health"), Figure("Busy in the last hour")
            noise, drift, peak = Figure("Noise"), Figure("Times its first latency"), Figure("Peak")
        with ui.element("section").classes("ts-card"):
            with ui.row().classes("w-full items-center justify-between"):
                ui.label("Over time").classes("ts-head").props("role=heading aria-level=2")
                span = ui.toggle(SPANS, value=24, on_change=lambda: at_once(refresh, banner))
                span.props("no-caps dense unelevated aria-label='Time that is shown'")
            nothing = empty("timeline", "Nothing yet", "A device is noted every ten minutes while its worker runs.")
            chart = Chart("Noise, drift and use over time", 320).mark("history")

    async def refresh() -> float:
        device, times = await visitor.call(lambda api: _load(api, name, int(span.value or 24)))
        simulated.simulated(device["simulated"])
        about.set_text(f"{device['cores']} cores · {', '.join(device['device_classes'])} · worker {device['worker']}")
        health.show(words(device["health"]))
        used.show(fmt.share(device["utilisation"]))
        found = device["calibration"] or {}
        noise.show(fmt.noise(found["noise_floor"]) if "noise_floor" in found else fmt.NOTHING)
        drift.show(fmt.significant(found["drift"]) if found.get("drift") else fmt.NOTHING)
        peak.show(fmt.rate(found.get("peak_flops")))
        nothing.set_visibility(not times)
        chart.set_visibility(bool(times))
        chart.draw(history(times))
        return 15.0

    keep_fresh(refresh, banner, f"/devices/{name}")
