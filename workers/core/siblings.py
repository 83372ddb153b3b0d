"""Candidates that were fast on other workloads of the family, rescaled to a task."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence

from sqlalchemy.orm import Session

from db.models import Record
from db.queries import records, sketches
from db.queries.work_parts import RoundSubject
from tunesmith.space.rescale import rescaled
from tunesmith.types import Candidate
from workers.tvm_backend.design_space.sketch import SketchBody

WORKLOADS = 4
"""Other workloads whose records are looked at: the nearest in size."""
EACH = 4
"""Records of each."""


def suggestions(session: Session, subject: RoundSubject) -> list[Candidate]:
    """Candidates of the task, each once: first the fastest of each of the other workloads, then the second ones."""
    found = records.best_of_family(session, subject.workload, subject.target_hash, subject.job_id, WORKLOADS, EACH)
    rows = [row for place in itertools.zip_longest(*found) for row in place if row is not None]
    wanted = {*subject.sketches, *(str(row.sketch_hash) for row in rows)}
    bodies = {key: SketchBody.from_json(body) for key, body in sketches.get(session, wanted).items()}
    made = (_rescaled(row, bodies, subject.sketches) for row in rows)
    return list(dict.fromkeys(candidate for candidate in made if candidate is not None))


def _rescaled(row: Record, bodies: Mapping[str, SketchBody], own: Sequence[str]) -> Candidate | None:
    """The record's candidate in the sketch with the same kinds of instructions: of several, that with most of them the
    very same."""
    old, candidate = bodies[str(row.sketch_hash)], Candidate.from_json([row.sketch_hash, row.decisions])
    trace = json.loads(old.trace)
    best, most = None, -1
    for key in own:
        other = json.loads(bodies[key].trace)
        same = sum(a == b for a, b in zip(trace, other, strict=False))
        if [a[0] for a in trace] != [b[0] for b in other] or same <= most:
            continue
        decisions = rescaled(candidate.decisions, old.knobs, bodies[key].knobs)
        if decisions is not None:
            best, most = Candidate(key, decisions), same
    return best
