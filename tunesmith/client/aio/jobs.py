"""The part of the client that submits jobs, asks for them and steers them."""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncIterator, Sequence
from typing import Any

from typing_extensions import Unpack

from tunesmith.answers.base import Page
from tunesmith.answers.curves import ForecastBody, RooflineBody
from tunesmith.answers.jobs import FailureBody, FamilyBody, JobBody, TaskBody
from tunesmith.client.aio.transport import Transport
from tunesmith.client.aio.waiting import sleep
from tunesmith.client.exchange import RESTART_SECONDS
from tunesmith.client.submission import JobChoices
from tunesmith.errors import InvalidInput, TunesmithError


class Jobs:
    """Jobs: submitted, listed, changed, steered, and how they get on."""

    _transport: Transport

    async def submit(
        self,
        *,
        target: str | dict[str, Any],
        model_id: str | None = None,
        operator: str | None = None,
        operators: Sequence[str] | None = None,
        trials: int | None = None,
        seconds: float | None = None,
        stop_when_converged: bool = False,
        **options: Unpack[JobChoices],
    ) -> JobBody:
        """Submit a job; returns at once.

        Args:
            target: short name, TVM tag or target JSON.
            model_id: what to tune, or
            operator: an operator spec such as ``gemm:1024x1024x1024:float32``, or
            operators: several specs of one precision, for a collecting job.
            trials: budget of measured candidates.
            seconds: budget of time; at least one of the two.
            stop_when_converged: end early when nothing more is gained.
            **options: what :class:`JobChoices` lists; None leaves the server's default.

        Raises:
            InvalidInput: or a subclass that names the option and what it may be.
            NotFound: no such model.
            QuotaExceeded: too many open jobs.
        """
        budget = {"trials": trials, "seconds": seconds, "stop_when_converged": stop_when_converged}
        source = {"model_id": model_id, "operator": operator, "operators": operators}
        body = {**source, "target": target, **options}
        body = {key: value for key, value in body.items() if value is not None}
        body["budget"] = {key: value for key, value in budget.items() if value is not None}
        answer = await self._transport.request(
            "POST", "/v1/jobs", repeat=True, json=body, headers={"idempotency-key": uuid.uuid4().hex}
        )
        return JobBody.read(answer.json())

    async def jobs(
        self,
        *,
        state: str | None = None,
        target: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
        sort: str | None = None,
        q: str | None = None,
        tag: str | None = None,
        owner: str | None = None,
        model: str | None = None,
    ) -> Page[JobBody]:
        """Jobs, newest first.

        Args:
            q: part of the id, the name or the model's name.
            tag: a tag that they have.
            owner: whose they are; for operators, who see those of others.
            model: id of the model that they tune.
        """
        wanted: dict[str, Any] = {"state": state, "target": target, "sort": sort, "q": q, "tag": tag, "owner": owner}
        wanted["model"] = model
        return Page[JobBody].read(await self._transport.get("/v1/jobs", **wanted, limit=limit, cursor=cursor))

    async def job(self, job_id: str, patience: float = 0.0) -> JobBody:
        """One job.

        Args:
            job_id: which one.
            patience: seconds for which a server that does not answer is asked again; a restart takes a few.
        """
        return JobBody.read(await self._transport.get(f"/v1/jobs/{job_id}", patience=patience))

    async def wait(self, job_id: str, timeout: float | None = None, poll: float = 0.5) -> JobBody:
        """Wait until a job has ended, whichever way.

        Raises:
            TunesmithError: when it takes longer than ``timeout`` seconds.
        """
        end = None if timeout is None else time.monotonic() + timeout
        while not (job := await self.job(job_id, RESTART_SECONDS)).done:
            if end is not None and time.monotonic() > end:
                waits = "".join(f", and waits: {what} {name}" for what, name in (job.waiting_for or {}).items())
                raise TunesmithError(
                    f"the job {job_id} did not end within {timeout:g} s; it is {job.state.value}, "
                    f"after {job.progress.trials} trials{waits}"
                )
            await sleep(poll)
        return job

    async def cancel(self, job_id: str) -> JobBody:
        """Cancel a job; its measurements are kept.

        Raises:
            NotFound: no such job, or it is somebody else's.
            Conflict: it has succeeded or failed already.
        """
        return await self._act(job_id, "cancel")

    async def pause(self, job_id: str) -> JobBody:
        """Open no more rounds of a job until it is resumed.

        Raises:
            NotFound: no such job, or it is somebody else's.
            IllegalTransition: it is over.
        """
        return await self._act(job_id, "pause")

    async def resume(self, job_id: str) -> JobBody:
        """Resume a paused job; one that runs goes on.

        Raises:
            NotFound: no such job, or it is somebody else's.
            Conflict: it is over.
        """
        return await self._act(job_id, "resume")

    async def delete_job(self, job_id: str) -> None:
        """Remove a job that is over; its records stay.

        Raises:
            NotFound: no such job, or it is somebody else's.
            Conflict: it is not over.
        """
        await self._transport.request("DELETE", f"/v1/jobs/{job_id}")

    async def update(
        self,
        job_id: str,
        *,
        priority: int | None = None,
        trials: int | None = None,
        seconds: float | None = None,
        name: str | None = None,
        tags: Sequence[str] | None = None,
        comment: str | None = None,
    ) -> JobBody:
        """Change a job's name, tags or comment; while it is under way its priority and budget, too.

        An empty text or list takes away what was there.
        """
        budget = {key: value for key, value in (("trials", trials), ("seconds", seconds)) if value is not None}
        given = {"priority": priority, "name": name, "tags": None if tags is None else list(tags), "comment": comment}
        body: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
        if budget:
            body["budget"] = budget
        if not body:
            raise InvalidInput("nothing to set: give --name, --tag, --comment, --priority, --trials or --time")
        return JobBody.read(await self._transport.call("PATCH", f"/v1/jobs/{job_id}", json=body))

    async def tasks(self, job_id: str) -> list[TaskBody]:
        """A job's tasks, in their order in the model; latencies are in seconds.

        Raises:
            NotFound: no such job, or it is somebody else's.
        """
        return [TaskBody.read(item) async for item in self._transport.items(f"/v1/jobs/{job_id}/tasks")]

    async def curve(self, job_id: str) -> dict[str, Any]:
        """Best-so-far, down-sampled by the server.

        Returns:
            ``untuned`` in seconds, and ``points`` of ``trials``, ``seconds`` since the start and ``latency`` in
            seconds, as the estimate from the job's tasks.
        """
        return dict(await self._transport.get(f"/v1/jobs/{job_id}/curve"))

    async def roofline(self, job_id: str) -> RooflineBody:
        """The seconds that no schedule of a job's tasks can be below on its device; null before that was calibrated.

        Raises:
            NotFound: no such job, or it is somebody else's.
        """
        return RooflineBody.read(await self._transport.get(f"/v1/jobs/{job_id}/roofline"))

    async def forecast(self, job_id: str) -> ForecastBody:
        """What a job is expected to come to, in seconds, with an interval.

        Raises:
            NotFound: no such job, or it is somebody else's.
        """
        return ForecastBody.read(await self._transport.get(f"/v1/jobs/{job_id}/forecast"))

    async def failures(self, job_id: str) -> list[FailureBody]:
        """How many of a job's candidates failed, by class, and what the newest of them said.

        Raises:
            NotFound: no such job, or it is somebody else's.
        """
        return [FailureBody.read(item) async for item in self._transport.items(f"/v1/jobs/{job_id}/failures")]

    async def families(self, job_id: str) -> list[FamilyBody]:
        """A job's tasks of similar computation, summed up: trials, failures, latencies in seconds.

        Raises:
            NotFound: no such job, or it is somebody else's.
        """
        return [FamilyBody.read(item) async for item in self._transport.items(f"/v1/jobs/{job_id}/families")]

    def rounds(self, job_id: str) -> AsyncIterator[dict[str, Any]]:
        """A job's rounds, oldest first, fetched page by page; latencies are in seconds.

        Raises:
            NotFound: no such job, or it is somebody else's.
        """
        return self._transport.items(f"/v1/jobs/{job_id}/rounds", limit=200)

    async def decisions(self, job_id: str, newest: int) -> list[dict[str, Any]]:
        """Why the newest of a job's rounds were chosen, newest first.

        Args:
            newest: how many, 200 at most.

        Raises:
            NotFound: no such job, or it is somebody else's.
        """
        page = await self._transport.get(f"/v1/jobs/{job_id}/decisions", sort="-number", limit=newest)
        return list(page["items"])

    async def _act(self, job_id: str, action: str) -> JobBody:
        return JobBody.read(await self._transport.call("POST", f"/v1/jobs/{job_id}/{action}"))
