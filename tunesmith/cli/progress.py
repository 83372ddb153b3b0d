"""A run's progress: one live line on a terminal, or a line now and then where there is none."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.control import Control
from rich.live import Live
from rich.segment import ControlType

from tunesmith.cli import labels
from tunesmith.cli.line import Line, Piece
from tunesmith.cli.output import duration, lay_out, seconds, speed_up, times
from tunesmith.client import Client, Job
from tunesmith.client.exchange import RESTART_SECONDS
from tunesmith.dataset.collecting import JobKind
from tunesmith.measuring.ratio import Verdict
from tunesmith.states import JobState

POLL = 0.5
LINE_EVERY = 10.0
REDRAWS = 4.0
"""Per second; between answers of a server, too, so that a line never stands still."""
PHASES = {
    JobState.QUEUED: "queued",
    JobState.PREPARING: "preparing",
    JobState.RUNNING: "tuning",
    JobState.PAUSED: "paused",
    JobState.FINISHING: "checking",
    JobState.SUCCEEDED: "done",
    JobState.FAILED: "failed",
    JobState.CANCELLING: "stopping",
    JobState.CANCELLED: "cancelled",
}
LABELLING = "labelling"
Clock = Callable[[], float]


class Display:
    """Where a command says how far it is; this one shows nothing."""

    def phase(self, phase: str, note: str = "") -> None:
        """Work of unknown length is under way: one word, and what it is at."""

    def job(self, job: Job) -> None:
        """How far a job is."""

    def say(self, text: str) -> None:
        """Something that stays to be read."""


def follow(client: Client, job_id: str, display: Display) -> Job:
    """Show progress until the job has ended; returns how it did, for the caller to show."""
    while not (job := client.job(job_id, RESTART_SECONDS)).done:
        display.job(job)
        time.sleep(POLL)
    return job


@contextmanager
def shown(phase: str, quiet: bool = False, keep: bool = False) -> Iterator[Display]:
    """A display on standard error, for the length of a ``with`` block.

    Args:
        phase: the first one.
        quiet: show nothing.
        keep: leave the live line there at the end.
    """
    console = Console(stderr=True, highlight=False)
    if quiet:
        yield Display()
    elif console.is_terminal and not console.is_dumb_terminal:
        display = _LiveLine(console, phase)
        console.control(Control(ControlType.CARRIAGE_RETURN, (ControlType.ERASE_IN_LINE, 2)))  # clears an echoed ^C
        with Live(
            display, console=console, refresh_per_second=REDRAWS, redirect_stdout=False, transient=not keep
        ) as live:
            display.redraw = live.refresh
            yield display
    else:
        lines = _Lines()
        lines.phase(phase)
        yield lines


class _LiveLine(Display):
    """The line, with the time that has passed since the last message; ``redraw`` shows a new phase at once."""

    def __init__(self, console: Console, phase: str, clock: Clock = time.monotonic) -> None:
        self._console, self._clock = console, clock
        self.redraw: Callable[[], None] = lambda: None
        self._said, self._phase, self._since = "", "", 0.0
        self._now: Callable[[float], Line]
        self.phase(phase)

    def phase(self, phase: str, note: str = "") -> None:
        """A bar that moves, the note, and how long the phase lasts by now."""
        if phase != self._phase:
            self._since = self._clock()
        since = self._since
        self._draw(phase, lambda now: Line(phase, (Piece(note, 1), Piece(f"time {duration(now - since):>4}"))))

    def job(self, job: Job) -> None:
        """Bar, trials, latency and the time left."""
        phase, started = phase_of(job), self._clock()
        reason = waits_for(job.waiting_for) if job.waiting_for and phase == "waiting" else ""
        if reason not in ("", self._said):
            self.say(f"the job waits {reason}")
        self._said = reason
        done = share(job)
        self._draw(phase, lambda now: Line(phase, pieces(job, 0.0 if job.done else now - started), done))

    def say(self, text: str) -> None:
        """A line above the live one; words that do not fit go to the next line."""
        self._console.print(lay_out(text), markup=False, soft_wrap=True)

    def _draw(self, phase: str, now: Callable[[float], Line]) -> None:
        new, self._phase, self._now = phase != self._phase, phase, now
        if new:
            self.redraw()

    def __rich__(self) -> Line:
        return self._now(self._clock())


class _Lines(Display):
    """A line when the phase changes, else at most every ten seconds and only when something else has than the time."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._phase, self._text = "", ""
        self._last = 0.0

    def phase(self, phase: str, note: str = "") -> None:
        """The phase and its first note."""
        if phase != self._phase:
            self._phase, self._text = phase, ""
            self.say(f"{phase:10} {note}".rstrip())

    def job(self, job: Job) -> None:
        """Trials, latency and times in columns."""
        now, phase, text = self._clock(), phase_of(job), _news(job)
        if phase != self._phase or (text != self._text and now - self._last >= LINE_EVERY):
            self._phase, self._text, self._last = phase, text, now
            self.say(f"{phase:10} {_text(job)}".rstrip())

    def say(self, text: str) -> None:
        """A line."""
        print(text, file=sys.stderr, flush=True)


