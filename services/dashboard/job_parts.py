"""Tables and lists of the job page."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from html import escape
from typing import Any

from nicegui import ui

from services.dashboard import format as fmt
from services.dashboard.event_text import describe, shown
from services.dashboard.parts import empty, fill_rows, words

COLUMNS = [
    {"name": "name", "label": "Task", "field": "name", "align": "left", "sortable": True},
    {"name": "family", "label": "Family", "field": "family", "align": "left", "sortable": True},
    {"name": "weight", "label": "Weight", "field": "weight", "align": "right", "sortable": True},
    {"name": "best", "label": "Best", "field": "best", "align": "right", "sortable": True},
    {"name": "speedup", "label": "Speed-up", "field": "speedup", "align": "right", "sortable": True},
    {"name": "rate", "label": "Throughput", "field": "rate", "align": "right", "sortable": True},
    {"name": "verified", "label": "Output error", "field": "verified", "align": "right", "sortable": True},
    {"name": "share", "label": "Share of latency", "field": "share", "align": "left", "sortable": True},
    {"name": "trials", "label": "Trials (share of budget)", "field": "trials", "align": "left", "sortable": True},
]

CELLS = {
    "name": """<div class="ts-wide"><a :href="props.row.link">{{ props.row.name }}</a>
      <span v-if="props.row.note" class="ts-soft"> · {{ props.row.note }}</span>
      <a v-if="props.row.trials" :href="props.row.analysis" class="ts-soft px-2">analysis</a></div>""",
    "best": "<b>{{ props.row.best_text }}</b>",
    "speedup": "{{ props.row.speedup_text }}",
    "rate": "{{ props.row.rate_text }}",
    "verified": "{{ props.row.verified_text }}",
    "share": """<div style="min-width:84px">{{ props.row.share_text }}
      <div class="ts-bar" style="margin-top:4px"><i :style="{width: 100 * (props.row.share || 0) + '%'}"></i></div>
      </div>""",
    "trials": """<div style="min-width:84px">{{ props.row.trials_text }}
      <div class="ts-bar" style="margin-top:4px"><i :style="{width: 100 * props.row.spent + '%'}"></i></div>
      </div>""",
}


def row(task: dict[str, Any]) -> dict[str, Any]:
    """A line of the task table: raw values to sort by and texts to show."""
    tunable = task.get("tunable", True)
    marks = (
        ("alternative", task.get("alternative_of")),
        ("not used", not task.get("in_use", True)),
        ("nothing to tune", not tunable and not task.get("reason")),
        ("exhausted", tunable and task.get("exhausted")),
        (f"default schedule: {task.get('reason')}", task.get("reason")),
    )
    rate = task["gflops"] * 1e9 if task.get("gflops") else None
    spent = task.get("budget_share") or 0.0
    error = (task.get("verified") or {}).get("error")
    return {
        "id": task["id"],
        "name": task["name"],
        "note": ", ".join(text for text, on in marks if on),
        "family": task.get("family") or "",
        "weight": task["weight"],
        "best": task.get("best_latency"),
        "best_text": fmt.latency(task.get("best_latency")),
        "speedup": task.get("speedup"),
        "speedup_text": fmt.speedup(task.get("speedup")),
        "rate": rate,
        "rate_text": fmt.rate(rate),
        "verified": error,
        "verified_text": fmt.NOTHING if error is None else f"{error:.1e}",
        "share": task.get("share"),
        "share_text": fmt.share(task.get("share")),
        "trials": task["trials"],
        "trials_text": f"{task['trials']:,} ({100 * spent:.0f} %)",
        "spent": spent,
    }


class TaskTable:
    """One line per task: how fast it is, and how much of the budget it got. Of many tasks it holds a part.

    Args:
        job_id: whose tasks they are.
        changed: called when other tasks are wanted.
    """

    def __init__(self, job_id: str, changed: Callable[[], Awaitable[None]]) -> None:
        self._job_id = job_id
        with ui.element("section").classes("ts-card"):
            with ui.row().classes("w-full items-center justify-between"):
                ui.label("Tasks").classes("ts-head").props("role=heading aria-level=2")
                with ui.row().classes("items-center gap-4"):
                    self._find = ui.input("Find a task", on_change=lambda: changed())
                    self._find.props("dense outlined clearable debounce=300").set_visibility(False)
                    ui.link("Families", f"/jobs/{job_id}/families").classes("ts-link")
                    ui.link("Every trial", f"/jobs/{job_id}/trials").classes("ts-link")
            self._part = ui.label().classes("ts-soft")
            self._empty = empty("account_tree", "No tasks yet", "They appear when the model is imported and prepared.")
            self._table = ui.table(columns=COLUMNS, rows=[], row_key="id", pagination={"rowsPerPage": 15})
            self._table.classes("ts-table w-full").props("flat dense")
            fill_rows(self._table, CELLS)

    @property
    def find(self) -> str | None:
        """Part of the names of the tasks that are wanted; None for any."""
        return self._find.value or None

    def show(self, tasks: list[dict[str, Any]], total: int) -> None:
        """Replace the rows, the largest share of the model's latency first.

        Args:
            tasks: those with the largest shares, of those that are wanted.
            total: tasks of the job.
        """
        rows = sorted(map(row, tasks), key=lambda r: -(r["share"] or 0))
        base = f"/jobs/{self._job_id}"
        rows = [
            {**each, "link": f"{base}/trials?task={each['id']}", "analysis": f"{base}/tasks/{each['id']}/analysis"}
            for each in rows
        ]
        if rows != self._table.rows:
            self._table.rows = rows
            self._table.update()
        partial = len(rows) < total
        self._find.set_visibility(partial)
        self._part.set_text(part_of_tasks(len(rows), total, found=bool(self.find)) if partial else "")
        self._part.set_visibility(partial)
        self._empty.set_visibility(not total)
        self._table.set_visibility(bool(rows))


def part_of_tasks(shown: int, total: int, *, found: bool) -> str:
    """Which of a job's tasks are shown, where those are not all."""
    if not found:
        return f"The {shown:,} with the largest share of the latency, of {total:,}"
    return f"{shown:,} of {total:,}" if shown else f"None of {total:,} has this in its name"


