"""What a visitor does with a job: pause, resume, cancel, change, delete."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from nicegui import ui

from services.dashboard.api import Api, Json
from services.dashboard.context import Visitor
from services.dashboard.parts import Banner, agreed
from tunesmith.errors import TunesmithError
from tunesmith.job_tags import split_tags
from tunesmith.states import JobState, is_final

ACTIONS = {
    "pause": ("Pause", "pause", {"queued", "running"}),
    "resume": ("Resume", "play_arrow", {"paused"}),
    "cancel": ("Cancel", "stop", {"queued", "preparing", "running", "paused", "finishing"}),
}
"""What each says, its icon, and the states in which it can be done."""
CLOSED = {JobState.FINISHING, JobState.CANCELLING}
"""States in which a job is not over, but takes no other budget any more."""


class Buttons:
    """What can be done with a job in its state.

    Args:
        changed: called after each change.
    """

    def __init__(self, visitor: Visitor, job_id: str, changed: Callable[[], Awaitable[None]]) -> None:
        self._visitor, self._job_id, self._changed = visitor, job_id, changed
        self._editor = Editor(visitor, job_id, changed)
        with ui.row().classes("gap-2 items-center"):
            ui.link("Submit one like it", f"/submit?like={job_id}").classes("ts-link")
            self._actions = {
                action: self._button(label, icon, self._acting(action)) for action, (label, icon, _) in ACTIONS.items()
            }
            self._edit = self._button("Edit", "edit", self._editor.open)
            self._delete = self._button("Delete", "delete", self._remove)

    def show(self, job: Json) -> None:
        """Offer what the job's state allows."""
        for action, button in self._actions.items():
            button.set_visibility(job["state"] in ACTIONS[action][2])
        self._edit.set_visibility(True)
        self._delete.set_visibility(is_final(JobState(job["state"])))
        self._editor.know(job)

    def _acting(self, action: str) -> Callable[[], Awaitable[None]]:
        async def act() -> None:
            if action == "cancel" and not await agreed(
                "Stop this job?",
                "It cannot go on afterwards. What it measured is kept, and so are the schedules that it found.",
                yes="Stop it",
                no="Let it run",
            ):
                return
            await self._try(lambda api: api.act(self._job_id, action), f"{ACTIONS[action][0]} requested")

        return act

    async def _remove(self) -> None:
        if await agreed(
            "Remove this job?",
            "Its page, rounds and events go. Its records stay: they are part of the dataset.",
            yes="Remove it",
            no="Keep it",
        ) and await self._try(lambda api: api.delete(self._job_id), "Removed"):
            ui.navigate.to("/")

    async def _try(self, work: Callable[[Api], None], done: str) -> bool:
        try:
            await self._visitor.call(work)
        except TunesmithError as error:
            ui.notify(f"{error.title}: {error.detail}", type="negative")
            return False
        ui.notify(done, type="positive")
        await self._changed()
        return True

    @staticmethod
    def _button(label: str, icon: str, click: Callable[..., Any]) -> ui.button:
        button = ui.button(label, icon=icon, on_click=click).props("outline no-caps dense").classes("px-3")
        button.set_visibility(False)
        return button


ENDED = "This job gets no more trials. Submit one like it: it begins with the schedules that this one found."


class Editor:
    """The form that changes a job. The API checks every field; what it refuses is said in the form."""

    def __init__(self, visitor: Visitor, job_id: str, changed: Callable[[], Awaitable[None]]) -> None:
        self._visitor, self._job_id, self._changed = visitor, job_id, changed
        self._job: Json = {}
        with ui.dialog().props('aria-label="Edit the job"') as self._dialog, ui.card().classes("ts-dialog"):
            ui.label("Edit the job").classes("ts-head").props("role=heading aria-level=2")
            self._banner = Banner()
            self._name = ui.input("Name").classes("w-full").props("dense outlined")
            self._tags = ui.input("Tags, with spaces between them").classes("w-full").props("dense outlined")
            self._comment = ui.textarea("Comment").classes("w-full").props("dense outlined")
            with ui.element("div").classes("ts-grid") as self._limits:
                self._priority = ui.number("Priority", step=1)
                self._trials = ui.number("Trials", step=1)
                self._seconds = ui.number("Seconds", step=60)
                for field in (self._priority, self._trials, self._seconds):
                    field.props("dense outlined")
            self._over = ui.label(ENDED).classes("ts-soft")
            with ui.row().classes("w-full justify-end"):
                ui.button("Close", on_click=self._dialog.close).props("flat no-caps")
                ui.button("Save", on_click=self._save).props("no-caps unelevated")

    def know(self, job: Json) -> None:
        """Take in the job as it is now; what somebody writes in the form stays."""
        self._job = job

    def open(self) -> None:
        """Show the form with the job's present values."""
        job, state = self._job, JobState(self._job["state"])
        self._banner.hide()
        self._name.set_value(job["name"])
        self._tags.set_value(" ".join(job["tags"]))
        self._comment.set_value(job["comment"])
        self._priority.set_value(job["priority"])
        self._trials.set_value(job["budget"]["trials"])
        self._seconds.set_value(job["budget"]["seconds"])
        over = is_final(state) or state in CLOSED
        self._limits.set_visibility(not over)
        self._over.set_visibility(over)
        self._dialog.open()

    async def _save(self) -> None:
        values = changes(
            self._job,
            {
                "name": self._name.value or "",
                "tags": split_tags(self._tags.value),
                "comment": self._comment.value or "",
                "priority": self._priority.value,
                "trials": self._trials.value,
                "seconds": self._seconds.value,
            },
        )
        try:
            if values:
                await self._visitor.call(lambda api: api.update(self._job_id, **values))
        except TunesmithError as error:
            self._banner.problem(error)
            return
        self._dialog.close()
        await self._changed()


def changes(job: Json, written: dict[str, Any]) -> dict[str, Any]:
    """What of a form differs from the job, by the names of the client's ``update``; empty numbers stay as they were."""
    budget = job["budget"]
    before = {**{name: job[name] for name in ("name", "tags", "comment", "priority")}, **budget}
    found = {name: value for name, value in written.items() if value is not None and value != before[name]}
    whole = ("priority", "trials")
    return {name: int(value) if name in whole and value == int(value) else value for name, value in found.items()}
