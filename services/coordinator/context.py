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
from services.coordinator.broker import Publisher
from services.coordinator.metrics import Metrics
from services.coordinator.scheduling.history import Histories
from services.coordinator.settings import Settings
from services.coordinator.urls import BlobUrls

Result = TypeVar("Result")


@dataclass(frozen=True)
class Context:
    """Settings, database, blobs, broker, finished rounds and the bell that wakes the scheduling loop."""

    settings: Settings
    engine: Engine
    sessions: Sessions
    readers: Sessions
    blobs: BlobStore
    publisher: Publisher
    urls: BlobUrls
    metrics: Metrics
    histories: Histories = field(default_factory=Histories)
    wake: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """A session that only reads."""
        with self.readers.begin() as session:
            yield session

    def write(self, work: Callable[[Session], Result]) -> Result:
        """Run ``work`` in one transaction, then wake the loop."""
        result = transact(self.sessions, work)
        self.wake.set()
        return result


def current(request: Request) -> Context:
    """The context of the application that serves ``request``."""
    context: Context = request.app.state.context
    return context


InContext = Annotated[Context, Depends(current)]
