"""The client: one method per thing that the REST API does."""

from __future__ import annotations

import json
import shutil
import time
import uuid
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2

from tunesmith.answers.base import Page
from tunesmith.answers.events import EventBody
from tunesmith.answers.fleet import AuditBody, DeviceBody, KeyBody, NewKeyBody
from tunesmith.answers.jobs import FailureBody, ForecastBody, JobBody, TaskBody
from tunesmith.answers.models import ModelBody, ModelTaskBody
from tunesmith.client import events
from tunesmith.client.cost_models import CostModels
from tunesmith.client.records import Dataset
from tunesmith.client.transport import RESTART_SECONDS, Transport
from tunesmith.client.trials import Trials
from tunesmith.errors import InvalidInput, NotAModel, TunesmithError, from_problem
from tunesmith.full_disk import writing
from tunesmith.names import DEFAULT_URL
from tunesmith.states import ModelState


class Client(Dataset, CostModels, Trials):
    """Talks to one coordinator; close it or use it in a ``with`` statement. Not for several threads at once.

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
        transport: httpx2.BaseTransport | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._transport = Transport(url, key, timeout, transport, headers)
        self.url = self._transport.url

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def ready(self) -> bool:
        """True when a server answers and all that it needs is there."""
        try:
            self._transport.request("GET", "/readyz", repeat=False, timeout=5.0)
        except TunesmithError:
            return False
        return True

    # Models

    def upload_model(
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
                answer = self._transport.request(
                    "POST",
                    "/v1/models",
                    data=form,
                    timeout=httpx2.Timeout(600.0, connect=10.0),
                    files={"file": (path.name, file, "application/octet-stream")},
                )
        except OSError as error:
            raise NotAModel(f"cannot read {path}: {error.strerror}", field="model", value=str(path)) from error
        return ModelBody.read(answer.json())

    def models(self, limit: int = 50, cursor: str | None = None) -> Page[ModelBody]:
        """Models, newest first."""
        return Page[ModelBody].read(self._transport.get("/v1/models", limit=limit, cursor=cursor))

    def model(self, model_id: str) -> ModelBody:
        """One model."""
        return ModelBody.read(self._transport.get(f"/v1/models/{model_id}"))

    def wait_model(self, model_id: str, timeout: float = 600.0, poll: float = 0.2) -> ModelBody:
        """Wait until a model is imported.

        Raises:
            ModelRejected: or the subclass that says why the model was refused.
            TunesmithError: when the import takes longer than ``timeout`` seconds.
        """
        end = time.monotonic() + timeout
        while (model := self.model(model_id)).state is ModelState.IMPORTING:
            if time.monotonic() > end:
                raise TunesmithError(f"the model {model_id} was not imported within {timeout:g} s")
            time.sleep(poll)
        if model.state is ModelState.REJECTED:
            raise from_problem(model.error or {"code": "model_rejected", "detail": "the model was rejected"})
        return model

    def model_tasks(self, model_id: str) -> list[ModelTaskBody]:
        """The tasks that a model was split into."""
        return [ModelTaskBody.read(item) for item in self._transport.items(f"/v1/models/{model_id}/tasks")]

    def delete_model(self, model_id: str) -> None:
        """Delete a model. Raises Conflict while jobs use it."""
        self._transport.request("DELETE", f"/v1/models/{model_id}")

    # Keys, for operators

    def keys(self) -> list[KeyBody]:
        """Every key, without its secret."""
        return [KeyBody.read(item) for item in self._transport.items("/v1/keys")]

    def create_key(self, owner: str, scopes: Sequence[str] = ("user",)) -> NewKeyBody:
        """Make a key; its secret is in this answer only."""
        body = {"owner": owner, "scopes": list(scopes)}
        return NewKeyBody.read(self._transport.request("POST", "/v1/keys", json=body).json())

    def revoke_key(self, key_id: str) -> None:
        """Revoke a key. Raises Conflict for the last one of an operator."""
        self._transport.request("DELETE", f"/v1/keys/{key_id}")

    def audit(self, owner: str | None = None, limit: int = 50, cursor: str | None = None) -> Page[AuditBody]:
        """Who did what, newest first."""
        answer = self._transport.get("/v1/audit", owner=owner, limit=limit, cursor=cursor)
        return Page[AuditBody].read(answer)

    # Jobs

    def submit(
        self,
        *,
        target: str | dict[str, Any],
        model_id: str | None = None,
        operator: str | None = None,
        operators: Sequence[str] | None = None,
        trials: int | None = None,
        seconds: float | None = None,
        stop_when_converged: bool = False,
        **options: Any,
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
            **options: the job's ``name``, fields of :class:`tunesmith.options.JobOptions`, and of a collecting job its
                ``kind``, ``per_task``, ``shard`` and ``shards``; None leaves the server's default.
        """
        budget = {"trials": trials, "seconds": seconds, "stop_when_converged": stop_when_converged}
        source = {"model_id": model_id, "operator": operator, "operators": operators}
        body = {**source, "target": target, **options}
        body = {key: value for key, value in body.items() if value is not None}
        body["budget"] = {key: value for key, value in budget.items() if value is not None}
        answer = self._transport.request(
            "POST", "/v1/jobs", repeat=True, json=body, headers={"idempotency-key": uuid.uuid4().hex}
        )
        return JobBody.read(answer.json())

    def jobs(
        self,
        *,
        state: str | None = None,
        target: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
        sort: str | None = None,
        q: str | None = None,
    ) -> Page[JobBody]:
        """Jobs, newest first; ``q`` is a part of the id, the name or the model's name."""
        wanted = {"state": state, "target": target, "limit": limit, "cursor": cursor, "sort": sort, "q": q}
        return Page[JobBody].read(self._transport.get("/v1/jobs", **wanted))  # type: ignore[arg-type]

    def job(self, job_id: str, patience: float = 0.0) -> JobBody:
        """One job.

        Args:
            job_id: which one.
            patience: seconds for which a server that does not answer is asked again; a restart takes a few.
        """
        return JobBody.read(self._transport.get(f"/v1/jobs/{job_id}", patience=patience))

    def wait(self, job_id: str, timeout: float | None = None, poll: float = 0.5) -> JobBody:
        """Wait until a job has ended, whichever way.

        Raises:
            TunesmithError: when it takes longer than ``timeout`` seconds.
        """
        end = None if timeout is None else time.monotonic() + timeout
        while not (job := self.job(job_id, RESTART_SECONDS)).done:
            if end is not None and time.monotonic() > end:
                waits = "".join(f", and waits: {what} {name}" for what, name in (job.waiting_for or {}).items())
                raise TunesmithError(
                    f"the job {job_id} did not end within {timeout:g} s; it is {job.state.value}, "
                    f"after {job.progress.trials} trials{waits}"
                )
            time.sleep(poll)
        return job

    def cancel(self, job_id: str) -> JobBody:
        """Cancel a job; its measurements are kept."""
        return self._act(job_id, "cancel")

    def pause(self, job_id: str) -> JobBody:
        """Open no more rounds."""
        return self._act(job_id, "pause")

    def resume(self, job_id: str) -> JobBody:
        """Resume a paused job."""
        return self._act(job_id, "resume")

    def delete_job(self, job_id: str) -> None:
        """Remove a job that is over; its records stay. Raises Conflict before."""
        self._transport.request("DELETE", f"/v1/jobs/{job_id}")

    def update(
        self,
        job_id: str,
        *,
        priority: int | None = None,
        trials: int | None = None,
        seconds: float | None = None,
        name: str | None = None,
    ) -> JobBody:
        """Change a job's priority, budget or name."""
        budget = {key: value for key, value in (("trials", trials), ("seconds", seconds)) if value is not None}
        given = {"priority": priority, "name": name}
        body: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
        if budget:
            body["budget"] = budget
        if not body:
            raise InvalidInput("nothing to set: give --priority, --trials, --time or --name")
        return JobBody.read(self._transport.request("PATCH", f"/v1/jobs/{job_id}", json=body).json())

    def tasks(self, job_id: str) -> list[TaskBody]:
        """A job's tasks."""
        return [TaskBody.read(item) for item in self._transport.items(f"/v1/jobs/{job_id}/tasks")]

    def curve(self, job_id: str) -> dict[str, Any]:
        """Best-so-far, down-sampled by the server."""
        return dict(self._transport.get(f"/v1/jobs/{job_id}/curve"))

    def forecast(self, job_id: str) -> ForecastBody:
        """What a job is expected to come to."""
        return ForecastBody.read(self._transport.get(f"/v1/jobs/{job_id}/forecast"))

    def failures(self, job_id: str) -> list[FailureBody]:
        """How many of a job's candidates failed, by class."""
        return [FailureBody.read(item) for item in self._transport.items(f"/v1/jobs/{job_id}/failures")]

    def rounds(self, job_id: str) -> Iterator[dict[str, Any]]:
        """A job's rounds, oldest first."""
        return self._transport.items(f"/v1/jobs/{job_id}/rounds", limit=200)

    def decisions(self, job_id: str, newest: int) -> list[dict[str, Any]]:
        """Why the newest of a job's rounds were chosen, newest first; 200 at most."""
        page = self._transport.get(f"/v1/jobs/{job_id}/decisions", sort="-number", limit=newest)
        return list(page["items"])

    # Events

    def events(self, job_id: str, after: int = 0, limit: int = 200) -> list[EventBody]:
        """Events with an id above ``after``, oldest first."""
        return events.page(self._transport, job_id, after, limit)

    def follow(self, job_id: str, after: int = 0) -> Iterator[EventBody]:
        """Events as they happen, until the job has ended. Survives broken connections."""
        for event in events.follow(self._transport, job_id, after):
            if event is not None:
                after = event.id
                yield event
            elif self.job(job_id, RESTART_SECONDS).done:
                yield from self.events(job_id, after)
                return

    # Results

    def best(self, job_id: str) -> list[dict[str, Any]]:
        """The best schedules, one object per task (the JSON log's lines)."""
        response = self._transport.request("GET", f"/v1/jobs/{job_id}/best", params={"format": "jsonl"})
        return [json.loads(line) for line in response.text.splitlines() if line.strip()]

    @contextmanager
    def stream_best(self, job_id: str, form: str = "jsonl") -> Iterator[Iterator[bytes]]:
        """The best schedules as they arrive: ``jsonl``, or ``metaschedule`` for the zip."""
        with self._transport.stream(f"/v1/jobs/{job_id}/best", format=form) as response:
            yield response.iter_bytes()

    def download_best(self, job_id: str, path: str | Path) -> Path:
        """Write the JSON log to ``path``."""
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._transport.download(f"/v1/jobs/{job_id}/best", path, format="jsonl")
        return path

    def download_metaschedule(self, job_id: str, folder: str | Path) -> Path:
        """Write a MetaSchedule database with what compiles it to ``folder``."""
        folder = Path(folder)
        fresh = not folder.exists()
        folder.mkdir(parents=True, exist_ok=True)
        archive = folder / "download.zip"
        try:
            self._transport.download(f"/v1/jobs/{job_id}/best", archive, format="metaschedule")
            with writing(folder), zipfile.ZipFile(archive) as content:
                content.extractall(folder)
        except BaseException:  # an interrupted download leaves no folder, either
            if fresh:
                shutil.rmtree(folder, ignore_errors=True)
            raise
        finally:
            archive.unlink(missing_ok=True)
        return folder

    # Fleet

    def devices(self) -> list[DeviceBody]:
        """Every known device."""
        return [DeviceBody.read(item) for item in self._transport.items("/v1/devices")]

    def workers(self) -> list[dict[str, Any]]:
        """Every process that holds work or a device."""
        return list(self._transport.items("/v1/workers"))

    def queues(self) -> list[dict[str, Any]]:
        """Every queue: messages, and rows that wait for or are in work."""
        return list(self._transport.items("/v1/queues"))

    def targets(self) -> list[dict[str, Any]]:
        """Targets that something was tuned for."""
        return list(self._transport.items("/v1/targets"))

    def enrol_worker(self, name: str, public_key: str, device_classes: Sequence[str] = ()) -> dict[str, Any]:
        """Let a measure worker in, by its public key (Ed25519, base64); it may serve ``device_classes``, or any."""
        body = {"name": name, "public_key": public_key, "device_classes": list(device_classes)}
        return dict(self._transport.request("POST", "/v1/workers", json=body).json())

    def enrolled_workers(self) -> list[dict[str, Any]]:
        """Every measure worker that was let in, revoked ones too."""
        return list(self._transport.items("/v1/workers/enrolled"))

    def revoke_worker(self, worker_id: str, *, results: bool = False) -> dict[str, Any]:
        """Believe a measure worker no longer, and with ``results`` nothing that it ever reported; what changed."""
        path = f"/v1/workers/enrolled/{worker_id}"
        return dict(self._transport.request("DELETE", path, params={"results": results}).json())

    def revoke_champion(self, workload: str, target: str, reason: str = "") -> dict[str, Any]:
        """Believe the champion of a workload on a target no longer; what changed."""
        path, body = f"/v1/workloads/{workload}/revoke", {"target": target, "reason": reason}
        return dict(self._transport.request("POST", path, json=body).json())

    def _act(self, job_id: str, action: str) -> JobBody:
        return JobBody.read(self._transport.request("POST", f"/v1/jobs/{job_id}/{action}").json())
