"""The loop: looks at the database, plans, acts, sends. Any number of loops may run; they take turns."""

from __future__ import annotations

import datetime as dt
import logging
import threading
import time

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from db import clock
from db.engine import transact
from db.outages import is_away
from db.queries import champions, event_log, scheduling
from db.transactions import idempotency, locks
from db.transactions.champions import adopt
from services.coordinator.context import Context
from services.coordinator.dispatch import Composer
from services.coordinator.housekeeping import Pruned, prune
from services.coordinator.scheduling.apply import apply
from services.coordinator.scheduling.clock_watch import ClockWatch
from services.coordinator.scheduling.load import load
from services.coordinator.scheduling.plan import plan
from services.coordinator.scheduling.reconcile import Dispatcher, Reconciler, longest_timeout
from services.coordinator.scheduling.share import Limits

log = logging.getLogger(__name__)
FULL_LOOK_SECONDS = 1.0
"""A look at everything this often, unless looks take long; in between only when something has happened."""
LOOKS_SHARE = 0.2
"""Share of the time for looks for which nothing has happened: pages of a large job are made at the same time."""
LONGEST_WAIT_SECONDS = 5.0
"""Deadlines and budgets wait no longer than that for a look, however long looks take."""
HOUSEKEEPING_SECONDS = 3600.0
IDEMPOTENCY_LIFE = dt.timedelta(hours=24)
BACKOFF_SECONDS = 2.0
AWAY_SECONDS = 0.25
"""Pause before a database that is away is asked again."""


class SchedulingLoop:
    """Runs :meth:`step` in a thread until it is stopped.

    Kernels are timed on the same cores, so an idle look costs one query: every state change leaves an event, so a
    look at everything is due when the newest event's id has changed, or after a second (deadlines, budgets),
    or up to five where looks take long.

    Attributes:
        dispatcher, reconciler: what sends work, and what finds work that was lost.
    """

    def __init__(self, context: Context, limits: Limits | None = None) -> None:
        self._context, self._limits = context, limits or Limits()
        composer = Composer(context.blobs, context.urls)
        self.dispatcher = Dispatcher(context.settings, composer, context.publisher, context.metrics)
        self.reconciler = Reconciler(context.settings, self.dispatcher, context.metrics)
        self._clock = ClockWatch(context)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="scheduling-loop", daemon=True)
        self._shared = 0
        self._seen, self._looked, self._cleaned = -1, float("-inf"), float("-inf")
        self._every = FULL_LOOK_SECONDS
        self._broker_away_until = float("-inf")

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self, timeout: float = 10.0) -> None:
        """End the thread after its present look."""
        self._stop.set()
        self._context.wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout)

    def _run(self) -> None:
        while not self._stop.is_set():
            self._context.wake.clear()
            try:
                self.tick()
                pause = self._context.settings.loop_seconds
            except SQLAlchemyError as error:
                log.error("the database does not answer, looking again soon: %s", error)
                pause = AWAY_SECONDS if is_away(error) else BACKOFF_SECONDS
                self._looked = float("-inf")  # what this look was about is still to be done
            except Exception:  # whatever went wrong once, the loop must look again
                log.exception("a look failed, looking again soon")
                self._context.metrics.loop_failures.inc()
                pause = BACKOFF_SECONDS
            if self._context.wake.wait(pause):
                self._stop.wait(0.005)  # a burst of requests is one look

    def tick(self) -> None:
        """A look at everything if one is due."""
        with self._context.reading() as session:
            newest = event_log.last_id(session)
        now = time.monotonic()
        if newest == self._seen and now - self._looked < self._every:
            return
        self._seen, self._looked = newest, now
        with self._context.metrics.loop_seconds.time():
            self.step()
        took = time.monotonic() - now
        self._every = min(max(FULL_LOOK_SECONDS, took / LOOKS_SHARE), LONGEST_WAIT_SECONDS)

    def step(self) -> None:
        """One look at everything: bring back what is overdue, act on the plan, send what is due."""
        self._clock.check()
        self._share()
        self._act()
        self._send()
        if time.monotonic() - self._cleaned > HOUSEKEEPING_SECONDS:
            self._cleaned = time.monotonic()
            context = self._context
            transact(
                context.sessions,
                lambda session: idempotency.forget(session, clock.now(session) - IDEMPOTENCY_LIFE),
            )
            context.blobs.sweep()
            found = prune(context.sessions, context.readers, context.blobs, context.settings.retention())
            if found != Pruned():
                log.info("removed what is not kept: %s", found)

    def _share(self) -> None:
        """Jobs that tune the same take over each other's champions: looked for when there may be a new one."""
        with self._context.reading() as session:
            newest = event_log.last_id(session)
            found = champions.adoptable(session) if champions.any_adoptable(session, self._shared) else []
        if found:  # in a transaction of its own, in the order of the tasks: workers hold one task's row, and no other
            transact(self._context.sessions, lambda session: [adopt(session, champion) for champion in found])
        self._shared = newest

    def _act(self) -> None:
        """Plan on a reader's view first. The writers' lock is taken only when there is something to do, and then the
        plan is made anew, because it may have changed."""
        context, settings = self._context, self._context.settings
        with context.reading() as session:
            idle = not plan(load(session, context.histories, settings.device_timeout), self._limits)
            overdue = scheduling.any_overdue(session, longest_timeout(settings), clock.now(session))
            missing = self.reconciler.missing(session) if overdue else frozenset()
        if idle and not overdue:
            return

        def act(session: Session) -> list[str]:
            locks.lock_scheduling(session)
            self.reconciler.run(session, missing)
            actions = plan(load(session, context.histories, settings.device_timeout), self._limits)
            return apply(session, actions)

        context.publisher.revoke(transact(context.sessions, act))

    def _send(self) -> None:
        """Send what is due. Without a broker it becomes due again, and is tried again some seconds later."""
        context = self._context
        if time.monotonic() < self._broker_away_until:
            return
        with context.reading() as session:
            if not self.dispatcher.anything(session):
                return
        marked = transact(context.sessions, self.dispatcher.mark)
        with context.reading() as session:
            messages, broken = self.dispatcher.compose(session, marked)
        if broken:
            transact(context.sessions, lambda session: self.dispatcher.give_up(session, broken))
        unsent = self.dispatcher.send(messages)
        if unsent:
            self._broker_away_until = time.monotonic() + BACKOFF_SECONDS
            transact(context.sessions, lambda session: self.dispatcher.put_back(session, unsent))
