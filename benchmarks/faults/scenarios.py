"""The five faults, as the public sweep of PostgreSQL job queues names them, and none for comparison."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import sqlalchemy as sa

from benchmarks.faults.cluster import Cluster
from benchmarks.faults.servers import DATABASE, OTHERS, ROLE

AWAY, BACK = 8.0, 5.0
"""Seconds that the server is away, and a replica; no more than the phase has."""
HELD = 95
TERMINATE = (
    f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{DATABASE}' AND usename = '{ROLE}' "
    "ORDER BY random() LIMIT 1"
)


@dataclass(frozen=True)
class Scenario:
    """A fault.

    Attributes:
        what: happens, in words.
        run: makes it happen; returns when it is over, after the seconds that it is given or a little more.
    """

    what: str
    run: Callable[[Cluster, float], None]


def _nothing(cluster: Cluster, seconds: float) -> None:
    time.sleep(seconds)


def _restart(cluster: Cluster, seconds: float) -> None:
    """The server is away for the last part of the phase, so that what follows begins when it is back."""
    away = min(AWAY, seconds)
    time.sleep(seconds - away)
    stopped = time.monotonic()
    cluster.postgres.stop()
    time.sleep(max(0.0, away - (time.monotonic() - stopped)))
    cluster.postgres.start()


def _backend_kill(cluster: Cluster, seconds: float) -> None:
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        cluster.postgres.execute(TERMINATE)
        time.sleep(min(0.5, left))


def _exhaust(cluster: Cluster, seconds: float) -> None:
    """Others take every connection that is free, until they have 95 of 100."""
    engine = sa.create_engine(cluster.postgres.url(OTHERS), poolclass=sa.NullPool)
    end = time.monotonic() + seconds
    with contextlib.ExitStack() as held:
        count = 0
        while (left := end - time.monotonic()) > 0:
            if count < HELD:
                with contextlib.suppress(sa.exc.OperationalError):  # none is free: ours have it
                    held.enter_context(engine.connect())
                    count += 1
                    continue
            time.sleep(min(0.1, left))


def _crash(cluster: Cluster, seconds: float) -> None:
    away = min(BACK, seconds)
    cluster.kill(0)
    time.sleep(away)
    cluster.start(0)
    time.sleep(seconds - away)


def _kills(cluster: Cluster, seconds: float) -> None:
    """One replica again and again: killed, back after 5 s, and killed as soon as it is back."""
    end = time.monotonic() + seconds
    while time.monotonic() < end - 0.01:
        cluster.kill(0)
        time.sleep(max(0.0, min(BACK, end - time.monotonic())))
        cluster.start(0)


SCENARIOS: Mapping[str, Scenario] = {
    "none": Scenario("nothing happens: the noise", _nothing),
    "postgres_restart": Scenario("the server is stopped for 8 s and started again", _restart),
    "pg_backend_kill": Scenario("two of the service's connections a second are terminated", _backend_kill),
    "pool_exhaustion": Scenario("95 of 100 connections are held by others", _exhaust),
    "crash_recovery": Scenario("one of two replicas of every worker gets SIGKILL and is back after 5 s", _crash),
    "repeated_kills": Scenario("the same every 5 s: killed again as soon as it is back", _kills),
}