DECISION_COLUMNS = [
    {"name": "round", "label": "Round", "field": "round", "align": "right"},
    {"name": "task", "label": "Task", "field": "task", "align": "left"},
    {"name": "reason", "label": "Why", "field": "reason", "align": "left"},
    {"name": "expected", "label": "Expected to save", "field": "expected", "align": "right"},
    {"name": "saved", "label": "Saved", "field": "saved", "align": "right"},
]


def decision_row(decision: dict[str, Any]) -> dict[str, Any]:
    """A line of the table of decisions."""
    return {
        "round": decision["round"],
        "task": decision["task_name"],
        "reason": decision["reason"],
        "expected": fmt.latency(decision.get("expected")),
        "saved": fmt.latency(decision.get("saved")),
    }


class Decisions:
    """Why the latest rounds went where they did, what was expected of them and what they gained."""

    NEWEST = 50

    def __init__(self) -> None:
        with ui.element("section").classes("ts-card ts-below"):
            ui.label("Allocation").classes("ts-head").props("role=heading aria-level=2")
            self._empty = empty("alt_route", "No rounds yet", "Each round's reason appears when it is opened.")
            self._table = ui.table(columns=DECISION_COLUMNS, rows=[], row_key="round", pagination={"rowsPerPage": 8})
            self._table.classes("ts-table w-full").props("flat dense").mark("decisions")
            fill_rows(self._table, {})

    def show(self, decisions: list[dict[str, Any]]) -> None:
        """Replace the rows, the newest first."""
        rows = [decision_row(decision) for decision in decisions]
        if rows != self._table.rows:
            self._table.rows = rows
            self._table.update()
        self._empty.set_visibility(not rows)
        self._table.set_visibility(bool(rows))


class Failures:
    """How many candidates failed, by class."""

    def __init__(self) -> None:
        self._shown: Any = None
        with ui.element("section").classes("ts-card"):
            ui.label("Failed candidates").classes("ts-head").props("role=heading aria-level=2")
            self._box = ui.column().classes("w-full gap-2")

    def show(self, failures: list[dict[str, Any]], trials: int) -> None:
        """Draw again when a count has changed."""
        if (failures, trials) == self._shown:
            return
        self._shown = (failures, trials)
        self._box.clear()
        with self._box:
            if not failures:
                ui.label("None so far.").classes("ts-soft")
            for line in failures:
                self._line(line, line["count"] / trials if trials else 0.0)

    @staticmethod
    def _line(line: dict[str, Any], fraction: float) -> None:
        with ui.element("div").classes("w-full"):
            with ui.row().classes("w-full justify-between text-sm no-wrap"):
                ui.label(words(line["failure"]))
                ui.label(f"{line['count']:,} ({fmt.share(fraction)})").style("font-variant-numeric:tabular-nums")
            with ui.element("div").classes("ts-bar"):
                ui.element("i").style(f"width:{min(100, 100 * fraction):.1f}%; background:var(--ts-bad)")
            if line.get("message"):
                ui.label(f"latest: {line['message'][:160]}").classes("ts-soft ts-wrap")


class EventLog:
    """What happened, newest on top, the last two hundred or a few more."""

    KEEP = 200

    def __init__(self) -> None:
        self.last = 0
        self._blocks: list[tuple[ui.html, int]] = []  # newest first, each with the number of its lines
        with ui.element("section").classes("ts-card"):
            ui.label("Events").classes("ts-head").props("role=heading aria-level=2")
            self._box = ui.element("div").classes("ts-log").props("role=log tabindex=0 aria-label=Events")
            with self._box:
                self._empty = ui.label("Nothing happened yet.").classes("ts-soft")

    @classmethod
    def full(cls, events: list[dict[str, Any]]) -> bool:
        """Whether there is enough of them to show."""
        return sum(shown(event["kind"]) for event in events) >= cls.KEEP

    def add(self, events: list[dict[str, Any]]) -> None:
        """Put ``events`` (oldest first) on top, as one element: the toolkit takes long for many."""
        fresh = [e for e in events if e["id"] > self.last]
        if not fresh:
            return
        self.last = fresh[-1]["id"]
        lines = [event_line(e) for e in fresh if shown(e["kind"])][-self.KEEP :]
        if not lines:
            return
        self._empty.set_visibility(False)
        with self._box:
            block = ui.html("".join(reversed(lines)), sanitize=False)
        block.move(target_index=0)
        self._blocks.insert(0, (block, len(lines)))
        while sum(count for _, count in self._blocks[:-1]) >= self.KEEP:
            self._blocks.pop()[0].delete()


def event_line(event: dict[str, Any]) -> str:
    """An event's line in HTML."""
    texts = [fmt.when(event.get("created_at")), words(event["kind"]), describe(event["kind"], event.get("data") or {})]
    when, what, about = map(escape, texts)
    return (
        f'<div class="ts-line"><div class="ts-soft">{when}</div><div class="font-semibold">{what}</div>'
        f"<div>{about}</div></div>"
    )
