"""The page that submits a job: a model file, a known model or an operator, and how to tune it."""

from __future__ import annotations

import json
from typing import Any

from nicegui import ui
from nicegui.events import GenericEventArguments

from services.dashboard import format as fmt
from services.dashboard.api import Json
from services.dashboard.context import Context, Visitor, keep_fresh
from services.dashboard.parts import Banner
from services.dashboard.theme import frame
from tunesmith.budget import DEFAULT_TRIALS
from tunesmith.errors import TunesmithError, from_problem
from tunesmith.job_tags import split_tags
from tunesmith.operators import FORMS
from tunesmith.options import JobOptions, choices
from tunesmith.states import ModelState

UPLOAD = "/submit/model"
SEND = f"""async (event) => {{
  const file = event.target.files[0];
  if (!file) return;
  emit([0, file.name]);
  const form = new FormData();
  form.append("file", file);
  try {{
    const answer = await fetch("{UPLOAD}", {{method: "POST", body: form}});
    emit([answer.status, await answer.text()]);
  }} catch (error) {{
    emit([599, String(error)]);
  }}
  event.target.value = "";
}}"""
"""The browser sends the file itself: a page's web socket is no way for gigabytes."""
MODELS = 50
"""Known models to choose from, the newest."""
NAMED = {"precision": "Precision", "search": "Search", "cost_model": "Cost model", "allocator": "Allocator"}
SWITCHES = {"warm_start": "Warm start", "verify": "Check the model", "fast_math": "Fast math", "winograd": "Winograd"}
TASKS = [
    {"name": "name", "label": "Task", "field": "name", "align": "left"},
    {"name": "family", "label": "Family", "field": "family", "align": "left"},
    {"name": "weight", "label": "Weight", "field": "weight", "align": "right"},
    {"name": "flops", "label": "FLOPs", "field": "flops", "align": "right"},
]


class Source:
    """What to tune: a file that is dropped, a model that is known, or an operator."""

    def __init__(self, visitor: Visitor, banner: Banner) -> None:
        self._visitor, self._banner = visitor, banner
        with ui.element("section").classes("ts-card"):
            ui.label("What to tune").classes("ts-head").props("role=heading aria-level=2")
            with ui.element("label").classes("ts-drop"):
                ui.label("Drop an .onnx or .pt2 file here, or choose one")
                upload = ui.element("input").props("type=file accept=.onnx,.pt2")
            upload.on("change", self._sent, js_handler=SEND)
            self.model = ui.select({}, label="Known model", on_change=self._chosen, clearable=True, with_input=True)
            self.model.classes("w-full").props("dense outlined")
            self.operator = ui.input("Operator", placeholder=next(iter(FORMS.values())), on_change=self._written)
            self.operator.classes("w-full").props("dense outlined clearable")
            self._note = ui.label().classes("ts-soft")
            self._tasks = ui.table(columns=TASKS, rows=[], row_key="name", pagination={"rowsPerPage": 8})
            self._tasks.classes("ts-table w-full").props("flat dense").mark("preview")
            self._tasks.set_visibility(False)
        self._waiting: str | None = None

    def fill(self, models: list[Json]) -> None:
        """Know the models."""
        self.model.set_options({model["id"]: model["name"] for model in models}, value=self.model.value)

    async def look(self) -> None:
        """See whether the chosen model is imported, and list its tasks."""
        if self._waiting is None:
            return
        model = await self._visitor.call(lambda api: api.model(str(self._waiting)))
        if model["state"] == ModelState.IMPORTING.value:
            self._note.set_text("The model is being imported …")
            return
        self._waiting = None
        if model["state"] == ModelState.REJECTED.value:
            self._note.set_text("")
            self._banner.problem(from_problem(model["error"]))
            return
        tasks = await self._visitor.call(lambda api: api.model_tasks(model["id"]))
        self._note.set_text(f"{len(tasks)} tasks")
        self._tasks.rows = [
            {"name": each["name"], "family": each["family"], "weight": each["weight"], "flops": f"{each['flops']:.3g}"}
            for each in sorted(tasks, key=lambda each: -each["flops"] * each["weight"])
        ]
        self._tasks.update()
        self._tasks.set_visibility(bool(tasks))

    def choose(self, model_id: str, name: str) -> None:
        """Take a model."""
        self.model.set_options({**dict(self.model.options), model_id: name}, value=model_id)

    def _sent(self, event: GenericEventArguments) -> None:
        """The browser begins to send a file, or has the API's answer to it."""
        status, text = event.args
        if not status:
            self._note.set_text(f"Sending {text} …")
            return
        self._note.set_text("")
        try:
            answer = json.loads(text)
        except ValueError:
            self._banner.show("bad", "The upload failed", text[:500] or "The connection was lost.")
            return
        if status >= 400:
            self._banner.problem(from_problem(answer))
            return
        self._banner.hide()
        self.choose(answer["id"], answer["name"])

    def _chosen(self) -> None:
        self._waiting = self.model.value or None
        self._tasks.set_visibility(False)
        self._note.set_text("")
        if self.model.value:
            self.operator.set_value("")

    def _written(self) -> None:
        if self.operator.value:
            self.model.set_value(None)


