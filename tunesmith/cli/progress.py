"""A job's progress on the terminal: a live bar, or a line now and then where there is no terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from tunesmith.cli.output import duration, seconds, times
from tunesmith.client import Client, Job
from tunesmith.client.transport import PATIENCE

POLL = 0.5
LINE_EVERY = 10.0
Show = Callable[[Job], None]


def follow(client: Client, job_id: str, quiet: bool = False, seconds_budget: float | None = None) -> Job:
    """Show progress until the job has ended; returns how it did.

    Args:
        client: where the job is.
        job_id: which one.
        quiet: show nothing.
        seconds_budget: what a bar measures itself by when the job has no budget of trials.
    """
    with _display(quiet, seconds_budget) as show:
        while True:
            job = client.job(job_id, PATIENCE)
            show(job)
            if job.done:
                return job
            time.sleep(POLL)


@contextmanager
def _display(quiet: bool, seconds_budget: float | None) -> Iterator[Show]:
    if quiet:
        yield lambda job: None
    elif sys.stderr.isatty() and not Console(stderr=True).is_dumb_terminal:
        with _bar(seconds_budget) as show:
            yield show
    else:
        yield _Lines()


@contextmanager
def _bar(seconds_budget: float | None) -> Iterator[Show]:
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=30), TextColumn("{task.fields[text]}"))
    with Progress(*columns, console=Console(stderr=True), transient=False) as progress:
        bar = progress.add_task("queued", total=1.0, text="")

        def show(job: Job) -> None:
            progress.update(
                bar, completed=fraction(job, seconds_budget), description=f"{_state(job):10}", text=_text(job)
            )

        yield show


class _Lines:
    """A line when the state changes, else at most every ten seconds and only when something else has than the time."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._state, self._text = "", ""
        self._last = 0.0

    def __call__(self, job: Job) -> None:
        now, state, text = self._clock(), _state(job), _news(job)
        if state != self._state or (text != self._text and now - self._last >= LINE_EVERY):
            self._state, self._text, self._last = state, text, now
            print(f"{state:10} {_text(job)}".rstrip(), file=sys.stderr, flush=True)


def fraction(job: Job, seconds_budget: float | None) -> float:
    """How much of the budget is used, 0 to 1; the limit that is nearer counts."""
    if job.done:
        return 1.0
    parts = [0.0]
    if job.progress.trials_budget:
        parts.append(job.progress.trials / job.progress.trials_budget)
    if seconds_budget:
        parts.append(job.progress.seconds / seconds_budget)
    return min(1.0, max(parts))


def _state(job: Job) -> str:
    return "waiting" if job.waiting_for else job.state.value


def _text(job: Job) -> str:
    if job.waiting_for:
        return waits_for(job.waiting_for)
    return f"{_news(job)}  time {duration(job.progress.seconds):>5}  left {duration(job.progress.eta_seconds):>5}"


def _news(job: Job) -> str:
    """What changes because the job gets on, in columns."""
    progress = job.progress
    budget = "" if progress.trials_budget is None else f"/{progress.trials_budget}"
    width = 2 * len(budget) - 1 if budget else 6
    return f"{f'{progress.trials}{budget}':>{width}} trials  {standing(job):35}"


def standing(job: Job) -> str:
    """The model's latency and speed-up; until each task was measured, how many of them were."""
    if job.latency.current is None:
        progress = job.progress
        return f"tasks {progress.tasks_measured}/{progress.tasks_tunable}" if progress.tasks_tunable else ""
    return f"model {seconds(job.latency.current):>7}  speed-up {times(job.latency.speedup):>6}"


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
