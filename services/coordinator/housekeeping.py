"""What is too old or belongs to nobody goes: jobs and events by their age, blobs that no row names."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, replace
from functools import partial

from db.blobs import BlobStore
from db.engine import Sessions, transact
from db.models.base import utcnow
from db.queries import blob_references, expired
from db.transactions import pruning

JOBS, EVENTS = 5, 2000
"""Rows that one transaction removes at most, so that others need not wait long."""
DAY, HOUR = 24 * 3600.0, 3600.0
FRESH_SECONDS = 120.0
"""Between a model's file being stored and its row being there, at most."""


@dataclass(frozen=True)
class Retention:
    """How long things are kept.

    Attributes:
        job_days: jobs after their end, with their tasks, rounds and events; 0: for ever.
        event_days: events of jobs that are over; 0: as long as their jobs.
        blob_hours: blobs that no row names. Long enough for a file to be stored, and for its row to be written.
        records: whether records go with their jobs. Champions' stay in any case.
    """

    job_days: float = 0.0
    event_days: float = 0.0
    blob_hours: float = 24.0
    records: bool = False


@dataclass(frozen=True)
class Pruned:
    """How much went, or would go: rows, blobs, and the bytes of these."""

    jobs: int = 0
    records: int = 0
    events: int = 0
    blobs: int = 0
    bytes: int = 0


def prune(sessions: Sessions, readers: Sessions, blobs: BlobStore, keep: Retention, *, dry_run: bool = False) -> Pruned:
    """Remove what ``keep`` does not keep, while the service runs. A dry run removes nothing and counts.

    A dry run counts no blobs of jobs that would go: their rows still name them.
    """
    now = utcnow()
    found = Pruned()
    if keep.job_days > 0:
        found = _jobs(sessions, readers, now - dt.timedelta(seconds=keep.job_days * DAY), keep, found, dry_run)
    if keep.event_days > 0:
        found = _events(sessions, readers, now - dt.timedelta(seconds=keep.event_days * DAY), found, dry_run)

    def named(some: set[str]) -> set[str]:
        with readers() as session:
            return blob_references.named(session, some)

    count, size = blobs.prune(named, keep.blob_hours * HOUR, dry_run=dry_run)
    return replace(found, blobs=count, bytes=size)


def free(readers: Sessions, blobs: BlobStore, some: set[str]) -> None:
    """Remove those of some blobs that no row names, at once if they are not quite new."""

    def named(old: set[str]) -> set[str]:
        with readers() as session:
            return blob_references.named(session, old)

    blobs.prune(named, FRESH_SECONDS, only=some)


def _jobs(
    sessions: Sessions, readers: Sessions, before: dt.datetime, keep: Retention, found: Pruned, dry_run: bool
) -> Pruned:
    if dry_run:
        with readers() as session:
            jobs = expired.old_jobs(session, before)
            records = expired.records_of(session, jobs) if keep.records else 0
        return replace(found, jobs=len(jobs), records=records)
    while True:
        with readers() as session:
            jobs = expired.old_jobs(session, before, JOBS)
        if not jobs:
            return found
        removed = transact(sessions, partial(pruning.delete_jobs, jobs=tuple(jobs), records=keep.records))
        found = replace(found, jobs=found.jobs + len(jobs), records=found.records + removed)


def _events(sessions: Sessions, readers: Sessions, before: dt.datetime, found: Pruned, dry_run: bool) -> Pruned:
    if dry_run:
        with readers() as session:
            return replace(found, events=expired.old_events(session, before))
    while True:
        removed = transact(sessions, lambda session: pruning.delete_events(session, before, EVENTS))
        found = replace(found, events=found.events + removed)
        if removed < EVENTS:
            return found
