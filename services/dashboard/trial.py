"""The page of one trial: what it decided, what was measured, and its program."""

from __future__ import annotations

from typing import Any

from nicegui import ui

from services.dashboard import format as fmt
from services.dashboard.api import Api, Json
from services.dashboard.chart import Chart
from services.dashboard.charts import samples
from services.dashboard.context import Context, keep_fresh
from services.dashboard.parts import Banner, Figure, whole_table, words
from services.dashboard.theme import frame
from services.dashboard.trials import invented
from tunesmith.answers.trials import ProgramBody
from tunesmith.states import WorkState, is_final

KNOBS = [
    {"name": "name", "label": "Knob", "field": "name", "align": "left"},
    {"name": "value", "label": "Value", "field": "value", "align": "left"},
    {"name": "about", "label": "Decides", "field": "about", "align": "left"},
]
FACTS = [
    {"name": "name", "label": "Name", "field": "name", "align": "left"},
    {"name": "value", "label": "Value", "field": "value", "align": "left"},
]
FORMS = {"scheduled": "Program", "difference": "Difference", "plain": "Without schedule"}
MAX_SHOWN = 100_000
"""Characters of a program on the page; the whole text is in REST and on the command line."""


def knob_rows(trial: Json) -> list[Json]:
    """Knobs with their values as text."""
    return [
        {
            "name": knob["name"],
            "value": " × ".join(map(str, knob["value"])) if isinstance(knob["value"], list) else str(knob["value"]),
            "about": knob["about"],
        }
        for knob in trial["knobs"]
    ]


def fact_rows(trial: Json) -> list[Json]:
    """Where, how and with which message it was measured."""
    own = {
        "workload": trial["workload"],
        "sketch": trial["sketch"] or "default schedule",
        "build": fmt.latency(trial["build_seconds"]),
        "run": fmt.latency(trial["run_seconds"]),
        "kernel alone": fmt.latency(trial["device_seconds"]),
        "stopped": words(trial["stopped"]) if trial["stopped"] else None,
        "equal code": "samples of a candidate with equal code" if trial["duplicate"] else None,
        "measured": trial["created_at"],
        "message": trial["message"] or None,
    }
    there = {f"environment: {name}": value for name, value in sorted(trial["environment"].items())}
    return [{"name": name, "value": str(value)} for name, value in {**own, **there}.items() if value is not None]


def text_of(program: Json, form: str) -> str:
    """A form of the program that fits the page."""
    text = ProgramBody.read(program).difference() if form == "difference" else program[form]
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}\n… cut: {len(text):,} characters"


class Program:
    """The program as text; a worker writes it when somebody looks."""

    def __init__(self) -> None:
        self._found: Json | None = None
        with ui.element("section").classes("ts-card"):
            with ui.row().classes("w-full items-center justify-between"):
                ui.label("Program").classes("ts-head").props("role=heading aria-level=2")
                self._form = ui.toggle(FORMS, value="scheduled", on_change=self._draw)
                self._form.props("no-caps dense unelevated aria-label='Form of the program'")
            self._state = ui.label("A worker writes it …").classes("ts-soft")
            with ui.element("pre").classes("ts-code ts-program").props("tabindex=0 aria-label='Program in TVMScript'"):
                self._text = ui.label().style("white-space:pre; overflow-wrap:normal").mark("program")

    @property
    def known(self) -> bool:
        """Whether nothing new is to be expected."""
        return self._found is not None and is_final(WorkState(self._found["state"]))

    def show(self, program: Json) -> None:
        """Take in an answer."""
        if program != self._found:
            self._found = program
            self._draw()

    def _draw(self) -> None:
        found = self._found
        if found is None or found["scheduled"] is None:
            problem = (found or {}).get("error") or {}
            self._state.set_text(problem.get("detail", "A worker writes it …"))
            return
        self._state.set_text("TVMScript")
        self._text.set_text(text_of(found, self._form.value))


