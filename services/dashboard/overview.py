"""The overview: every job, the devices, and how to submit."""

from __future__ import annotations

import datetime as dt
from html import escape
from typing import Any

from nicegui import ui

from services.dashboard import format as fmt
from services.dashboard.context import Context, at_once, keep_fresh, own_url
from services.dashboard.parts import Banner, Figure, empty, fill_rows, words
from services.dashboard.theme import COLOURS, frame
from tunesmith.states import JobState

PAGE = 50
ACTIVE = {"queued", "preparing", "running", "paused", "finishing", "cancelling"}

COLUMNS = [
    {"name": "state", "label": "State", "field": "state", "align": "left", "sortable": True},
    {"name": "name", "label": "Job", "field": "name", "align": "left", "sortable": True},
    {"name": "target", "label": "Target", "field": "target", "align": "left", "sortable": True},
    {"name": "reference", "label": "Fastest runtime", "field": "reference", "align": "right", "sortable": True},
    {"name": "untuned", "label": "Untuned", "field": "untuned", "align": "right", "sortable": True},
    {"name": "current", "label": "Current", "field": "current", "align": "right", "sortable": True},
    {"name": "speedup", "label": "Speed-up", "field": "speedup", "align": "right", "sortable": True},
    {"name": "trials", "label": "Trials", "field": "trials", "align": "left", "sortable": True},
    {"name": "eta", "label": "Time left", "field": "eta", "align": "right", "sortable": True},
]

CELLS = {
    "state": """<span :class="'ts-badge ts-' + props.row.colour">{{ props.row.state_text }}</span>""",
    "name": """<div class="ts-wide"><a :href="'/jobs/' + encodeURIComponent(props.row.id)">{{ props.row.name }}</a>
      <div class="ts-soft">{{ props.row.model }}</div>
      <span v-for="tag in props.row.tags" class="ts-badge ts-idle">{{ tag }}</span></div>""",
    "target": """<div style="max-width:220px; white-space:normal">{{ props.row.target }}
      <div v-if="props.row.waiting" class="ts-soft">waiting for {{ props.row.waiting }}</div></div>""",
    "reference": """{{ props.row.reference_text }}
      <div class="ts-soft">{{ props.row.reference_name }}</div>""",
    "untuned": "{{ props.row.untuned_text }}",
    "current": "<b>{{ props.row.current_text }}</b>",
    "speedup": "{{ props.row.speedup_text }}",
    "trials": """<div style="min-width:110px">{{ props.row.trials_text }}
      <div class="ts-bar" style="margin-top:4px"><i :style="{width: props.row.done + '%'}"></i></div></div>""",
    "eta": "{{ props.row.eta_text }}",
}

CHOICE = {
    "head": 'aria-label="Choose every job"',
    "row": """:aria-label="'Choose ' + props.row.name" """,
}
"""Names of the boxes that choose jobs to compare, by place."""


def row(job: dict[str, Any]) -> dict[str, Any]:
    """A line of the jobs table: raw values to sort by and texts to show."""
    progress, speed = job.get("progress") or {}, job.get("latency") or {}
    waiting = job.get("waiting_for") or {}
    return {
        "id": job["id"],
        "state": job["state"],
        "state_text": words(job["state"]),
        "colour": COLOURS.get(job["state"], "idle"),
        "name": job.get("name") or model_name(job) or job["id"],
        "model": model_name(job) if job.get("name") not in (None, "", model_name(job)) else "",
        "tags": job.get("tags") or [],
        "target": target_text(job) + (" (simulated)" if job.get("simulated") else ""),
        "waiting": waiting.get("device_class", ""),
        **_reference(job.get("reference")),
        "untuned": speed.get("untuned"),
        "untuned_text": fmt.latency(speed.get("untuned")),
        "current": speed.get("current"),
        "current_text": fmt.unmeasured(job) or fmt.latency(speed.get("current")),
        "speedup": speed.get("speedup"),
        "simulated": bool(job.get("simulated")),
        "speedup_text": fmt.change(speed),
        "trials": progress.get("trials", 0),
        "trials_text": fmt.trials(progress),
        "done": round(100 * done(job)),
        "eta": progress.get("eta_seconds"),
        "eta_text": fmt.duration(progress.get("eta_seconds")) if job["state"] in ACTIVE else fmt.NOTHING,
    }


def _reference(found: dict[str, Any] | None) -> dict[str, Any]:
    """The tuned latency as a part of the fastest other runtime's."""
    if not found:
        return {"reference": None, "reference_text": fmt.NOTHING, "reference_name": ""}
    return {
        "reference": found["ratio"],
        "reference_text": f"{found['ratio']:.3g}",
        "reference_name": f"of {found['runtime']}'s {fmt.latency(found['seconds'])}",
    }


