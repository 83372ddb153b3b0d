# Written by `python -m tools.sync_client` from tunesmith/client/aio/trials.py.
"""The part of the client that asks for trials and their programs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from tunesmith.answers.analysis import AnalysisBody
from tunesmith.answers.base import Page
from tunesmith.answers.jobs import TaskBody, TrialBody
from tunesmith.answers.spaces import SpaceBody
from tunesmith.answers.trials import ProgramBody, TrialDetailBody
from tunesmith.client.transport import Transport
from tunesmith.client.waiting import sleep
from tunesmith.errors import TunesmithError, from_problem
from tunesmith.states import is_final


class Trials:
    """Trials: what a job measured, what each decided, and the program that came of it."""

    _transport: Transport

    def trials(self, job_id: str) -> Iterator[dict[str, Any]]:
        """Every candidate that a job measured, oldest first, fetched page by page."""
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
