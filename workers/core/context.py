"""What a core task works with."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from cachetools import LRUCache
from sqlalchemy.orm import Session

from costmodels.base import CostModel
from costmodels.registry import load_cost_model
from db import revision
from db.blobs import BlobStore
from db.engine import Sessions, create_engine, session_factory, transact
from db.queries.cost_models import TrainedModel
from tunesmith.resources import process_name
from workers.core.database_retry import DatabaseRetry
from workers.core.importing import Importing
from workers.log_store import LogStore
from workers.sandbox.lease import HostLease
from workers.settings import Settings
from workers.tvm_backend.design_space.nests.forms import NestForms

Result = TypeVar("Result")

SCHEMA_SECONDS = 30.0
"""A process that runs through an upgrade notices within so much of work."""


@dataclass
class Context:
    """One per process.

    Attributes:
        sessions, readers: sessions that write, and such as only read.
        importing: boxes for models; what they need starts with the first one.
        logs: what measure workers log.
        worker: this process's name in claims and events.
        spaces: design spaces by workload, target and sketches: their warmth is most of a proposal's speed.
        nest_forms: what the nests of tasks with the same sketches have in common.
        cost_models: loaded models by id.
        features: features of measured batches by blob.
        patience: waits while the database is away.
        schema_checked: when the schema was looked at last, in seconds of the monotonic clock.
    """

    settings: Settings
    sessions: Sessions
    readers: Sessions
    blobs: BlobStore
    lease: HostLease
    importing: Importing
    logs: LogStore
    worker: str
    spaces: LRUCache[Hashable, Any] = field(default_factory=lambda: LRUCache(64))
    nest_forms: NestForms = field(default_factory=NestForms)
    cost_models: LRUCache[str, CostModel] = field(default_factory=lambda: LRUCache(4))
    features: LRUCache[str, Any] = field(default_factory=lambda: LRUCache(2048))
    patience: DatabaseRetry = field(default_factory=DatabaseRetry)
    schema_checked: float = field(default_factory=time.monotonic)

    def check_schema(self) -> None:
        """See now and then that the database was not brought to another version while this process runs.

        Raises:
            SchemaMismatch: it was.
        """
        if time.monotonic() - self.schema_checked >= SCHEMA_SECONDS:
            revision.check(self.settings.url())
            self.schema_checked = time.monotonic()

    def trained(self, row: TrainedModel) -> CostModel:
        """A trained cost model; the process keeps those it used last."""
        if row.id not in self.cost_models:
            with self.lease.shared():  # the first one loads its library, a second's work
                self.cost_models[row.id] = load_cost_model(row.kind, self.blobs.get_bytes(row.blob))
        return self.cost_models[row.id]

    def write(self, work: Callable[[Session], Result], limit: float = float("inf")) -> Result:
        """Run ``work`` in one transaction, and wait up to ``limit`` seconds for a database that is away.

        Whatever a worker writes may be written twice: claims, results and ends look at the row's state first.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database is away for longer, or the worker is to end.
        """
        return self.patience.wait(lambda: transact(self.sessions, work, repeatable=True), limit)


def make_context(settings: Settings, patience: DatabaseRetry | None = None) -> Context:
    """The context of this process; opens no connection yet."""
    engine = create_engine(settings.url())
    return Context(
        settings=settings,
        sessions=session_factory(engine),
        readers=session_factory(engine, read_only=True),
        blobs=BlobStore(settings.blobs()),
        lease=HostLease(settings.lease_file),
        importing=Importing(settings),
        logs=LogStore(settings.broker_url.get_secret_value()),
        worker=process_name(socket.gethostname()),
        patience=patience or DatabaseRetry(),
    )
