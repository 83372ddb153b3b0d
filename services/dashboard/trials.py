"""The page of a job's trials: sorted, filtered and paged by the server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from nicegui import ui

from services.dashboard import format as fmt
from services.dashboard.api import Json
from services.dashboard.context import Context, at_once, keep_fresh
from services.dashboard.paging import Pager
from services.dashboard.parts import Banner, empty, words
from services.dashboard.theme import frame

PAGE = 50
ORDERS = {"latency": "Fastest first", "-id": "Newest first", "id": "Oldest first"}
COLUMNS = [
    {"name": "id", "label": "Trial", "field": "id", "align": "right"},
    {"name": "task", "label": "Task", "field": "task", "align": "left"},
    {"name": "latency", "label": "Latency", "field": "latency", "align": "right"},
    {"name": "interval", "label": "Interval", "field": "interval", "align": "right"},
    {"name": "sketch", "label": "Sketch", "field": "sketch", "align": "left"},
    {"name": "decisions", "label": "Decisions", "field": "decisions", "align": "left"},
    {"name": "when", "label": "Measured", "field": "when", "align": "right"},
]
SLOTS = {
    "id": '<q-td :props="props"><a :href="props.row.link">{{ props.row.id }}</a></q-td>',
    "latency": """<q-td :props="props"><span v-if="props.row.failure" class="ts-badge ts-bad">{{ props.row.failure }}
      </span><b v-else>{{ props.row.latency }}</b></q-td>""",
    "decisions": '<q-td :props="props"><div class="ts-wide">{{ props.row.decisions }}</div></q-td>',
}


@dataclass(frozen=True)
class View:
    """What of a job's trials is looked at; the page's address says it."""

    sort: str = "latency"
    task: int | None = None
    failure: str | None = None

    @classmethod
    def of(cls, sort: str, task: str, failure: str) -> View:
        """From an address; what makes no sense is left out."""
        return cls(
            sort if sort in ORDERS else cls.sort,
            int(task) if task.isascii() and task.isdigit() and len(task) < 19 else None,
            failure[:30] or None,
        )

    def wanted(self) -> dict[str, Any]:
        """What the API is asked for."""
        return {"sort": self._order, "task": self.task, "failure": self.failure}

    @property
    def _order(self) -> str:
        """What has failed has no latency to sort by."""
        return "-id" if self.sort == "latency" and self.failure not in (None, "none") else self.sort

    def query(self) -> str:
        """The part of the address behind the question mark."""
        return urlencode({"sort": self.sort, "task": self.task or "", "failure": self.failure or ""})


def row(job_id: str, trial: dict[str, Any]) -> dict[str, Any]:
    """A line of the table."""
    low, high = trial["interval"] or (None, None)
    return {
        "id": trial["id"],
        "link": f"/jobs/{job_id}/trials/{trial['id']}",
        "task": trial["task_name"] or fmt.NOTHING,
        "latency": fmt.latency(trial["latency"]) + (" (simulated)" if invented(trial) else ""),
        "failure": words(trial["failure"]) if trial["failure"] else "",
        "interval": f"{fmt.latency(low)} – {fmt.latency(high)}" if low is not None else fmt.NOTHING,
        "sketch": (trial["sketch"] or "default schedule")[:16],
        "decisions": decisions_text(trial["decisions"]),
        "when": fmt.when(trial["created_at"]),
    }


def invented(trial: dict[str, Any]) -> bool:
    """Whether a simulated device made the latency up."""
    return bool(trial["environment"].get("simulated"))


def decisions_text(decisions: list[Any]) -> str:
    """Decisions in one line: factors with a cross between them."""
    return "  ".join("×".join(map(str, each)) if isinstance(each, list) else str(each) for each in decisions)


class TaskChoice:
    """Which task's trials are looked at. Of many tasks, those with the largest shares are offered, or those found.

    Args:
        chosen: id of the task to begin with; None for every task.
        changed: called when another one is chosen.
        search: called with a part of a name, for what to offer.
    """

    def __init__(
        self, chosen: int | None, changed: Callable[[], Awaitable[None]], search: Callable[[str], Awaitable[None]]
    ) -> None:
        self._names = {0: "Every task"} | ({chosen: f"Task {chosen}"} if chosen else {})
        self._find: ui.input = ui.input("Find a task", on_change=lambda: search(self._find.value or ""))
        self._find.props("dense outlined clearable debounce=300").set_visibility(False)
        self._choice = ui.select(dict(self._names), value=chosen or 0, label="Task", on_change=lambda: changed())
        self._choice.props("dense outlined")

    @property
    def value(self) -> int | None:
        """The chosen task's id."""
        return self._choice.value or None

    def offer(self, tasks: Json) -> None:
        """Take in a page of tasks: what there is to choose from, besides what is chosen."""
        found = {task["id"]: task["name"] for task in tasks["items"]}
        kept = {key: name for key, name in self._names.items() if key in (0, self.value)}
        self._names = {**kept, **found}
        self._find.set_visibility(bool(self._find.value) or tasks["next_cursor"] is not None)
        self._choice.set_options(dict(self._names), value=self._choice.value)

    def call(self, name: str) -> None:
        """Know the chosen task's name, which may not be among those offered."""
        if self.value is not None and name and self._names.get(self.value) != name:
            self._names[self.value] = name
            self._choice.set_options(dict(self._names), value=self._choice.value)


