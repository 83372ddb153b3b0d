# Written by `python -m tools.sync_client` from tunesmith/client/aio/trials.py.
"""The part of the client that asks for trials and their programs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tunesmith.answers.analysis import AnalysisBody
from tunesmith.answers.base import Page
from tunesmith.answers.curves import CurveBody
from tunesmith.answers.jobs import TaskBody, TrialBody
from tunesmith.answers.spaces import SpaceBody
from tunesmith.answers.trials import ProgramBody, TrialDetailBody
from tunesmith.client import frames
from tunesmith.client.transport import Transport
from tunesmith.client.waiting import in_thread, sleep
from tunesmith.errors import TunesmithError, from_problem
from tunesmith.states import is_final

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame


class Trials:
    """Trials: what a job measured, what each decided, and the program that came of it."""

    _transport: Transport

    def trials(self, job_id: str) -> Iterator[dict[str, Any]]:
        """Every candidate that a job measured, oldest first, fetched page by page; latencies are in seconds.

        Raises:
            NotFound: no such job, or it is somebody else's.
        """
        return self._transport.items(f"/v1/jobs/{job_id}/trials", limit=200)

    def trials_page(
        self,
        job_id: str,
        *,
        task: int | None = None,
        failure: str | None = None,
        sort: str = "id",
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[TrialBody]:
        """Some trials of a job.

        Args:
            task: only those of the task with this id.
            failure: only those that failed in this way; ``none`` for those that ran.
            sort: ``id``, ``-id`` or ``latency``, which leaves out failures.
            limit: items of the page, 200 at most.
            cursor: ``next_cursor`` of the page before.
        """
        wanted: dict[str, Any] = {"task": task, "failure": failure, "sort": sort, "limit": limit, "cursor": cursor}
        return Page[TrialBody].read(self._transport.get(f"/v1/jobs/{job_id}/trials", **wanted))

    def trial(self, job_id: str, trial_id: int) -> TrialDetailBody:
        """One trial: its knobs by name, and its place in its batch. Raises NotFound."""
        return TrialDetailBody.read(self._transport.get(f"/v1/jobs/{job_id}/trials/{trial_id}"))

    def trials_dataframe(self, job_id: str) -> DataFrame:
        """Every trial of a job as a ``pandas.DataFrame``, one row a trial, indexed by ``id``, oldest first.

        Columns are the fields of :class:`Trial`. ``latency`` and the times are in seconds, ``latency`` is NaN where a
        trial failed. In the place of ``interval`` there are ``low`` and ``high``. ``best`` is the lowest latency of the
        task so far, ``created_at`` in UTC.

        Raises:
            MissingDependency: without pandas, which the extra ``notebook`` brings.
            NotFound: no such job.
        """
        frames.pandas()
        found = list(self.trials(job_id))
        return in_thread(frames.trials_frame, found)

    def plot_trials(self, job_id: str) -> Figure:
        """Latencies of all trials in their order as a ``matplotlib.figure.Figure``, which notebooks draw.

        Raises:
            MissingDependency: without matplotlib, which the extra ``notebook`` brings.
            NotFound: no such job.
        """
        figures = frames.figures()
        drawn: Figure = in_thread(figures.trials, job_id, list(self.trials(job_id)))
        return drawn

    def plot_curve(self, job_id: str) -> Figure:
        """A model's estimated latency against trials as a ``matplotlib.figure.Figure``, which notebooks draw.

        Raises:
            MissingDependency: without matplotlib, which the extra ``notebook`` brings.
            NotFound: no such job.
        """
        figures = frames.figures()
        curve = CurveBody.model_validate(self._transport.get(f"/v1/jobs/{job_id}/curve"), extra="ignore")
        drawn: Figure = in_thread(figures.curve, job_id, curve)
        return drawn

    def tasks_page(
        self,
        job_id: str,
        *,
        text: str | None = None,
        sort: str = "position",
        limit: int = 200,
        cursor: str | None = None,
    ) -> Page[TaskBody]:
        """Some tasks of a job.

        Args:
            text: part of the name, in any case.
            sort: ``position`` in the model, or ``-share``: the largest share of its latency first.
            limit: items of the page, 200 at most.
            cursor: ``next_cursor`` of the page before.
        """
        wanted: dict[str, Any] = {"q": text, "sort": sort, "limit": limit, "cursor": cursor}
        return Page[TaskBody].read(self._transport.get(f"/v1/jobs/{job_id}/tasks", **wanted))

    def space(self, job_id: str, task_id: int) -> SpaceBody:
        """The design space of a job's task: sketches, knobs by name, the champion's decisions. Raises NotFound."""
        return SpaceBody.read(self._transport.get(f"/v1/jobs/{job_id}/tasks/{task_id}/space"))

    def analysis(self, job_id: str, task_id: int, sketch: str | None = None, points: int | None = None) -> AnalysisBody:
        """What a task's trials tell of its knobs and of the cost model. Raises NotFound.

        Args:
            sketch: whose knobs; None for those of the sketch with most trials.
            points: most trials in the answer.
        """
        path = f"/v1/jobs/{job_id}/tasks/{task_id}/analysis"
        return AnalysisBody.read(self._transport.get(path, sketch=sketch, points=points))

    def request_program(self, job_id: str, trial_id: int) -> ProgramBody:
        """Have a trial's program written as text, unless it is there already. Raises NotFound."""
        path = f"/v1/jobs/{job_id}/trials/{trial_id}/program"
        return ProgramBody.read(self._transport.call("POST", path))

    def program(self, job_id: str, trial_id: int, timeout: float = 120.0, poll: float = 0.3) -> ProgramBody:
        """A trial's program in TVMScript; waits for the worker that writes it.

        Args:
            timeout: seconds to wait at most.
            poll: seconds between two looks.

        Raises:
            NotFound: there is no such trial.
            TunesmithError: it was not written in time, or cannot be.
        """
        end = time.monotonic() + timeout
        while not is_final((found := self.request_program(job_id, trial_id)).state):
            if time.monotonic() > end:
                raise TunesmithError(f"no worker wrote the program of trial {trial_id} within {timeout:g} s")
            sleep(poll)
        if found.scheduled is None:
            raise from_problem(found.error or {"code": "internal", "detail": "the program could not be written"})
        return found