def phase_of(job: Job) -> str:
    """What a job is at, in one word."""
    if job.waiting_for:
        return "importing" if "model" in job.waiting_for else "waiting"
    if job.kind is JobKind.COLLECT and job.state is JobState.RUNNING:
        return LABELLING
    return PHASES[job.state]


def share(job: Job) -> float | None:
    """How much of the budget is used, 0 to 1; the limit that is nearer counts. None while that says nothing."""
    if job.done:
        return 1.0
    if phase_of(job) not in ("tuning", LABELLING, "paused", "waiting"):
        return None
    progress = job.progress
    parts = [0.0]
    if progress.trials_budget:
        parts.append(progress.trials / progress.trials_budget)
    if progress.labels_wanted:
        parts.append((progress.labels or 0) / progress.labels_wanted)
    if progress.seconds_budget:
        parts.append(progress.seconds / progress.seconds_budget)
    return min(1.0, max(parts))


def pieces(job: Job, ago: float) -> tuple[Piece, ...]:
    """What the live line says of a job.

    Args:
        job: as the server told it.
        ago: seconds since then.
    """
    progress, latency = job.progress, job.latency
    collects = job.kind is JobKind.COLLECT
    trials = (
        Piece(labels.count(job) if collects else _trials(job), 1),
        Piece("labels" if collects else "trials", 5, " "),
    )
    runs = phase_of(job) not in ("paused", "waiting")
    spent = Piece(f"time {duration(progress.seconds + (ago if runs else 0.0)):>4}", 6)
    if latency.current is not None:
        found = Piece(f"{seconds(latency.current):>7}", 2), *against(job)
    else:
        found = (Piece(labels.pace(job) if collects else _tasks(job), 4),)
    if progress.eta_seconds is None or job.done:
        return *trials, *found, spent._replace(rank=0)
    return *trials, *found, spent, Piece(f"left {duration(max(0.0, progress.eta_seconds - ago)):>4}")


def against(job: Job) -> tuple[Piece, ...]:
    """The latency next to what it is compared with: another runtime once one was timed, else the untuned build."""
    latency, reference = job.latency, job.reference
    if reference is not None and reference.ratio is not None:
        return Piece(f"{reference.ratio:.3g} of {reference.runtime}", 3), Piece("'s latency", 7, "")
    if latency.speedup is None:
        return ()
    if latency.verdict == Verdict.NO_DIFFERENCE.value:
        return (Piece("as fast as untuned", 3),)
    return Piece(f"{times(latency.speedup):>5}", 3), Piece("faster than untuned", 7, " ")


def _trials(job: Job) -> str:
    progress = job.progress
    budget = "" if progress.trials_budget is None else f"/{progress.trials_budget}"
    return f"{f'{progress.trials}{budget}':>{2 * len(budget) - 1 if budget else 5}}"


def _tasks(job: Job) -> str:
    """How many of the tasks were measured, until each of them was."""
    progress = job.progress
    return f"tasks {progress.tasks_measured}/{progress.tasks_tunable}" if progress.tasks_tunable else ""


def _text(job: Job) -> str:
    if job.waiting_for:
        return waits_for(job.waiting_for) if phase_of(job) == "waiting" else ""
    return f"{_news(job)}  time {duration(job.progress.seconds):>5}  left {duration(job.progress.eta_seconds):>5}"


def _news(job: Job) -> str:
    """What changes because the job gets on, in columns."""
    if job.kind is JobKind.COLLECT:
        return "  ".join(part for part in (f"{labels.count(job)} labels", labels.pace(job)) if part)
    return f"{_trials(job)} trials  {model_latency(job):35}"


def model_latency(job: Job) -> str:
    """The model's latency and speed-up; until each task was measured, how many of them were."""
    if job.latency.current is None:
        return _tasks(job)
    return f"model {seconds(job.latency.current):>7}  speed-up {speed_up(job.latency):>6}"


def waits_for(what: dict[str, Any]) -> str:
    """What a job that stands still waits for."""
    if "quarantined" in what:
        return f"until {what['quarantined']}, which runs far slower than it did, recovers"
    if "resting" in what:
        return f"until {what['resting']} has rested: {what.get('reason', '')}"
    if "incompatible" in what:
        return f"for another worker than that of {what['incompatible']}: {what.get('reason', '')}"
    if "device_class" in what:
        return f"for a device of class {what['device_class']}"
    return "for its model's import" if "model" in what else ", ".join(map(str, what))
