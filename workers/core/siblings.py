"""Candidates that were fast on other workloads of the family, rescaled to a task."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session

from db.models import WorkloadRow
from db.queries import by_key, records, sketches
from db.queries.relatives import Likeness
from db.queries.work_parts import RoundSubject
from tunesmith.space.rescale import rescaled
from tunesmith.types import Candidate
from workers.tvm_backend.design_space.sketch import SketchBody
from workers.tvm_backend.design_space.unmeasured import Relative

WORKLOADS = 8
"""Other workloads whose records are looked at: the most alike. Sketches of some have other instructions."""
EACH = 2
"""Records of each."""


def suggestions(session: Session, subject: RoundSubject) -> list[Candidate]:
    """Candidates of the task, each once: first the fastest of each of the other workloads, then the second ones."""
    mine = by_key.existing(session, WorkloadRow, subject.workload)
    own = {key: SketchBody.from_json(body) for key, body in sketches.get(session, subject.sketches).items()}
    about = Subject(Likeness.of(mine), [own[key] for key in subject.sketches])
    return [found.candidate for found in relatives(session, about, subject.target_hash, subject.job_id)]


@dataclass(frozen=True)
class Subject:
    """A workload that schedules are wanted for; ``bodies``: the sketches of its design space."""

    about: Likeness
    bodies: Sequence[SketchBody]


def relatives(session: Session, subject: Subject, target: str, job_id: str | None = None) -> list[Relative]:
    """What was fast on other workloads of the family, rescaled, each once: first the fastest of each of them.

    Args:
        job_id: job whose records count even if its device is simulated.
    """
    found = records.best_of_family(session, subject.about, target, job_id, WORKLOADS, EACH)
    rows = [row for place in itertools.zip_longest(*found) for row in place if row is not None]
    others = sketches.get(session, {str(row.sketch_hash) for row in rows})
    bodies = {key: SketchBody.from_json(body) for key, body in others.items()}
    sizes = {row.workload_hash: by_key.existing(session, WorkloadRow, row.workload_hash).flops for row in rows}
    made: dict[Candidate, Relative] = {}
    for row in rows:
        fast = Candidate.from_json([row.sketch_hash, row.decisions])
        candidate = fitted(fast, bodies[str(row.sketch_hash)], subject.bodies)
        if candidate is not None:
            ratio = subject.about.flops / sizes[row.workload_hash] if sizes[row.workload_hash] else 1.0
            made.setdefault(candidate, Relative(candidate, row.workload_hash, float(row.latency or 0.0) * ratio))
    return list(made.values())


def fitted(candidate: Candidate, old: SketchBody, own: Sequence[SketchBody]) -> Candidate | None:
    """A candidate of another workload in the sketch with the same kinds of instructions: of several, that with most of
    them the very same.

    Args:
        old: the sketch that it is a point of.
        own: sketches of the workload that it is wanted for.
    """
    trace = json.loads(old.trace)
    best, most = None, -1
    for body in own:
        other = json.loads(body.trace)
        same = sum(a == b for a, b in zip(trace, other, strict=False))
        if [a[0] for a in trace] != [b[0] for b in other] or same <= most:
            continue
        decisions = rescaled(candidate.decisions, old.knobs, body.knobs)
        if decisions is not None:
            best, most = Candidate(body.hash, decisions), same
    return best
