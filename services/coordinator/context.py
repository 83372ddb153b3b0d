"""What the routes and the loop share: one object, made by ``create_app``."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Annotated, TypeVar

from fastapi import Depends, Request
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from db.blobs import BlobStore
from db.engine import Sessions, transact
from db.queries.trial_counts import TrialCounts, WorkloadCounts
from services.coordinator.broker import Publisher
from services.coordinator.ended import EndedJobs
from services.coordinator.metrics import Metrics
from services.coordinator.probes import Probes
from services.coordinator.rates import KeyRates
from services.coordinator.scheduling.history import Histories
from services.coordinator.settings import Settings
from services.coordinator.streams import Streams
from services.coordinator.urls import BlobUrls
from tunesmith.errors import Unavailable

Result = TypeVar("Result")
MAX_WRITES = 24
"""Requests that wait for their turn to write. Each holds a thread of forty, and those that read need the others."""


@dataclass(frozen=True)
class Context:
    """Settings, database, blobs, broker, what is kept between looks, and the bell that wakes the scheduling loop.

    ``engine`` is the writers'; on SQLite readers have one of their own, because they wait for nobody.
    """

    settings: Settings
    engine: Engine
    reader_engine: Engine
    sessions: Sessions
    readers: Sessions
    blobs: BlobStore
    publisher: Publisher
    urls: BlobUrls
    metrics: Metrics
    probes: Probes
    rates: KeyRates
    histories: Histories = field(default_factory=Histories)
    streams: Streams = field(default_factory=Streams)
    trials: TrialCounts = field(default_factory=TrialCounts)
    workloads: WorkloadCounts = field(default_factory=WorkloadCounts)
    ended: EndedJobs = field(default_factory=EndedJobs)
    wake: threading.Event = field(default_factory=threading.Event)
    _turns: threading.BoundedSemaphore = field(default_factory=lambda: threading.BoundedSemaphore(MAX_WRITES))

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """A session that only reads."""
        with self.readers.begin() as session:
            yield session

    def write(self, work: Callable[[Session], Result]) -> Result:
        """Run a request's ``work`` in one transaction, then wake the loop.

        Raises:
            Unavailable: too many others wait for their turn to write.
        """
        if not self._turns.acquire(blocking=False):
            raise Unavailable(f"{MAX_WRITES} requests already wait to write to the database: try again soon")
        try:
            result = transact(self.sessions, work, patience=self.settings.write_timeout)
        finally:
            self._turns.release()
        self.wake.set()
        return result

    def dispose(self) -> None:
        """Close the connections."""
        self.engine.dispose()
        self.reader_engine.dispose()
        self.probes.dispose()


def current(request: Request) -> Context:
    """The context of the application that serves ``request``."""
    context: Context = request.app.state.context
    return context


InContext = Annotated[Context, Depends(current)]
