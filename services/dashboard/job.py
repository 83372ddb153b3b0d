"""The page of one job."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlencode

from nicegui import ui

from services.dashboard import format as fmt
from services.dashboard.api import Api, Json
from services.dashboard.context import Context, Visitor, at_once, keep_fresh
from services.dashboard.job_curve import Curve, marks, others_of
from services.dashboard.job_edit import Buttons
from services.dashboard.job_parts import Decisions, EventLog, Failures, TaskTable
from services.dashboard.overview import ACTIVE, done, model_name, target_text
from services.dashboard.parts import Banner, Figure, download, paint
from services.dashboard.theme import frame
from tunesmith.measuring.checked import CheckState, against_float32
from tunesmith.measuring.ratio import Verdict
from tunesmith.names import DEFAULT_PRECISION, DEFAULT_SPACE

REASONS = {
    "trials": "all trials spent",
    "seconds": "time is up",
    "converged": "converged",
    "exhausted": "nothing left to propose",
    "collected": "everything collected",
}
REFUSALS = {"fast_math": "no fast math", "winograd": "no Winograd"}
"""What a job says of the approximations that it was not allowed."""
EVENT_PAGES = 5
"""Pages of the newest events, at most, that a page begins with; many events are steps of rounds, which it does not
show."""


def facts(job: dict[str, Any]) -> str:
    """What is tuned with what, and how it ended, in one line."""
    space = f"space {job['space']}" if job.get("space", DEFAULT_SPACE) != DEFAULT_SPACE else ""
    precision = job["precision"] if job.get("precision", DEFAULT_PRECISION) != DEFAULT_PRECISION else ""
    collects = f"collects {job['per_task']} of each task" if job.get("per_task") is not None else ""
    names = [
        collects,
        model_name(job),
        target_text(job),
        job.get("search"),
        job.get("cost_model"),
        job.get("allocator"),
    ]
    seed = f"seed {job['seed']}" if job.get("seed") is not None else ""
    refused = [text for name, text in REFUSALS.items() if not job.get(name, True)]
    ended = REASONS.get(job.get("stop_reason") or "", "")
    return " · ".join(
        str(part) for part in [*names, precision, space, seed, *refused, ended, checked(job), job["id"]] if part
    )


def checked(job: dict[str, Any]) -> str:
    """What the check of the model's outputs came to; empty before it."""
    check = job.get("check") or {}
    state = check.get("state")
    if state == CheckState.NOTHING_CHECKED.value:
        return "nothing was checked: the outputs hardly depend on the inputs"
    if state not in (CheckState.AGREE.value, CheckState.DIFFER.value):
        return ""
    error = check.get("error")
    size = "" if error is None else f", error {error:.1e}"
    return f"outputs {'verified' if state == CheckState.AGREE.value else 'DIFFER'}{size}{_from_float32(job)}"


def _from_float32(job: dict[str, Any]) -> str:
    """How far outputs of a narrow precision lie from those of another runtime; empty for other jobs."""
    found = against_float32(job.get("references") or [])
    if found is None:
        return ""
    error = max(found["error"], found["rms"])
    what = "" if error <= found["tolerance"] else "TOO FAR, "
    return f" · {what}{error:.1e} from {found['runtime']} in float32, {found['tolerance']:g} allowed"


class Header:
    """Name, state, what is tuned with what, and the buttons."""

    def __init__(self, visitor: Visitor, job_id: str, changed: Callable[[], Awaitable[None]]) -> None:
        self._tagged: list[str] = []
        with ui.element("section").classes("ts-card"):
            with ui.row().classes("w-full items-start justify-between gap-3"):
                with ui.element("div").style("min-width:0; flex:1"):
                    with ui.row().classes("items-center gap-3"):
                        self._name = ui.label(job_id).classes("ts-title").props("role=heading aria-level=1")
                        self._state = paint(ui.label(), "queued").mark("state")
                    self._facts = ui.label().classes("ts-soft mt-1")
                    self._tags = ui.row().classes("gap-1 mt-1").mark("tags")
                    self._comment = ui.label().classes("ts-wrap mt-1").style("white-space:pre-wrap")
                self._buttons = Buttons(visitor, job_id, changed)
            self._bar = ui.element("div").classes("ts-bar mt-3").props("role=progressbar aria-label='Budget spent'")
            with self._bar:
                self._fill = ui.element("i").style("width:0%")

    def show(self, job: dict[str, Any]) -> None:
        """Bring the header up to date."""
        self._name.set_text(job.get("name") or model_name(job) or job["id"])
        paint(self._state, job["state"])
        self._facts.set_text(facts(job))
        self._show_tags(job["tags"])
        self._comment.set_text(job["comment"])
        self._comment.set_visibility(bool(job["comment"]))
        self._buttons.show(job)
        percent = round(100 * done(job))
        self._fill.style(f"width:{percent}%")
        self._bar.props(f"aria-valuenow={percent} aria-valuemin=0 aria-valuemax=100")

    def _show_tags(self, tags: list[str]) -> None:
        if tags != self._tagged:
            self._tagged = tags
            self._tags.clear()
            with self._tags:
                for tag in tags:
                    ui.link(tag, f"/?{urlencode({'tag': tag})}").classes("ts-badge ts-idle")