def model_name(job: dict[str, Any]) -> str:
    """The model's name, else its id."""
    return str(job.get("model_name") or job.get("model_id") or "")


def target_text(job: dict[str, Any]) -> str:
    """The target as the user gave it."""
    target = job.get("target")
    if isinstance(target, dict):
        plain = {name: value for name, value in target.items() if not isinstance(value, (dict, list))}
        return " ".join(str(value) if name == "kind" else f"{name}={value}" for name, value in plain.items())
    return str(target or "")


def done(job: dict[str, Any]) -> float:
    """How much of the budget is spent, 0 to 1: whichever limit is nearer."""
    if job["state"] == "succeeded":
        return 1.0
    progress = job.get("progress") or {}
    parts = [
        (progress.get(spent) or 0) / progress[limit]
        for spent, limit in (("trials", "trials_budget"), ("seconds", "seconds_budget"), ("labels", "labels_wanted"))
        if progress.get(limit)
    ]
    return min(1.0, max(parts, default=0.0))


class DeviceStrip:
    """One chip per device, grey when it has not been heard of lately."""

    def __init__(self) -> None:
        self._box = ui.element("div").classes("flex flex-wrap gap-2 w-full")
        self._shown: list[tuple[str, str, str, str]] | None = None

    def show(self, devices: list[dict[str, Any]]) -> None:
        """Draw again when something that shows has changed."""
        now = dt.datetime.now(dt.timezone.utc)
        chips = [self._chip(device, now) for device in devices]
        if chips == self._shown:
            return
        self._shown = chips
        self._box.clear()
        with self._box:
            if not chips:
                empty("memory", "No device yet", "Jobs wait until a measure worker registers one.").set_visibility(True)
            else:
                ui.html("".join(map(chip, chips)), sanitize=False).style("display:contents")

    @staticmethod
    def _chip(device: dict[str, Any], now: dt.datetime) -> tuple[str, str, str, str]:
        """Name, colour, facts and device classes."""
        if not device.get("alive"):
            state, colour = f"gone, seen {fmt.ago(device.get('seen_at'), now)}", "idle"
        elif device.get("busy"):
            state, colour = "measuring", "busy"
        else:
            state, colour = "idle", "good"
        health = device.get("health", "ok")
        if device.get("alive") and health != "ok":
            state, colour = health, "warn" if health == "drifting" else "bad"
        cores = f"{device['cores']} cores" if device.get("cores") else ""
        facts = [state, cores, *calibration_facts(device), "simulated" if device.get("simulated") else ""]
        return device["name"], colour, " · ".join(f for f in facts if f), ", ".join(device.get("device_classes") or [])


def chip(shown: tuple[str, str, str, str]) -> str:
    """A device in HTML, by its name, its colour, facts and device classes."""
    name, colour, facts, classes = map(escape, shown)
    return (
        f'<div class="ts-device" title="{classes}"><span class="ts-dot" style="color:var(--ts-{colour})"></span>'
        f'<div style="min-width:0"><div class="font-semibold text-sm">{name}</div><div class="ts-soft">{facts}</div>'
        "</div></div>"
    )


def calibration_facts(device: dict[str, Any]) -> list[str]:
    """Peak, noise floor and, when it differs, drift of a device that was calibrated."""
    found = device.get("calibration")
    if not found:
        return []
    drifted = device.get("health", "ok") != "ok"
    slower = [f"{fmt.significant(found['drift'])} × its first latency"] if drifted else []
    return [fmt.rate(found["peak_flops"]), fmt.noise(found["noise_floor"]), *slower]


class JobsTable:
    """The jobs, newest first, a page at a time."""

    def __init__(self, grow: Any) -> None:
        self._empty = empty("rocket_launch", "No job yet", "Submit one with the commands below; it shows up here.")
        self._none = empty("search_off", "No such job", "No job has this name, this tag or this state.")
        self._table = ui.table(columns=COLUMNS, rows=[], row_key="id", selection="multiple")
        self._table.classes("ts-table w-full").props("flat")
        boxes = {place: f'<q-checkbox v-model="props.selected" dense {label} />' for place, label in CHOICE.items()}
        self._table.add_slot("header-selection", boxes["head"])
        fill_rows(self._table, CELLS, boxes["row"])
        self._more = ui.button("Show older jobs", on_click=grow).props("flat no-caps").classes("self-center")
        self._total = ui.label().classes("ts-soft")

    @property
    def chosen(self) -> list[str]:
        """Ids of the jobs that are ticked."""
        return [row["id"] for row in self._table.selected]

    def show(self, rows: list[dict[str, Any]], *, total: int | None, more: bool, some: bool) -> None:
        """Replace the rows of ``total``; with ``some`` they are those that were asked for."""
        if rows != self._table.rows:
            self._table.rows = rows
            self._table.update()
        self._empty.set_visibility(not rows and not some)
        self._none.set_visibility(not rows and some)
        self._table.set_visibility(bool(rows))
        self._more.set_visibility(more)
        self._total.set_text(f"{len(rows):,} of {total:,}" if rows and total is not None else "")


