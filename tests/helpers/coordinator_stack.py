"""A coordinator without HTTP: context, loop and fake fleet of one test."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa
from fake_fleet import FakeFleet, Folder, Recorder, Sent

from db.models import Batch, CostModelRow, Evaluation, Job, Model, Round
from services.coordinator.app import create_context
from services.coordinator.auth import ANYBODY
from services.coordinator.requests import JobRequest
from services.coordinator.scheduling.loop import SchedulingLoop
from services.coordinator.usecases import jobs
from services.coordinator.usecases.submit import submit
from tunesmith.answers.jobs import BudgetBody
from tunesmith.states import JobState

OPERATOR = "gemm:256x256x256:float32"
LEASED = (Model, Job, Round, Batch, Evaluation, CostModelRow)


class Stack:
    """Context, loop and fleet of one test."""

    def __init__(self, folder: Folder, **values: Any) -> None:
        self.broker = Recorder()
        self.context = create_context(folder.settings(**values), self.broker)
        self.loop = SchedulingLoop(self.context)
        self.fleet = FakeFleet(self.context)

    def restart(self) -> None:
        """A coordinator that starts now takes over: it has the database, and has seen no time before."""
        self.loop = SchedulingLoop(self.context)

    def submit(self, operator: str = OPERATOR, **values: Any) -> str:
        budget = BudgetBody(**values.pop("budget", {"trials": 60}))
        request = JobRequest(operator=operator, budget=budget, **{"cost_model": "none", **values})
        return submit(self.context, ANYBODY, request, None)[0].id

    def state(self, job_id: str) -> JobState:
        return jobs.show(self.context, ANYBODY, job_id).state

    def run(
        self, until: Callable[[], bool], deliver: Callable[[Sent], list[Sent]] | None = None, looks: int = 300
    ) -> None:
        """Look and deliver in turn, at most ``looks`` times."""
        for _ in range(looks):
            self.loop.step()
            for sent in self.broker.take():
                for copy in deliver(sent) if deliver else [sent]:
                    self.fleet.do(copy.message)
            if until():
                return
        raise AssertionError("not reached")

    def finish(self, job_id: str, deliver: Callable[[Sent], list[Sent]] | None = None) -> None:
        self.run(lambda: self.state(job_id) in (JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED), deliver)

    def expire(self) -> None:
        """Let every deadline pass."""
        past = dt.datetime(2020, 1, 1, tzinfo=dt.timezone.utc)
        with self.context.sessions.begin() as session:
            for kind in LEASED:
                session.execute(sa.update(kind).where(kind.deadline.is_not(None)).values(deadline=past))

    def rows(self, kind: type) -> list[Any]:
        return self.rows_of(sa.select(kind).order_by(kind.id))

    def rows_of(self, query: sa.Select[Any]) -> list[Any]:
        with self.context.reading() as session:
            return list(session.scalars(query))

    def close(self) -> None:
        self.context.dispose()
