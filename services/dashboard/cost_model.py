"""The page of one cost model: the versions that it is one of, what each learnt from, and how their metrics changed."""

from __future__ import annotations

from typing import Any

from nicegui import ui

from services.dashboard import format as fmt
from services.dashboard.api import Api, Json
from services.dashboard.chart import Chart
from services.dashboard.charts import SERIES, SOFT
from services.dashboard.context import Context, keep_fresh
from services.dashboard.listing import LINK
from services.dashboard.parts import Banner, empty, whole_table, words
from services.dashboard.theme import frame

VERSIONS = 200
"""Newest versions that are shown."""
COLUMNS = [
    {"name": "number", "label": "Version", "field": "number", "align": "left"},
    {"name": "state", "label": "State", "field": "state", "align": "left"},
    {"name": "trained_on", "label": "Trained on", "field": "trained_on", "align": "right"},
    {"name": "through", "label": "Up to record", "field": "through", "align": "right"},
    {"name": "metrics", "label": "Metrics", "field": "metrics", "align": "left"},
    {"name": "made", "label": "Made", "field": "made", "align": "right"},
]
TEXT = {"color": SOFT, "fontSize": 12}


def metrics_of(model: Json) -> dict[str, float]:
    """Numbers among a model's metrics."""
    found = model["metrics"] or {}
    return {name: value for name, value in found.items() if isinstance(value, int | float)}


def family(model: Json, models: list[Json]) -> list[Json]:
    """Versions of what a model is one of, oldest first: of its job, or of its target where it has none."""
    same = ("job_id", "kind", "precision") if model["job_id"] else ("job_id", "kind", "precision", "target")
    found = {each["id"]: each for each in (model, *models) if all(each[name] == model[name] for name in same)}
    return sorted(found.values(), key=lambda each: (each["number"], each["created_at"]))


def version_rows(versions: list[Json], shown: str) -> list[Json]:
    """Lines of the table, the newest first; ``shown`` is the model that the page is about."""
    return [
        {
            "key": each["id"],
            "number": f"{each['number']}" + (" (this one)" if each["id"] == shown else ""),
            "link": "" if each["id"] == shown else f"/costmodels/{each['id']}",
            "state": words(each["state"]),
            "trained_on": fmt.count(each["trained_on"]) + (" (simulated)" if each["simulated"] else ""),
            "through": str(each["trained_through"] or fmt.NOTHING),
            "metrics": ", ".join(f"{words(name).lower()} {value:.3g}" for name, value in metrics_of(each).items())
            or (each["error"] or {}).get("detail", fmt.NOTHING),
            "made": fmt.when(each["created_at"]),
        }
        for each in reversed(versions)
    ]


def over_versions(versions: list[Json]) -> dict[str, Any]:
    """Options of the chart: a line for each metric."""
    names = list(dict.fromkeys(name for each in versions for name in metrics_of(each)))
    return {
        "animation": False,
        "legend": {"type": "scroll", "top": 0, "textStyle": {"color": SOFT}},
        "grid": {"left": 52, "right": 24, "top": 44, "bottom": 46},
        "tooltip": {"trigger": "axis"},
        "xAxis": {
            "type": "category",
            "name": "Version",
            "nameLocation": "middle",
            "nameGap": 28,
            "nameTextStyle": TEXT,
            "axisLabel": TEXT,
            "data": [str(each["number"]) for each in versions],
        },
        "yAxis": {"type": "value", "scale": True, "axisLabel": TEXT, "splitLine": {"lineStyle": {"opacity": 0.22}}},
        "series": [
            {
                "name": words(name),
                "type": "line",
                "data": [metrics_of(each).get(name) for each in versions],
                "itemStyle": {"color": SERIES[number % len(SERIES)]},
            }
            for number, name in enumerate(names)
        ],
    }


def build(context: Context, key: str) -> None:
    """Fill the page."""
    visitor = context.visitor()
    with frame(key, logged_in=visitor.logged_in, on_logout=visitor.logout):
        banner, simulated = Banner(), Banner()
        with ui.element("section").classes("ts-card"):
            with ui.row().classes("w-full items-center justify-between"):
                ui.label(key).classes("ts-title").props("role=heading aria-level=1")
                job = ui.link("Its job", "/").classes("ts-link")
            about = ui.label().classes("ts-soft ts-wrap")
        job.set_visibility(False)
        with ui.element("section").classes("ts-card"):
            ui.label("Metrics over versions").classes("ts-head").props("role=heading aria-level=2")
            nothing = empty("insights", "No metrics yet", "A version has metrics once it is trained.")
            chart = Chart("Metrics of each version", 300).mark("metrics")
        with ui.element("section").classes("ts-card"):
            ui.label("Versions").classes("ts-head").props("role=heading aria-level=2")
            table = whole_table(COLUMNS, "key")
            table.add_slot("body-cell-number", LINK)

    async def refresh() -> float:
        model, versions = await visitor.call(lambda api: _load(api, key))
        simulated.simulated(any(each["simulated"] for each in versions))
        about.set_text(f"{model['kind']} · {model['precision']} · features {model['features']} · {model['target']}")
        if model["job_id"]:
            job.props(f"href='/jobs/{model['job_id']}'")
        job.set_visibility(bool(model["job_id"]))
        measured = any(metrics_of(each) for each in versions)
        nothing.set_visibility(not measured)
        chart.set_visibility(measured)
        chart.draw(over_versions(versions))
        rows = version_rows(versions, key)
        if table.rows != rows:
            table.rows = rows
            table.update()
        return 5.0

    keep_fresh(refresh, banner, f"/costmodels/{key}")


def _load(api: Api, key: str) -> tuple[Json, list[Json]]:
    model = api.cost_model(key)
    return model, family(model, api.cost_models(VERSIONS, None, job=model["job_id"])["items"])
