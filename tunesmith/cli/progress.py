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
from tunesmith.states import JobState

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
    elif sys.stderr.isatty():
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
    def __init__(self) -> None:
        self._state: JobState | None = None
        self._last = 0.0

    def __call__(self, job: Job) -> None:
        now = time.monotonic()
        if job.state is not self._state or now - self._last >= LINE_EVERY:
            self._state, self._last = job.state, now
            print(f"{_state(job):10} {_text(job)}", file=sys.stderr, flush=True)


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
    budget = job.progress.trials_budget
    trials = f"{job.progress.trials}{'' if budget is None else f'/{budget}'} trials"
    return (
        f"{trials}  model {seconds(job.latency.current)}  speed-up {times(job.latency.speedup)}  "
        f"time {duration(job.progress.seconds)}  left {duration(job.progress.eta_seconds)}"
    )


def waits_for(what: dict[str, Any]) -> str:
    """What a job that stands still waits for."""
    if "device_class" in what:
        return f"for a device of class {what['device_class']}"
    return "for its model's import" if "model" in what else ", ".join(map(str, what))