class Grid:
    """A page of trials."""

    def __init__(self, job_id: str) -> None:
        self._job_id = job_id
        self._empty = empty("biotech", "No trial here", "Nothing was measured yet, or nothing fits what is asked for.")
        self._table = ui.table(columns=COLUMNS, rows=[], row_key="id", pagination={"rowsPerPage": 0})
        self._table.classes("ts-table w-full").props("flat dense hide-pagination").mark("trials")
        for name, template in SLOTS.items():
            self._table.add_slot(f"body-cell-{name}", template)

    def show(self, page: Json) -> None:
        """Replace the rows."""
        rows = [row(self._job_id, trial) for trial in page["items"]]
        if rows != self._table.rows:
            self._table.rows = rows
            self._table.update()
        self._empty.set_visibility(not rows)
        self._table.set_visibility(bool(rows))


def build(context: Context, job_id: str, view: View) -> None:
    """Fill the page."""
    visitor = context.visitor()
    known = False

    async def changed() -> None:
        if known:
            pager.rewind()
            ui.navigate.history.replace(f"/jobs/{job_id}/trials?{looked_at().query()}")
            await at_once(refresh, banner)

    async def search(text: str) -> None:
        task.offer(await visitor.call(lambda api: api.tasks(job_id, text)))

    with frame("Trials", logged_in=visitor.logged_in, on_logout=visitor.logout):
        banner, simulated = Banner(), Banner()
        with ui.element("section").classes("ts-card"):
            with ui.row().classes("w-full items-center justify-between"):
                ui.label("Trials").classes("ts-title").props("role=heading aria-level=1")
                ui.link("Back to the job", f"/jobs/{job_id}").classes("ts-link")
            with ui.row().classes("items-center gap-3"):
                order = ui.select(ORDERS, value=view.sort, label="Order", on_change=changed).props("dense outlined")
                task = TaskChoice(view.task, changed, search)
                failure = ui.select({"": "Anything"}, value="", label="Outcome", on_change=changed)
                failure.props("dense outlined")
            grid = Grid(job_id)
            pager = Pager(lambda: at_once(refresh, banner))

    def looked_at() -> View:
        return View(order.value, task.value, failure.value or None)

    async def refresh() -> float:
        nonlocal known
        if not known:
            tasks, kinds = await visitor.call(lambda api: (api.tasks(job_id), api.failures(job_id)))
            task.offer(tasks)
            outcomes = {"": "Anything", "none": "Ran", **{each["failure"]: words(each["failure"]) for each in kinds}}
            failure.set_options(outcomes, value=view.failure if view.failure in outcomes else "")
            known = True
        wanted = looked_at().wanted()
        page = await visitor.call(lambda api: api.trials(job_id, **wanted, limit=PAGE, cursor=pager.cursor))
        simulated.simulated(any(map(invented, page["items"])))
        grid.show(page)
        if page["items"] and wanted["task"] is not None:
            task.call(page["items"][0]["task_name"])
        pager.show(page["next_cursor"], len(page["items"]), PAGE, page["total"])
        return 4.0

    keep_fresh(refresh, banner, f"/jobs/{job_id}/trials?{view.query()}")
