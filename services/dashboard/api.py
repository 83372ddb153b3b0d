"""What the pages need of the REST API, by the Python SDK. Answers are the JSON of ``docs/reference/rest.md``."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeVar

import httpx2

from tunesmith.client import Client
from tunesmith.errors import TunesmithError
from tunesmith.states import WorkState

Json = dict[str, Any]
T = TypeVar("T")
TIMEOUT = 15.0


class Clients:
    """SDK clients that wait for their next call, by key: making one costs more than a call.

    Args:
        url: base address of the coordinator.
        transport: replaces the network, for tests.
        idle: how many unused clients are kept.
        headers: sent with every call.
    """

    def __init__(
        self,
        url: str,
        transport: httpx2.BaseTransport | None = None,
        idle: int = 8,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._url, self._transport, self._limit, self._headers = url, transport, idle, headers
        self._idle: list[tuple[str | None, Client]] = []
        self._lock = threading.Lock()

    def __call__(self, key: str | None) -> Api:
        """The API for ``key``."""
        return Api(self, key)

    @contextmanager
    def borrow(self, key: str | None) -> Iterator[Client]:
        """A client for one thread; it goes back afterwards, or is closed when there are enough."""
        with self._lock:
            place = next((i for i, (owner, _) in enumerate(self._idle) if owner == key), None)
            client = self._idle.pop(place)[1] if place is not None else None
        if client is None:
            client = Client(self._url, key, timeout=TIMEOUT, transport=self._transport, headers=self._headers)
        try:
            yield client
        finally:
            with self._lock:
                self._idle.append((key, client))
                surplus = self._idle.pop(0)[1] if len(self._idle) > self._limit else None
            if surplus is not None:
                surplus.close()

    async def upload(self, key: str | None, body: AsyncIterator[bytes], media: str) -> httpx2.Response:
        """Hand a browser's upload on as it comes; nothing of it is kept here.

        Args:
            body: a form as ``POST /v1/models`` takes it.
            media: media type of the body, with the boundary.
        """
        async with self._streaming() as client:
            headers = {**self._sent(key), "content-type": media}
            answer: httpx2.Response = await client.post("/v1/models", content=body, headers=headers)
        return answer

    @asynccontextmanager
    async def export(self, key: str | None, wanted: Json) -> AsyncIterator[httpx2.Response]:
        """A file of records, to be read as it is made; ``wanted`` is what ``POST /v1/records/export`` takes."""
        async with self._streaming() as client:
            async with client.stream("POST", "/v1/records/export", json=wanted, headers=self._sent(key)) as answer:
                yield answer

    def _streaming(self) -> httpx2.AsyncClient:
        limits = httpx2.Timeout(600.0, connect=10.0)
        secure = not self._url.startswith("http://")  # loading certificates would hold up the event loop
        return httpx2.AsyncClient(base_url=self._url, timeout=limits, verify=secure)

    def _sent(self, key: str | None) -> dict[str, str]:
        return {**(self._headers or {}), **({} if key is None else {"authorization": f"Bearer {key}"})}

    def close(self) -> None:
        """Close what is idle."""
        with self._lock:
            waiting, self._idle = self._idle, []
        for _, client in waiting:
            client.close()


class Api:
    """Blocking calls with one key; the pages run them in threads.

    Every method raises a ``tunesmith.errors.TunesmithError``: ``Unauthorized`` without a valid key,
    ``ServerUnreachable`` when nothing answers, else what the problem object of the answer stands for.
    """

    def __init__(self, clients: Clients, key: str | None) -> None:
        self._clients, self._key = clients, key

    def jobs(self, limit: int, cursor: str | None = None, **wanted: Any) -> Json:
        """Newest first; see ``Client.jobs``."""
        return self._with(lambda c: c.jobs(limit=limit, cursor=cursor, **wanted).model_dump(mode="json"))

    def job(self, job_id: str) -> Json:
        """One job."""
        return self._with(lambda c: c.job(job_id).model_dump(mode="json"))

    def tasks(self, job_id: str, find: str | None = None) -> Json:
        """The tasks with the largest share of the latency, of those with ``find`` in their names."""
        return self._with(lambda c: c.tasks_page(job_id, text=find, sort="-share").model_dump(mode="json"))

    def curve(self, job_id: str) -> Json:
        """Best-so-far."""
        return self._with(lambda c: c.curve(job_id))

    def roofline(self, job_id: str) -> Json:
        """The machine's limit."""
        return self._with(lambda c: c.roofline(job_id).model_dump(mode="json"))

    def forecast(self, job_id: str) -> Json:
        """What is expected."""
        return self._with(lambda c: c.forecast(job_id).model_dump(mode="json"))

    def decisions(self, job_id: str, newest: int) -> list[Json]:
        """The newest decisions."""
        return self._with(lambda c: c.decisions(job_id, newest))

    def failures(self, job_id: str) -> list[Json]:
        """Failed candidates by class."""
        return self._with(lambda c: [failure.model_dump(mode="json") for failure in c.failures(job_id)])

    def families(self, job_id: str) -> list[Json]:
        """Tasks by family."""
        return self._with(lambda c: [family.model_dump(mode="json") for family in c.families(job_id)])

    def trials(self, job_id: str, **wanted: Any) -> Json:
        """A page of trials; see ``Client.trials_page``."""
        return self._with(lambda c: c.trials_page(job_id, **wanted).model_dump(mode="json"))

    def analysis(self, job_id: str, task_id: int, sketch: str | None) -> Json:
        """What a task's trials tell."""
        return self._with(lambda c: c.analysis(job_id, task_id, sketch).model_dump(mode="json"))

    def trial(self, job_id: str, trial_id: int) -> Json:
        """One trial."""
        return self._with(lambda c: c.trial(job_id, trial_id).model_dump(mode="json"))

    def program(self, job_id: str, trial_id: int) -> Json:
        """A trial's program, or how far it is; asks for it, where the key may."""
        try:
            return self._with(lambda c: c.request_program(job_id, trial_id).model_dump(mode="json"))
        except TunesmithError as error:
            if error.code != "forbidden":
                raise
            return {"state": WorkState.FAILED.value, "error": error.problem(), "plain": None, "scheduled": None}

    def events(self, job_id: str, after: int) -> list[Json]:
        """Events after an id."""
        return self._with(lambda c: [event.model_dump(mode="json") for event in c.events(job_id, after, limit=200)])

    def newest_events(self, job_id: str, pages: int, enough: Callable[[list[Json]], bool]) -> list[Json]:
        """The newest events, oldest first: up to ``pages`` of 200, until they are ``enough``."""

        def work(client: Client) -> list[Json]:
            found: list[Json] = []
            cursor = None
            for _ in range(pages):
                page = client.newest_events(job_id, cursor=cursor)
                found += [event.model_dump(mode="json") for event in page.items]
                cursor = page.next_cursor
                if cursor is None or enough(found):
                    break
            return found[::-1]

        return self._with(work)

    def devices(self) -> list[Json]:
        """Every known device."""
        return self._with(lambda c: [device.model_dump(mode="json") for device in c.devices()])

    def device_history(self, device: str, hours: int) -> list[Json]:
        """What a device was like lately."""
        return self._with(lambda c: [step.model_dump(mode="json") for step in c.device_history(device, hours)])

    def models(self, limit: int) -> list[Json]:
        """The newest models."""
        return self._with(lambda c: [model.model_dump(mode="json") for model in c.models(limit=limit).items])

    def models_page(self, limit: int, cursor: str | None) -> Json:
        """Models, newest first."""
        return self._with(lambda c: c.models(limit=limit, cursor=cursor).model_dump(mode="json"))

    def model(self, model_id: str) -> Json:
        """One model."""
        return self._with(lambda c: c.model(model_id).model_dump(mode="json"))

    def model_tasks(self, model_id: str) -> list[Json]:
        """What a model was split into."""
        return self._with(lambda c: [task.model_dump(mode="json") for task in c.model_tasks(model_id)])

    def submit(self, **values: Any) -> Json:
        """Submit a job."""
        return self._with(lambda c: c.submit(**values).model_dump(mode="json"))

    def workloads(self, find: str | None, limit: int, cursor: str | None) -> Json:
        """Workloads with records."""
        return self._with(lambda c: c.workloads(text=find, limit=limit, cursor=cursor).model_dump(mode="json"))

    def workload(self, workload: str) -> Json:
        """One workload: its records by target, and the best schedules."""
        return self._with(lambda c: c.workload(workload).model_dump(mode="json"))

    def fastest(self, workload: str, limit: int) -> list[Json]:
        """The fastest records of a workload."""

        def work(client: Client) -> list[Json]:
            page = client.records(sort="latency", limit=limit, workload=workload)
            return [each.model_dump(mode="json") for each in page.items]

        return self._with(work)

    def cost_models(self, limit: int, cursor: str | None, job: str | None = None) -> Json:
        """Cost models, of a job or of all, newest first."""
        return self._with(lambda c: c.cost_models(job=job, limit=limit, cursor=cursor).model_dump(mode="json"))

    def cost_model(self, key: str) -> Json:
        """One cost model."""
        return self._with(lambda c: c.cost_model(key).model_dump(mode="json"))

    def workers(self) -> list[Json]:
        """Every process that holds work or a device."""
        return self._with(lambda c: c.workers())

    def worker_log(self, worker: str, level: str, text: str | None, limit: int) -> Json:
        """What a worker logged lately; for operators."""
        return self._with(lambda c: c.worker_log(worker, level, text, limit).model_dump(mode="json"))

    def queues(self) -> list[Json]:
        """Every queue."""
        return self._with(lambda c: c.queues())

    def api_keys(self) -> list[Json]:
        """Every key, without its secret; for operators."""

        def work(client: Client) -> list[Json]:
            found = client.keys()
            return [key.model_dump(mode="json") for key in found]

        return self._with(work)

    def audit(self, owner: str | None, limit: int, cursor: str | None) -> Json:
        """Who did what, newest first; for operators."""
        return self._with(lambda c: c.audit(owner, limit, cursor).model_dump(mode="json"))

    def update(self, job_id: str, **values: Any) -> Json:
        """Change a job."""
        return self._with(lambda c: c.update(job_id, **values).model_dump(mode="json"))

    def delete(self, job_id: str) -> None:
        """Delete a job that is over."""
        self._with(lambda c: c.delete_job(job_id))

    def act(self, job_id: str, action: str) -> None:
        """Cancel, pause or resume."""
        self._with(lambda c: {"cancel": c.cancel, "pause": c.pause, "resume": c.resume}[action](job_id))

    @contextmanager
    def best(self, job_id: str, form: str) -> Iterator[Iterator[bytes]]:
        """The best schedules as they arrive."""
        with self._clients.borrow(self._key) as client, client.stream_best(job_id, form) as pieces:
            yield pieces

    def _with(self, work: Callable[[Client], T]) -> T:
        with self._clients.borrow(self._key) as client:
            return work(client)