class Notices:
    """Banners that belong to the job's state."""

    def __init__(self) -> None:
        self._waiting, self._simulated, self._notes, self._error = Banner(), Banner(), Banner(), Banner()

    def show(self, job: dict[str, Any]) -> None:
        """Say what the job waits for, what it could not have, and why it failed."""
        waiting = job.get("waiting_for")
        if waiting and "quarantined" in waiting:
            text = f"{waiting['quarantined']} runs far slower than it did. The job continues when it recovers."
            self._waiting.show("warn", "The device is in quarantine", text)
        elif waiting and "resting" in waiting:
            self._waiting.show("warn", f"{waiting['resting']} rests", waiting.get("reason", ""))
        elif waiting and "incompatible" in waiting:
            text = f"The worker of {waiting['incompatible']} is of another version: {waiting.get('reason', '')}"
            self._waiting.show("warn", "Waiting for a worker of this version", text)
        elif waiting and "device_class" in waiting:
            text = f"No live device of class {waiting['device_class']} is registered. The job continues when one does."
            self._waiting.show("warn", "Waiting for a device", text)
        elif waiting:
            self._waiting.show("busy", "Importing the model", "The job begins when its model is split into tasks.")
        else:
            self._waiting.hide()
        self._simulated.simulated(bool(job.get("simulated")))
        if job.get("notes"):
            self._notes.show("busy", "How the model was prepared", "; ".join(job["notes"]))
        else:
            self._notes.hide()
        error = job.get("error")
        if error:
            text = f"{error.get('detail', '')} ({error.get('code', '')})"
            self._error.show("bad", error.get("title") or "Job failed", text)
        else:
            self._error.hide()


def expected(forecast: dict[str, Any]) -> str:
    """Between which bounds the model's latency is expected to be when the budget is spent."""
    bounds = [forecast.get(name) for name in ("low", "high")]
    return fmt.NOTHING if None in bounds else " – ".join(fmt.latency(bound) for bound in bounds)


def change(latency: dict[str, Any]) -> tuple[str, str]:
    """The speed-up, and what it is with its interval."""
    if latency.get("verdict") == Verdict.NO_DIFFERENCE.value:
        return fmt.change(latency), "No schedule changed" if latency.get("schedules") == 0 else "Speed-up"
    low, high = latency.get("interval") or (None, None)
    sure = f", {fmt.speedup(low)} – {fmt.speedup(high)}" if low else ""
    return fmt.change(latency), f"Speed-up{sure}"


def against(job: dict[str, Any]) -> tuple[str, str]:
    """The tuned latency as a part of the fastest other runtime's, and which that is."""
    found = job.get("reference")
    if not found:
        return fmt.NOTHING, f"No reference: {job['reference_missing']}" if job.get("reference_missing") else "Reference"
    low, high = found["interval"]
    precision = ", its default precision" if found["precision"] == "default" else ""
    name = f"Of {found['runtime']}'s {fmt.latency(found['seconds'])}{precision}, {low:.3g} – {high:.3g}"
    if found["verdict"] == Verdict.NO_DIFFERENCE.value:
        return "no difference", name
    return f"{found['ratio']:.3g}", name