def build(context: Context, tag: str) -> None:
    """Fill the overview page; ``tag``: of the jobs that are shown first."""
    visitor = context.visitor()
    pages = 1

    def grow() -> None:
        nonlocal pages
        pages += 1

    with frame("Overview", logged_in=visitor.logged_in, on_logout=visitor.logout):
        banner = Banner()
        with ui.element("div").classes("ts-grid"):
            active, finished, live = Figure("Active jobs"), Figure("Finished jobs"), Figure("Live devices")
            best = Figure("Best speed-up", strong=True)
        with ui.element("section").classes("ts-card"):
            with ui.row().classes("w-full items-center justify-between"):
                ui.label("Jobs").classes("ts-head").props("role=heading aria-level=1")
                with ui.row().classes("items-center gap-4"):
                    ui.link("Submit a job", "/submit").classes("ts-link")
                    compared = ui.button("Compare", icon="stacked_line_chart").props("outline no-caps dense")
            with ui.row().classes("items-center gap-3"):
                find = ui.input("Find").props("dense outlined clearable debounce=300")
                tagged = ui.input("Tag", value=tag).props("dense outlined clearable debounce=300")
                owner = ui.input("Owner").props("dense outlined clearable debounce=300")
                owner.set_visibility(visitor.logged_in)
                state = ui.select({"": "Any state", **{each.value: words(each.value) for each in JobState}}, value="")
                state.props("dense outlined label=State")
            table = JobsTable(grow)
            compared.on_click(lambda: ui.navigate.to(f"/compare?jobs={','.join(table.chosen)}"))
            compared.bind_enabled_from(table, "chosen", backward=lambda chosen: len(chosen) > 1)
        with ui.element("section").classes("ts-card"):
            ui.label("Devices").classes("ts-head").props("role=heading aria-level=2")
            strip = DeviceStrip()
        _hint(own_url())

    async def refresh() -> float:
        fields = {"q": find, "state": state, "tag": tagged, "owner": owner}
        wanted = {name: field.value or None for name, field in fields.items()}
        async with visitor.calls() as call:
            listed, known = call(lambda api: _load(api, pages, wanted)), call(lambda api: api.devices())
            jobs, cursor, total = await listed
            devices = await known
        rows = [row(j) for j in jobs]
        more = cursor is not None
        table.show(rows, total=total, more=more, some=any(wanted.values()))
        strip.show(devices)
        busy = sum(r["state"] in ACTIVE for r in rows)
        suffix = "+" if more else ""
        active.show(f"{busy}")
        finished.show(f"{len(rows) - busy}{suffix}")
        live.show(f"{sum(bool(d.get('alive')) for d in devices)} / {len(devices)}")
        best.show(fmt.speedup(max((r["speedup"] or 0 for r in rows if not r["simulated"]), default=0)))
        return 2.0 if busy else 4.0

    async def changed() -> None:
        await at_once(refresh, banner)

    keep_fresh(refresh, banner, "/")
    for field in (find, state, tagged, owner):
        field.on_value_change(changed)


def _load(api: Any, pages: int, wanted: dict[str, Any]) -> tuple[list[dict[str, Any]], str | None, int | None]:
    """The first pages of the jobs that are wanted, where the next one begins, and how many there are in all."""
    jobs: list[dict[str, Any]] = []
    cursor: str | None = None
    total: int | None = None
    for _ in range(pages):
        page = api.jobs(PAGE, cursor, **wanted)
        jobs += page["items"]
        cursor, total = page["next_cursor"], page["total"]
        if cursor is None:
            break
    return jobs, cursor, total


def _hint(url: str) -> None:
    with ui.element("section").classes("ts-card"):
        ui.label("Submit a job").classes("ts-head").props("role=heading aria-level=2")
        commands = (
            f"tunesmith tune model.onnx --trials 500 --server {url}\n"
            f'curl -X POST {url}/v1/jobs -H "Content-Type: application/json" \\\n'
            """  -d '{"operator": "gemm:1024x1024x1024:float32", "target": "cpu", "budget": {"trials": 64}}'"""
        )
        with ui.element("pre").classes("ts-code"):
            ui.label(commands).style("white-space:pre-wrap")
