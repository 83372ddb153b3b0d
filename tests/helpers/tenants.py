"""Two users with everything that a user can own, and a key of every scope for each of them."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from api_driver import Api
from rows import TARGET, add_batch, add_job, add_model, add_task
from sqlalchemy.orm import Session

from db.models import (
    CacheEntry,
    CostModelRow,
    Listing,
    ModelTask,
    Proposal,
    ProposalSet,
    Record,
    RecordImport,
    Schedule,
    SketchRow,
    WorkloadRow,
)
from db.models.base import utcnow
from db.transactions import events
from services.coordinator.access import SCOPES
from tunesmith.event_kinds import EventKind
from tunesmith.events import StateChanged
from tunesmith.states import JobState, WorkState

ADMIN = "first-key"
WORKLOAD = "shared-workload"


@dataclass(frozen=True)
class Owned:
    """Ids of what one user owns. ``marks`` are the texts that no stranger may ever be sent."""

    owner: str
    model: str
    job: str
    finished: str
    cost_model: str
    record_import: str
    batch: int
    trial: int
    task: int
    marks: tuple[str, ...]


def seed(api: Api, owner: str, latency: float = 1e-3) -> Owned:
    """A model that no job uses, a running and a finished job with a task, a trial, a champion and a cost model."""
    tag = uuid.uuid4().hex[:12]
    names = {part: f"{owner}-{part}-{tag}" for part in ("model", "used", "job", "finished", "costmodel", "import")}
    module = api.context.blobs.put_bytes(b'{"module": 0}')

    def work(session: Session) -> Owned:
        digest = (uuid.uuid4().hex * 2)[:64]
        add_model(session, id=names["model"], name=f"secret-name-{tag}", owner=owner, sha256=digest)
        add_model(
            session,
            id=names["used"],
            name=f"used-name-{tag}",
            owner=owner,
            sha256=digest[::-1],
            module_blob=module,
            inputs=[],
        )
        for job, state in ((names["job"], JobState.RUNNING), (names["finished"], JobState.SUCCEEDED)):
            add_job(session, job, owner=owner, name=f"job-name-{tag}", model_id=names["used"], state=state)
        task = add_task(session, names["job"], WORKLOAD, name=f"task-{tag}")
        add_task(session, names["finished"], WORKLOAD, name=f"task-{tag}")
        session.get_one(SketchRow, f"s-{WORKLOAD}").body = {"knobs": [], "trace": []}
        for model in (names["model"], names["used"]):
            session.add(ModelTask(model_id=model, workload_hash=WORKLOAD, position=0, name="t", weight=1))
        batch = add_batch(session, task)
        record = Record(
            job_id=names["job"],
            job_task_id=task.id,
            batch_id=batch.id,
            index=0,
            workload_hash=WORKLOAD,
            target_hash=TARGET,
            sketch_hash=None,
            decisions=[],
            samples=[latency],
            latency=latency,
            environment={},
        )
        session.add(record)
        session.add(
            CostModelRow(
                id=names["costmodel"],
                kind="xgboost",
                job_id=names["job"],
                target_hash=TARGET,
                number=1,
                attempt=1,
                state=WorkState.DONE,
                features="f",
                dispatched=0,
            )
        )
        session.add(
            RecordImport(
                id=names["import"], owner=owner, name=names["model"], file_hash=digest, size=1, state=WorkState.DONE
            )
        )
        session.flush()
        session.add(CacheEntry(owner=owner, namespace="helion", key=tag, value=digest))
        session.add(Listing(record_id=record.id))
        proposed = ProposalSet(job_id=names["job"], job_task_id=task.id, source="agent", author=f"author-{tag}")
        session.add(proposed)
        session.flush()
        key = {"set_id": proposed.id, "job_id": names["job"], "job_task_id": task.id, "given": digest}
        session.add(Proposal(**key, sketch_hash=f"s-{WORKLOAD}", decisions=[], valid=True))
        champion = {"workload_hash": WORKLOAD, "target_hash": TARGET, "simulated": False, "cache": "warm"}
        best = session.get(Schedule, tuple(champion.values()))
        if best is None:
            session.add(Schedule(**champion, record_id=record.id, latency=latency, trace=[], updated_at=utcnow()))
        said = StateChanged(EventKind.JOB_RUNNING, names["job"], None, "preparing", "running")
        events.append(session, said, names["job"])
        marks = (*names.values(), tag, digest)
        return Owned(
            owner,
            names["model"],
            names["job"],
            names["finished"],
            names["costmodel"],
            names["import"],
            batch.id,
            record.id,
            task.id,
            marks,
        )

    with api.context.sessions.begin() as session:
        found = work(session)
        workload = session.get_one(WorkloadRow, WORKLOAD)
        workload.module_blob = module
        workload.metaschedule_blob = api.context.blobs.put_bytes(b'["0", "bW9kdWxl"]')
    return found


def keys(api: Api, owner: str) -> dict[str, dict[str, str]]:
    """Headers with a key of each scope, for ``owner``."""
    found: dict[str, Any] = {}
    for scope in SCOPES:
        made = api.client.post("/v1/keys", json={"owner": owner, "scopes": [scope]}, headers=bearer(ADMIN))
        assert made.status_code == 201, made.text
        found[scope] = bearer(made.json()["key"])
    return found


def bearer(key: str) -> dict[str, str]:
    """The header that carries a key."""
    return {"authorization": f"Bearer {key}"}


def revoked(api: Api) -> dict[str, str]:
    """Headers with a key of every scope that is not valid any more."""
    made = api.client.post("/v1/keys", json={"owner": "gone", "scopes": list(SCOPES)}, headers=bearer(ADMIN)).json()
    assert api.client.delete(f"/v1/keys/{made['id']}", headers=bearer(ADMIN)).status_code == 204
    return bearer(made["key"])
