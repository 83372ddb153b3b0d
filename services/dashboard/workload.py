"""The page of one workload: its best schedules by target, and its fastest records of all jobs."""

from __future__ import annotations

from urllib.parse import urlencode

from nicegui import ui

from services.dashboard import format as fmt
from services.dashboard.api import Api, Json
from services.dashboard.context import Context, keep_fresh
from services.dashboard.listing import LINK
from services.dashboard.parts import Banner, download, whole_table, words
from services.dashboard.theme import frame

FASTEST = 20
TARGETS = [
    {"name": "device_class", "label": "Device class", "field": "device_class", "align": "left"},
    {"name": "precision", "label": "Precision", "field": "precision", "align": "left"},
    {"name": "best", "label": "Best schedule", "field": "best", "align": "right"},
    {"name": "records", "label": "Records", "field": "records", "align": "right"},
    {"name": "failures", "label": "Failures", "field": "failures", "align": "right"},
]
RECORDS = [
    {"name": "id", "label": "Record", "field": "id", "align": "left"},
    {"name": "latency", "label": "Latency", "field": "latency", "align": "right"},
    {"name": "device_class", "label": "Device class", "field": "device_class", "align": "left"},
    {"name": "processor", "label": "Processor", "field": "processor", "align": "left"},
    {"name": "precision", "label": "Precision", "field": "precision", "align": "left"},
    {"name": "origin", "label": "Origin", "field": "origin", "align": "left"},
]


def target_rows(workload: Json) -> list[Json]:
    """Records by target and precision, with the best schedules of the target."""
    best: dict[str, list[str]] = {}
    for each in workload["best"]:
        best.setdefault(each["target"], []).append(f"{fmt.latency(each['latency'])} ({each['cache']})")
    return [
        {
            "key": f"{group['target']} {group['precision']}",
            "device_class": group["device_class"],
            "precision": group["precision"],
            "best": ", ".join(best.get(group["target"], [])) or fmt.NOTHING,
            "records": fmt.count(group["records"]),
            "failures": fmt.count(group["failures"]),
        }
        for group in workload["groups"]
    ]


def record_rows(records: list[Json]) -> list[Json]:
    """Records; those of one's own jobs lead to their trials."""
    return [
        {
            "key": record["id"],
            "id": str(record["id"]),
            "link": f"/jobs/{record['job']}/trials/{record['id']}" if record["job"] else "",
            "latency": fmt.latency(record["latency"]),
            "device_class": record["device_class"],
            "processor": record["processor"],
            "precision": record["precision"],
            "origin": "simulated" if record["simulated"] else words(record["origin"]),
        }
        for record in records
    ]


def build(context: Context, workload: str) -> None:
    """Fill the page."""
    visitor = context.visitor()
    with frame("Workload", logged_in=visitor.logged_in, on_logout=visitor.logout):
        banner = Banner()
        with ui.element("section").classes("ts-card"):
            with ui.row().classes("w-full items-center justify-between"):
                title = ui.label(workload).classes("ts-title").props("role=heading aria-level=1")
                download("Its records (Parquet)", f"/records.parquet?{urlencode({'workload': workload})}")
            about = ui.label().classes("ts-soft")
        tables = []
        for heading, columns in (("Best schedules", TARGETS), ("Fastest records", RECORDS)):
            with ui.element("section").classes("ts-card"):
                ui.label(heading).classes("ts-head").props("role=heading aria-level=2")
                table = whole_table(columns, "key")
                tables.append(table)
        tables[1].add_slot("body-cell-id", LINK)

    async def refresh() -> float:
        found, fastest = await visitor.call(lambda api: _load(api, workload))
        title.set_text(found["name"])
        shapes = ", ".join(f"{arg['dtype']}{list(arg['shape'])}" for arg in found["args"])
        about.set_text(f"{found['family']} · {found['flops']:.3g} FLOPs · {shapes} · {workload}")
        for table, rows in zip(tables, (target_rows(found), record_rows(fastest)), strict=True):
            if table.rows != rows:
                table.rows = rows
                table.update()
        return 10.0

    keep_fresh(refresh, banner, f"/records/{workload}")


def _load(api: Api, workload: str) -> tuple[Json, list[Json]]:
    return api.workload(workload), api.fastest(workload, FASTEST)