class Figures:
    """The numbers on top."""

    def __init__(self) -> None:
        with ui.element("div").classes("ts-grid"):
            self._latency = Figure("Latency", strong=True)
            self._best, self._untuned, self._rate = Figure("Best of the task"), Figure("Untuned"), Figure("Throughput")
            self._measured, self._predicted = Figure("Place in its batch"), Figure("Place by the cost model")

    def show(self, trial: Json, peak: float | None) -> None:
        """Replace the numbers."""
        low, high = trial["interval"] or (None, None)
        sure = f", {fmt.latency(low)} – {fmt.latency(high)}" if low is not None else ""
        failed = words(trial["failure"]) if trial["failure"] else ""
        self._latency.show(failed or fmt.latency(trial["latency"]), f"Latency{sure}")
        self._best.show(fmt.latency(trial["best_latency"]))
        self._untuned.show(fmt.latency(trial["untuned_latency"]))
        rate = trial["gflops"] * 1e9 if trial["gflops"] else None
        part = f", {fmt.share(rate / peak)} of the device's peak" if rate and peak else ""
        self._rate.show(fmt.rate(rate), f"Throughput{part}")
        size = trial["batch_size"] or None
        self._measured.show(_place(trial["measured_place"], size))
        self._predicted.show(_place(trial["predicted_place"], size), f"Place by the cost model{_score(trial)}")


def _score(trial: Json) -> str:
    """What the cost model expected, and how far its members lie apart."""
    score, apart = trial["predicted_score"], trial["uncertainty"]
    sure = f" ± {apart:.2g}" if apart is not None else ""
    return "" if score is None else f", score {score:.3g}{sure}"


def _place(place: int | None, size: int | None) -> str:
    return fmt.NOTHING if place is None else fmt.count(place, size)


def build(context: Context, job_id: str, trial_id: int) -> None:
    """Fill the page."""
    visitor = context.visitor()
    with frame(f"Trial {trial_id}", logged_in=visitor.logged_in, on_logout=visitor.logout):
        banner, simulated = Banner(), Banner()
        with ui.element("section").classes("ts-card"):
            with ui.row().classes("w-full items-center justify-between"):
                title = ui.label(f"Trial {trial_id}").classes("ts-title").props("role=heading aria-level=1")
                ui.link("Every trial", f"/jobs/{job_id}/trials").classes("ts-link")
            about = ui.label().classes("ts-soft")
        figures = Figures()
        with ui.element("section").classes("ts-card"):
            ui.label("Decisions").classes("ts-head").props("role=heading aria-level=2")
            knobs = whole_table(KNOBS, "name")
            knobs.mark("knobs")
        program = Program()
        with ui.element("section").classes("ts-card"):
            ui.label("Samples").classes("ts-head").props("role=heading aria-level=2")
            chart = Chart("Samples of the latency", 220)
        with ui.element("section").classes("ts-card"):
            ui.label("Circumstances").classes("ts-head").props("role=heading aria-level=2")
            facts = whole_table(FACTS, "name")

    async def refresh() -> float:
        trial, peak = await visitor.call(lambda api: _load(api, job_id, trial_id))
        title.set_text(f"Trial {trial_id}: {trial['task_name']}" if trial["task_name"] else f"Trial {trial_id}")
        about.set_text(trial["sketch"] or "default schedule")
        simulated.simulated(invented(trial))
        figures.show(trial, peak)
        for table, rows in ((knobs, knob_rows(trial)), (facts, fact_rows(trial))):
            if table.rows != rows:
                table.rows = rows
                table.update()
        chart.draw(samples(trial["samples"], trial["interval"]))
        program.show(await visitor.call(lambda api: api.program(job_id, trial_id)))
        return 30.0 if program.known else 1.0

    keep_fresh(refresh, banner, f"/jobs/{job_id}/trials/{trial_id}")


def _load(api: Api, job_id: str, trial_id: int) -> tuple[Json, float | None]:
    """The trial, and the peak of a device of the job's class in FLOP/s; None where none was calibrated."""
    trial, device_class = api.trial(job_id, trial_id), api.job(job_id)["device_class"]
    peaks: list[Any] = [
        device["calibration"]["peak_flops"]
        for device in api.devices()
        if device.get("calibration") and device_class in device["device_classes"]
    ]
    return trial, max(peaks, default=None)
