"""Sends what is due, and brings back what was lost."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy.exc import NoResultFound
from sqlalchemy.orm import Session

from db import clock
from db.models import Batch, CostModelRow, Device, Evaluation, Job, Listing, Model, ProposalSet, RecordImport, Round
from db.models.work import NOUNS, Work
from db.queries import devices, fleet, import_queue, scheduling
from db.transactions import locks, outcomes, work
from services.coordinator.broker import Publisher
from services.coordinator.dispatch import Composer, queue_of
from services.coordinator.metrics import Metrics
from services.coordinator.settings import Settings
from tunesmith.errors import MeasurementFailed, ModelRejected, TunesmithError
from tunesmith.messages import Message
from tunesmith.states import WorkState

log = logging.getLogger(__name__)
KINDS: tuple[Any, ...] = (Model, Job, Round, Batch, Evaluation, CostModelRow, RecordImport, Listing, ProposalSet)
MAX_CLAIM_WAIT = 300.0
MAX_MESSAGES_PER_PASS = 50
"""Messages sent in one look at most, so that a look stays short."""


def longest_timeout(settings: Settings) -> float:
    """Seconds that a deadline is ahead at most when it is set."""
    return max(settings.work_timeout, settings.ingest_timeout, settings.claim_timeout, MAX_CLAIM_WAIT)


@dataclass(frozen=True)
class Outgoing:
    """A composed message, its queue and its Celery id."""

    row: Work
    message: Message
    queue: str
    task_id: str


@dataclass(frozen=True)
class Unsendable:
    """A row whose message cannot be made, and why."""

    row: Work
    error: TunesmithError


class Dispatcher:
    """Publishes due rows. A row is marked, with its deadline, before its message leaves: a loss is found later."""

    def __init__(self, settings: Settings, composer: Composer, publisher: Publisher, metrics: Metrics) -> None:
        self._settings, self._composer, self._publisher, self._metrics = settings, composer, publisher, metrics

    def mark(self, session: Session) -> list[Work]:
        """Mark everything that is due as sent."""
        locks.lock_scheduling(session)  # two loops at once would each give a user his share of the importers
        now = clock.now(session)
        waiting: list[Work] = [*work.due_imports(session, self._settings.imports_per_user, limit=MAX_MESSAGES_PER_PASS)]
        for kind in (kind for kind in KINDS if kind not in import_queue.KINDS):
            waiting += work.due_for_dispatch(session, kind, limit=MAX_MESSAGES_PER_PASS)
        return [row for row in waiting if work.mark_dispatched(session, row, self.claim_wait(row, now), now)]

    def depths(self, queues: Sequence[str]) -> dict[str, int | None]:
        """Messages that wait in queues; None where the broker does not say."""
        return self._publisher.depths(queues) if queues else {}

    def anything(self, session: Session) -> bool:
        """True when :meth:`mark` would find something to send."""
        return scheduling.any_due(session) or import_queue.any_due(session, self._settings.imports_per_user)

    def compose(self, session: Session, marked: Sequence[Work]) -> tuple[list[Outgoing], list[Unsendable]]:
        """The messages of rows, and the rows without one: a blob is gone."""
        out, broken = [], []
        for row in marked:
            try:
                message, queue = self._composer.compose(session, row)
            except TunesmithError as error:
                log.error("%s %s cannot be sent: %s", NOUNS[type(row)], row.id, error.detail)
                broken.append(Unsendable(row, error))
            except NoResultFound:
                log.info("%s %s was deleted with its job", NOUNS[type(row)], row.id)
            else:
                out.append(Outgoing(row, message, queue, f"{message.task}-{row.id}-{row.attempt}"))
        return out, broken

    def send(self, messages: Sequence[Outgoing]) -> list[Work]:
        """Publish until the broker fails; the rows whose messages did not leave."""
        for number, item in enumerate(messages):
            if not self._publisher.send(item.message, queue=item.queue, task_id=item.task_id):
                return [other.row for other in messages[number:]]
            self._metrics.dispatches.labels(item.message.task).inc()
        return []

    def give_up(self, session: Session, broken: Sequence[Unsendable]) -> None:
        """End work that cannot be sent: a further attempt would find no more of it."""
        for item in broken:
            row = locks.lock_row(session, type(item.row), item.row.id)
            if row is not None and row.attempt == item.row.attempt:
                outcomes.give_up(session, row, item.error.problem())

    def put_back(self, session: Session, unsent: Sequence[Work]) -> None:
        """Make rows due again."""
        now = clock.now(session)
        for row in unsent:
            work.postpone(session, row, 0.0, now, resend=True)

    def claim_wait(self, row: Work, now: dt.datetime) -> float:
        """Seconds to wait for a worker to take a message before it is sent again. They grow with the work's age, so
        that a queue nobody reads gathers few copies."""
        age = (now - row.created_at).total_seconds()
        return max(self._settings.claim_timeout, min(MAX_CLAIM_WAIT, age / 4))


class Reconciler:
    """Deals with rows whose deadline has passed.

    Nobody took it: where its queue holds fewer messages than it should, one is lost, and it is sent again as the same
    attempt, unless no device could take it (none lives, or all are busy). Otherwise it keeps waiting. Somebody took it
    and fell silent: a further attempt, and after the last one the work fails with a reason.
    """

    def __init__(self, settings: Settings, dispatcher: Dispatcher, metrics: Metrics) -> None:
        self._settings, self._dispatcher, self._metrics = settings, dispatcher, metrics

    def missing(self, session: Session) -> frozenset[str]:
        """Queues with fewer messages than work that nobody took: some are lost. The broker is asked, so call it outside
        of a transaction that writes."""
        waiting = fleet.unclaimed(session)
        depths = self._dispatcher.depths(sorted(waiting))
        return frozenset(queue for queue, number in waiting.items() if (depths.get(queue) or 0) < number)

    def run(self, session: Session, missing: Collection[str]) -> None:
        """Go through everything that is overdue; ``missing``: see :meth:`missing`."""
        now = clock.now(session)
        live = devices.measurable(session, self._settings.device_timeout, now)
        for kind in KINDS:
            for row in work.overdue(session, kind, longest_timeout(self._settings), now):
                if row.worker is None and row.state is not WorkState.RUNNING:
                    self._nobody_took(session, row, live, now, queue_of(row) in missing)
                else:
                    self._fell_silent(session, row)

    def _nobody_took(self, session: Session, row: Work, live: Sequence[Device], now: dt.datetime, lost: bool) -> None:
        resend = lost
        if lost and isinstance(row, (Batch, Evaluation)):
            able = [device for device in live if row.device_class in device.device_classes]
            resend = any(not device.busy for device in able)
        wait = self._settings.claim_timeout if not resend else self._dispatcher.claim_wait(row, now)
        if work.postpone(session, row, wait, now, resend=resend) and resend:
            self._metrics.retries.labels(NOUNS[type(row)], "unclaimed").inc()

    def _fell_silent(self, session: Session, row: Work) -> None:
        noun = NOUNS[type(row)]
        attempts = self._settings.max_attempts
        detail = f"no worker finished the {noun} in {attempts} attempts; the last one was {row.worker}"
        if not work.retry(session, row, attempts, f"{row.worker} fell silent"):
            outcomes.give_up(session, row, gave_up(row, detail))
        self._metrics.retries.labels(noun, "silent").inc()


def gave_up(row: Work, detail: str) -> dict[str, object]:
    """The problem object of work that used up its attempts."""
    kind: type[TunesmithError] = TunesmithError
    if isinstance(row, Model):
        kind, detail = ModelRejected, f"{detail}: importing it kills the worker or takes too long"
    elif isinstance(row, (Batch, Evaluation)):
        kind = MeasurementFailed
    return kind(detail).problem()