class Figures:
    """The numbers under the header."""

    def __init__(self) -> None:
        with ui.element("div").classes("ts-grid"):
            self._untuned, self._current = Figure("Untuned latency"), Figure("Current latency")
            self._reference = Figure("Against the fastest runtime", strong=True)
            self._speedup = Figure("Speed-up")
            self._trials, self._elapsed, self._left = Figure("Trials"), Figure("Elapsed"), Figure("Time left")
            self._expected = Figure("Expected at the end")

    def show(self, job: dict[str, Any], forecast: dict[str, Any]) -> None:
        """Bring the numbers up to date."""
        progress, speed = job.get("progress") or {}, job.get("latency") or {}
        source = f", {speed['source']}" if speed.get("source") and speed.get("untuned") else ""
        source += f", {fmt.count(speed['tasks_rough'])} tasks rough" if speed.get("tasks_rough") else ""
        self._untuned.show(fmt.latency(speed.get("untuned")), f"Untuned latency{source}")
        visited = fmt.unmeasured(job)
        self._current.show(
            visited or fmt.latency(speed.get("current")), "Measured so far" if visited else f"Current latency{source}"
        )
        self._reference.show(*against(job))
        self._speedup.show(*change(speed))
        self._trials.show(fmt.trials(progress))
        self._elapsed.show(fmt.duration(progress.get("seconds")))
        self._left.show(fmt.duration(progress.get("eta_seconds")))
        self._expected.show(expected(forecast))
        for figure in (self._left, self._expected):
            figure.reveal(job["state"] in ACTIVE)


def _downloads(job_id: str) -> None:
    with ui.element("section").classes("ts-card"):
        ui.label("Best schedules").classes("ts-head").props("role=heading aria-level=2")
        ui.label("The fastest schedule of each task so far.").classes("ts-soft mb-2")
        with ui.row().classes("gap-2"):
            for form, label in (("jsonl", "JSON log"), ("metaschedule", "MetaSchedule database (zip)")):
                download(label, f"/jobs/{job_id}/best/{form}")


def _head(api: Api, job_id: str) -> tuple[Json, Json]:
    """The job, and a forecast as long as there is anything to forecast."""
    job = api.job(job_id)
    return job, api.forecast(job_id) if job["state"] in ACTIVE else {}


def _curves(api: Api, job_id: str, others: list[str]) -> tuple[Json, dict[str, list[Json]]]:
    """The job's curve, and points of ``others``."""
    return api.curve(job_id), {other: api.curve(other)["points"] for other in others}


def _history(api: Api, job_id: str, after: int) -> tuple[list[Json], list[Json], list[Json]]:
    """Decisions, failures, and events after one."""
    events = api.events(job_id, after) if after else api.newest_events(job_id, EVENT_PAGES, EventLog.full)
    return api.decisions(job_id, Decisions.NEWEST), api.failures(job_id), events


def build(context: Context, job_id: str) -> None:
    """Fill the page of ``job_id``."""
    visitor = context.visitor()
    with frame("Job", logged_in=visitor.logged_in, on_logout=visitor.logout):
        banner = Banner()
        header = Header(visitor, job_id, lambda: at_once(refresh, banner))
        notices, figures, curve = Notices(), Figures(), Curve(lambda: at_once(refresh, banner))
        tasks, decisions = TaskTable(job_id, lambda: at_once(refresh, banner)), Decisions()
        with ui.element("div").classes("ts-two ts-below"):
            with ui.column().classes("gap-4 w-full"):
                failures = Failures()
                _downloads(job_id)
            events = EventLog()

    siblings: list[Json] | None = None
    least: float | None = None

    async def refresh() -> float:
        nonlocal siblings, least
        async with visitor.calls() as call:
            head, lines = call(lambda api: _head(api, job_id)), call(lambda api: _curves(api, job_id, curve.chosen))
            listed = call(lambda api: api.tasks(job_id, tasks.find))
            past = call(lambda api: _history(api, job_id, events.last))
            limit = call(lambda api: api.roofline(job_id)["seconds"]) if least is None else None
            job, forecast = await head
            family = call(lambda api: others_of(api, job)) if siblings is None else None
            header.show(job)
            notices.show(job)
            figures.show(job, forecast)
            taken, failed, happened = await past
            decisions.show(taken)
            failures.show(failed, job["progress"]["trials"])
            events.add(happened)
            tasks.show((await listed)["items"], job["progress"]["tasks"])
            if family is not None:  # once, and the limit until it is there: neither changes afterwards
                siblings = await family
                curve.offer(siblings)
            if limit is not None:
                least = await limit
            drawn, others = await lines
            curve.show(drawn["points"], marks(job, drawn["untuned"], least), others)
        return 2.0 if job["state"] in ACTIVE else 10.0

    keep_fresh(refresh, banner, f"/jobs/{job_id}")
