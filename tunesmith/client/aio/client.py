"""The client: one method per thing that the REST API does."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import httpx2

from tunesmith.answers.base import Page
from tunesmith.answers.events import EventBody
from tunesmith.answers.fleet import AuditBody, DeviceBody, DeviceTimeBody, KeyBody, LogLineBody, NewKeyBody
from tunesmith.answers.models import ModelBody, ModelTaskBody
from tunesmith.client.aio import events
from tunesmith.client.aio.cache import Cache
from tunesmith.client.aio.cost_models import CostModels
from tunesmith.client.aio.jobs import Jobs
from tunesmith.client.aio.proposals import Proposals
from tunesmith.client.aio.records import Dataset
from tunesmith.client.aio.transport import Transport
from tunesmith.client.aio.trials import Trials
from tunesmith.client.aio.waiting import in_thread, sleep
from tunesmith.client.exchange import RESTART_SECONDS, UPLOAD_SECONDS, unpack
from tunesmith.errors import NotAModel, TunesmithError, from_problem
from tunesmith.names import DEFAULT_URL
from tunesmith.states import ModelState

P = ParamSpec("P")
T = TypeVar("T")


class AsyncClient(Jobs, Dataset, CostModels, Trials, Proposals, Cache):
    """Talks to one coordinator; close it or use it in an ``async with`` statement. Not for several threads at once.

    Args:
        url: base address; ``host:8700`` means ``http://host:8700``.
        key: bearer key where the server asks for one.
        timeout: seconds to wait for an answer to begin.
        transport: replaces the network, for tests.
        headers: sent with every request.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        key: str | None = None,
        *,
        timeout: float = 30.0,
        transport: httpx2.AsyncBaseTransport | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._transport = Transport(url, key, timeout, transport, headers)
        self.url = self._transport.url

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._transport.aclose()

    async def each(
        self, method: Callable[P, Awaitable[Page[T]]], *args: P.args, **kwargs: P.kwargs
    ) -> AsyncIterator[T]:
        """Every item of a list that comes in pages, such as ``client.each(client.jobs, state="running")``.

        Pages are fetched as they are needed.

        Args:
            method: what answers with a :class:`Page`.
            *args: its arguments.
            **kwargs: its arguments by name; ``limit`` is the size of a page.
        """
        fetch: Any = method
        cursor: Any = kwargs.pop("cursor", None)
        while True:
            page: Page[T] = await fetch(*args, **kwargs, cursor=cursor)
            for item in page.items:
                yield item
            if (cursor := page.next_cursor) is None:
                return

    async def ready(self) -> bool:
        """True when a server answers and all that it needs is there."""
        try:
            await self._transport.request("GET", "/readyz", repeat=False, timeout=5.0)
        except TunesmithError:
            return False
        return True

    # Models

    async def upload_model(
        self, path: str | Path, name: str | None = None, inputs: Mapping[str, Sequence[int]] | None = None
    ) -> ModelBody:
        """Upload a model file, streamed from disk. The same file again gives the same model.

        Args:
            path: an ``.onnx``, ``.pt2`` or TVM ``.json`` file.
            name: defaults to the file's name.
            inputs: static shapes of inputs that the model leaves dynamic.

        Raises:
            NotAModel: when the file cannot be read.
        """
        path = Path(path)
        form = {"name": name or path.name}
        if inputs:
            form["inputs"] = json.dumps({key: list(shape) for key, shape in inputs.items()})
        try:
            with path.open("rb") as file:
                answer = await self._transport.request(
                    "POST",
                    "/v1/models",
                    data=form,
                    timeout=httpx2.Timeout(UPLOAD_SECONDS, connect=10.0),
                    files={"file": (path.name, file, "application/octet-stream")},
                )
        except OSError as error:
            raise NotAModel(f"cannot read {path}: {error.strerror}", field="model", value=str(path)) from error
        return ModelBody.read(answer.json())

    async def models(self, limit: int = 50, cursor: str | None = None) -> Page[ModelBody]:
        """Models, newest first."""
        return Page[ModelBody].read(await self._transport.get("/v1/models", limit=limit, cursor=cursor))

    async def model(self, model_id: str) -> ModelBody:
        """One model; ``error`` is a problem object where it was rejected.

        Raises:
            NotFound: no such model, or it is somebody else's.
        """
        return ModelBody.read(await self._transport.get(f"/v1/models/{model_id}"))

    async def wait_model(self, model_id: str, timeout: float = 600.0, poll: float = 0.2) -> ModelBody:
        """Wait until a model is imported.

        Raises:
            ModelRejected: or the subclass that says why the model was refused.
            TunesmithError: when the import takes longer than ``timeout`` seconds.
        """
        end = time.monotonic() + timeout
        while (model := await self.model(model_id)).state is ModelState.IMPORTING:
            if time.monotonic() > end:
                raise TunesmithError(f"the model {model_id} was not imported within {timeout:g} s")
            await sleep(poll)
        if model.state is ModelState.REJECTED:
            raise from_problem(model.error or {"code": "model_rejected", "detail": "the model was rejected"})
        return model

    async def model_tasks(self, model_id: str) -> list[ModelTaskBody]:
        """The tasks that a model was split into, with their weights and FLOPs.

        Raises:
            NotFound: no such model, or it is somebody else's.
        """
        return [ModelTaskBody.read(item) async for item in self._transport.items(f"/v1/models/{model_id}/tasks")]

    async def delete_model(self, model_id: str) -> None:
        """Delete a model.

        Raises:
            NotFound: no such model, or it is somebody else's.
            Conflict: jobs use it.
        """
        await self._transport.request("DELETE", f"/v1/models/{model_id}")

    # Keys, for operators

    async def keys(self) -> list[KeyBody]:
        """Every key, without its secret."""
        return [KeyBody.read(item) async for item in self._transport.items("/v1/keys")]

    async def create_key(self, owner: str, scopes: Sequence[str] = ("user",)) -> NewKeyBody:
        """Make a key; its secret is in this answer only. For operators.

        Args:
            owner: whose it is.
            scopes: some of ``viewer``, ``user``, ``operator``, ``worker``, ``monitor``; see the page on access.
        """
        body = {"owner": owner, "scopes": list(scopes)}
        return NewKeyBody.read(await self._transport.call("POST", "/v1/keys", json=body))

    async def revoke_key(self, key_id: str) -> None:
        """Revoke a key. For operators.

        Raises:
            NotFound: no such key.
            Conflict: it is the last one of an operator.
        """
        await self._transport.request("DELETE", f"/v1/keys/{key_id}")

    async def audit(self, owner: str | None = None, limit: int = 50, cursor: str | None = None) -> Page[AuditBody]:
        """Who did what, newest first; for operators."""
        answer = await self._transport.get("/v1/audit", owner=owner, limit=limit, cursor=cursor)
        return Page[AuditBody].read(answer)

    # Events

    async def events(self, job_id: str, after: int = 0, limit: int = 200) -> list[EventBody]:
        """Events of a job with an id above ``after``, oldest first, ``limit`` of them at most.

        Raises:
            NotFound: no such job, or it is somebody else's.
        """
        return await events.page(self._transport, job_id, after, limit)

    async def newest_events(self, job_id: str, limit: int = 200, cursor: str | None = None) -> Page[EventBody]:
        """Events of a job, newest first.

        Raises:
            NotFound: no such job, or it is somebody else's.
        """
        answer = await self._transport.get(f"/v1/jobs/{job_id}/events", sort="-id", limit=limit, cursor=cursor)
        return Page[EventBody].read(answer)

    async def follow(self, job_id: str, after: int = 0) -> AsyncIterator[EventBody]:
        """Events as they happen, until the job has ended. Survives broken connections.

        Args:
            job_id: which job.
            after: id of the last event that is known.

        Raises:
            NotFound: no such job, or it is somebody else's.
            ServerUnreachable: the server stays away for half a minute.
        """
        async for event in events.follow(self._transport, job_id, after):
            if event is not None:
                after = event.id
                yield event
            elif (await self.job(job_id, RESTART_SECONDS)).done:
                for late in await self.events(job_id, after):
                    yield late
                return

    # Results

    async def best(self, job_id: str) -> list[dict[str, Any]]:
        """The best schedules, one object per task: the lines of the JSON log, whose latencies are in seconds.

        Raises:
            NotFound: no such job, or it has no schedule yet.
        """
        response = await self._transport.request("GET", f"/v1/jobs/{job_id}/best", params={"format": "jsonl"})
        return [json.loads(line) for line in response.text.splitlines() if line.strip()]

    @asynccontextmanager
    async def stream_best(self, job_id: str, form: str = "jsonl") -> AsyncIterator[AsyncIterator[bytes]]:
        """The best schedules as they arrive: ``jsonl``, or ``metaschedule`` for the zip.

        Raises:
            NotFound: no such job.
        """
        async with self._transport.stream(f"/v1/jobs/{job_id}/best", format=form) as response:
            yield response.aiter_bytes()

    async def download_best(self, job_id: str, path: str | Path) -> Path:
        """Write the JSON log of the best schedules to ``path``.

        Raises:
            NotFound: no such job.
            DiskFull: there is no room.
        """
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        await self._transport.download(f"/v1/jobs/{job_id}/best", path, format="jsonl")
        return path

    async def download_metaschedule(self, job_id: str, folder: str | Path) -> Path:
        """Write a MetaSchedule database with what compiles it to ``folder``, which is made when missing.

        Raises:
            NotFound: no such job.
            DiskFull: there is no room.
        """
        folder = Path(folder)
        fresh = not folder.exists()
        folder.mkdir(parents=True, exist_ok=True)
        archive = folder / "download.zip"
        try:
            await self._transport.download(f"/v1/jobs/{job_id}/best", archive, format="metaschedule")
            await in_thread(unpack, archive, folder)
        except BaseException:  # an interrupted download leaves no folder, either
            if fresh:
                shutil.rmtree(folder, ignore_errors=True)
            raise
        finally:
            archive.unlink(missing_ok=True)
        return folder

    # Fleet

    async def devices(self) -> list[DeviceBody]:
        """Every known device, with its calibration (FLOP/s, bytes a second) and health."""
        return [DeviceBody.read(item) async for item in self._transport.items("/v1/devices")]

    async def device_history(self, device: str, hours: int = 24) -> list[DeviceTimeBody]:
        """Noise, drift, health and use of a device, in steps of ten minutes, oldest first.

        Args:
            device: name of the device.
            hours: how far back, 336 at most.
        """
        page = await self._transport.get("/v1/devices/history", device=device, hours=hours)
        return [DeviceTimeBody.read(item) for item in page["items"]]

    async def workers(self) -> list[dict[str, Any]]:
        """Every process that holds work or a device."""
        return [item async for item in self._transport.items("/v1/workers")]

    async def worker_log(
        self, worker: str, level: str = "debug", text: str | None = None, limit: int = 200
    ) -> Page[LogLineBody]:
        """What a worker logged lately, newest line first: from a level on, with ``text`` in it; for operators."""
        answer = await self._transport.get("/v1/workers/log", worker=worker, level=level, q=text, limit=limit)
        return Page[LogLineBody].read(answer)

    async def queues(self) -> list[dict[str, Any]]:
        """Every queue: messages, and rows that wait for or are in work."""
        return [item async for item in self._transport.items("/v1/queues")]

    async def targets(self) -> list[dict[str, Any]]:
        """Targets that something was tuned for."""
        return [item async for item in self._transport.items("/v1/targets")]

    async def enrol_worker(self, name: str, public_key: str, device_classes: Sequence[str] = ()) -> dict[str, Any]:
        """Let a measure worker in, by its public key (Ed25519, base64); it may serve ``device_classes``, or any."""
        body = {"name": name, "public_key": public_key, "device_classes": list(device_classes)}
        return dict(await self._transport.call("POST", "/v1/workers", json=body))

    async def enrolled_workers(self) -> list[dict[str, Any]]:
        """Every measure worker that was let in, revoked ones too."""
        return [item async for item in self._transport.items("/v1/workers/enrolled")]

    async def revoke_worker(self, worker_id: str, *, results: bool = False) -> dict[str, Any]:
        """Believe a measure worker no longer. For operators.

        Args:
            worker_id: which one.
            results: nothing that it ever reported is believed, either.

        Returns:
            How much was changed.

        Raises:
            NotFound: no such worker.
        """
        path = f"/v1/workers/enrolled/{worker_id}"
        return dict(await self._transport.call("DELETE", path, params={"results": results}))

    async def revoke_champion(self, workload: str, target: str, reason: str = "") -> dict[str, Any]:
        """Believe the champion of a workload on a target no longer. For operators.

        Args:
            workload: hash of the program.
            target: hash of the target.
            reason: for people.

        Returns:
            How much was changed.

        Raises:
            NotFound: it has none.
        """
        path, body = f"/v1/workloads/{workload}/revoke", {"target": target, "reason": reason}
        return dict(await self._transport.call("POST", path, json=body))