class Options:
    """How to tune it."""

    def __init__(self) -> None:
        plain = JobOptions()
        with ui.element("section").classes("ts-card"):
            ui.label("How").classes("ts-head").props("role=heading aria-level=2")
            with ui.element("div").classes("ts-grid"):
                self.name = ui.input("Name").props("dense outlined")
                self.tags = ui.input("Tags, with spaces between them").props("dense outlined")
                self.target = ui.input("Target", value="cpu").props("dense outlined")
                self.trials = ui.number("Trials", value=DEFAULT_TRIALS, min=0, precision=0).props("dense outlined")
                self.seconds = ui.number("Seconds", min=1, precision=0).props("dense outlined clearable")
            with ui.expansion("More").classes("w-full"):
                with ui.element("div").classes("ts-grid"):
                    self.named = {
                        field: ui.select(choices(field), value=getattr(plain, field), label=label).props(
                            "dense outlined"
                        )
                        for field, label in NAMED.items()
                    }
                    self.priority = ui.number("Priority", value=plain.priority, precision=0).props("dense outlined")
                    self.seed = ui.number("Seed", value=plain.seed, min=0, precision=0).props("dense outlined")
                with ui.row():
                    self.switches = {
                        field: ui.switch(label, value=getattr(plain, field)) for field, label in SWITCHES.items()
                    }
                    self.converged = ui.switch("Stop when converged", value=False)

    def fill(self, job: Json) -> None:
        """Take over another job's options."""
        self.name.set_value(job["name"])
        self.tags.set_value(" ".join(job["tags"]))
        self.target.set_value(job["target"] if isinstance(job["target"], str) else json.dumps(job["target"]))
        budget = job["budget"]
        self.trials.set_value(budget.get("trials"))
        self.seconds.set_value(budget.get("seconds"))
        self.converged.set_value(bool(budget.get("stop_when_converged")))
        for field, element in {**self.named, **self.switches, "priority": self.priority, "seed": self.seed}.items():
            element.set_value(job[field])

    def values(self) -> dict[str, Any]:
        """What is submitted."""
        text = (self.target.value or "").strip()
        trials, seconds = self.trials.value, self.seconds.value
        given = {field: element.value for field, element in {**self.named, **self.switches}.items()}
        return {
            **given,
            "target": json.loads(text) if text.startswith("{") else text,
            "trials": None if trials is None else int(trials),
            "seconds": seconds,
            "stop_when_converged": self.converged.value,
            "name": self.name.value or None,
            "tags": split_tags(self.tags.value) or None,
            "priority": int(self.priority.value or 0),
            "seed": int(self.seed.value or 0),
        }


def build(context: Context, like: str) -> None:
    """Fill the page; ``like`` is a job whose options to begin with."""
    visitor = context.visitor()
    with frame("Submit", logged_in=visitor.logged_in, on_logout=visitor.logout):
        banner = Banner()
        ui.label("Submit a job").classes("ts-title").props("role=heading aria-level=1")
        place = ui.column().classes("w-full gap-4")
    form: list[tuple[Source, Options]] = []

    async def open_form() -> None:
        """Only for who has a key: an upload's place is not for strangers."""
        models = await visitor.call(lambda api: api.models(MODELS))
        job = await visitor.call(lambda api: api.job(like)) if like else None
        with place:
            source, options = Source(visitor, banner), Options()
            ui.button("Submit", icon="rocket_launch", on_click=submit).props("no-caps unelevated")
        form.append((source, options))
        source.fill([model for model in models if model["operator"] is None])
        if job is not None:
            options.fill(job)
            await _take_model(visitor, source, job["model_id"])

    async def refresh() -> float:
        if not form:
            await open_form()
        await form[0][0].look()
        return 0.5

    async def submit() -> None:
        source, options = form[0]
        what = {"model_id": source.model.value or None, "operator": (source.operator.value or "").strip() or None}
        if what["model_id"] is None and what["operator"] is None:
            banner.show("bad", "Nothing to tune", "Drop a model, choose a known one, or write an operator.")
            return
        try:
            values = options.values()
            job = await visitor.call(lambda api: api.submit(**what, **values))
        except ValueError as error:
            banner.show("bad", "The target is not understood", str(error))
        except TunesmithError as error:
            banner.problem(error)
        else:
            ui.navigate.to(f"/jobs/{job['id']}")

    keep_fresh(refresh, banner, f"/submit?like={like}" if like else "/submit", hides=False)


async def _take_model(visitor: Visitor, source: Source, model_id: str) -> None:
    model = await visitor.call(lambda api: api.model(model_id))
    if model["operator"] is not None:
        source.operator.set_value(model["operator"])
    else:
        source.choose(model["id"], model["name"] or fmt.NOTHING)
