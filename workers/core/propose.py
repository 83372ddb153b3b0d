"""Propose a batch for a round: searcher, design space and cost model brought together."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy.orm import Session

from db import clock
from db.models import CostModelRow, Job, JobTask, Round
from db.queries import cost_models, devices, models, records, sketches, tasks, work_parts
from db.transactions import rounds
from db.transactions.locks import lock_row
from db.transactions.transitions import transition
from tunesmith.analysis.prior import StaticPrior
from tunesmith.event_kinds import EventKind
from tunesmith.messages import Calibration, ProposeRound
from tunesmith.names import FEATURES
from tunesmith.search.base import Searcher
from tunesmith.search.registry import make_searcher
from tunesmith.space import base as points
from tunesmith.states import RoundState
from tunesmith.targets import Target
from tunesmith.types import Candidate, Measurement
from workers.core import siblings
from workers.core.context import Context
from workers.core.features import BatchFeatures
from workers.core.leased import Lease, run_leased
from workers.core.scoring import Scorer
from workers.core.trained import trained_model
from workers.tvm_backend.design_space.space import SketchBody, TraceSpace
from workers.tvm_backend.design_space.static_model import prior_of
from workers.tvm_backend.warm import warm

SEEDS = 64
"""Earlier records of a workload that a fresh searcher is told."""
CHAMPIONS = 3
"""The fastest of them that the first batch of a task without a champion measures again."""

NESTS, NESTS_PER_TRIAL = 16, 8
"""How many nests the static model may make for a batch, at some 40 ms each: few, while a device waits, and for each
candidate where trials are what there is too little of."""
NESTS_IN_HASTE = 2
"""For each candidate where time is: batches are small while many tasks wait for their first one."""


@dataclass(frozen=True)
class Subject:
    """What a round is about, as it stands in the database."""

    round: Round
    task: JobTask
    job: Job
    target: Target
    device_class: str
    module_blob: str


@dataclass(frozen=True)
class Proposal:
    """A batch, and the searcher as it stands after proposing it."""

    candidates: tuple[Candidate, ...]
    predictions: tuple[float | None, ...] | None
    features_blob: str | None
    searcher_state: dict[str, Any]
    told: int
    exhausted: bool
    cost_model_id: str | None
    seconds: float


def run(context: Context, message: ProposeRound) -> bool:
    """The task ``tunesmith.search``."""

    def work(lease: Lease) -> None:
        started = time.perf_counter()
        with context.readers() as session:
            subject = _subject(session, message.round_id)
        warm(subject.target.kind)
        proposal = propose(context, lease, subject, started)
        context.write(lambda session: _store(session, lease, subject, proposal))

    timeout = context.settings.work_timeout
    return run_leased(context, Round, message.round_id, message.attempt, timeout, work)


def _subject(session: Session, round_id: int) -> Subject:
    round_, task, job, target, workload = work_parts.of_round(session, round_id)
    return Subject(round_, task, job, Target(target.json), target.device_class, workload.module_blob)


def propose(context: Context, lease: Lease, subject: Subject, started: float) -> Proposal:
    """Tell the searcher what is new, ask it for a batch, and extract the batch's features."""
    space = _space(context, subject)
    searcher, told = _searcher(subject, space)
    with context.readers() as session:
        news = records.of_task_since(session, subject.task.id, told)
        pending = tasks.pending(session, subject.task.id)
        model_row = _cost_model(session, subject.job)
        fresh = not told and subject.task.searcher_state is None
        seeds = _seeds(session, subject, space) if fresh else []
        alike = fresh and not seeds and subject.job.warm_start
        similar = siblings.suggestions(session, subject.job, subject.task) if alike else []
        calibration = devices.calibration(session, subject.device_class)
    searcher.suggest(similar)
    searcher.tell([*seeds, *(records.measurement(row) for row in news)])
    model = trained_model(context, model_row) if model_row else None
    prior = _prior(context, lease, subject, space, calibration)
    scorer = Scorer(space, model, context.lease, lease.check, prior)
    first = [Candidate(None)] if subject.round.baseline else []
    known = subject.task.best_record_id is not None  # every batch measures its champion, too
    again = _fastest(seeds, subject.round.size) if subject.round.baseline and not known else []
    wanted = subject.round.size - len(again)
    asked = searcher.ask(wanted, pending, scorer, prior) if wanted else []
    candidates = (*first, *again, *asked)
    predictions, blob = _describe(context, scorer, candidates)
    return Proposal(
        candidates=candidates,
        predictions=predictions,
        features_blob=blob,
        searcher_state=searcher.state(),
        told=max([told, *(row.id for row in news)]),
        exhausted=bool(wanted) and not asked,
        cost_model_id=model_row.id if model_row else None,
        seconds=time.perf_counter() - started,
    )


def _space(context: Context, subject: Subject) -> TraceSpace:
    task = subject.task

    def make() -> TraceSpace:
        with context.readers() as session:
            stored = sketches.get(session, task.sketches)
        bodies = [SketchBody.from_json(stored[key]) for key in task.sketches]
        with context.lease.shared():
            return TraceSpace(context.blobs.get_bytes(subject.module_blob), subject.target, bodies)

    key = (task.workload_hash, subject.target.hash, tuple(task.sketches))
    space: TraceSpace = context.spaces.get(key, make)
    return space


def _prior(
    context: Context, lease: Lease, subject: Subject, space: TraceSpace, calibration: dict[str, Any] | None
) -> StaticPrior | None:
    """The static model, for the device of the class that was calibrated last."""

    @contextmanager
    def unit() -> Iterator[None]:
        lease.check()
        with context.lease.shared():
            yield

    found = Calibration.model_validate(calibration) if calibration else None
    return prior_of(space, subject.target, found, unit, _nests(subject.round.size, subject.job.budget_trials is None))


def _nests(size: int, timed: bool) -> int:
    """Of a batch of ``size``, in a job that is ``timed`` or one of few trials."""
    return min(NESTS, NESTS_IN_HASTE * size) if timed else max(NESTS, NESTS_PER_TRIAL * size)


def _searcher(subject: Subject, space: TraceSpace) -> tuple[Searcher, int]:
    """The task's searcher and the last record that it knows; a state of another version starts anew."""
    seed = int(np.random.SeedSequence([subject.job.seed, subject.task.position]).generate_state(1)[0])
    searcher = make_searcher(subject.job.search, space.space, seed)
    if subject.task.searcher_state is None:
        return searcher, 0
    try:
        searcher.restore(subject.task.searcher_state)
    except ValueError:
        return make_searcher(subject.job.search, space.space, seed), 0
    return searcher, subject.task.told_record_id


def _seeds(session: Session, subject: Subject, space: TraceSpace) -> list[Measurement]:
    """What other jobs measured of this workload on this target, fastest first; none without warm start."""
    if not subject.job.warm_start:
        return []
    task, job = subject.task, subject.job
    rows = records.best_elsewhere(
        session,
        task.workload_hash,
        str(job.target_hash),
        task.sketches,
        job.id,
        SEEDS,
        models.cache_of(session, job, task.workload_hash),
    )
    found = [records.measurement(row) for row in rows]
    known = space.space.known([m.candidate for m in found])
    return [m for m, mine in zip(found, known, strict=True) if mine]


def _fastest(seeds: Sequence[Measurement], size: int) -> list[Candidate]:
    """The fastest distinct candidates among the seeds, at most a quarter of the batch but one at least."""
    most = min(CHAMPIONS, max(1, size // 4), size)
    return list(dict.fromkeys(m.candidate for m in seeds))[:most]


def _cost_model(session: Session, job: Job) -> CostModelRow | None:
    """The job's newest model; before it has one, with warm start, another job's for the same target."""
    if job.cost_model == "none":
        return None
    own = cost_models.latest(session, job.id)
    if own is not None and own.features == FEATURES:  # an update in the middle of a job may have brought other ones
        return own
    if not job.warm_start:
        return None
    return cost_models.latest_elsewhere(session, str(job.target_hash), job.cost_model, FEATURES, job.id, job.space)


def _describe(
    context: Context, scorer: Scorer, candidates: Sequence[Candidate]
) -> tuple[tuple[float | None, ...] | None, str | None]:
    """Predictions by index (None without a model) and the blob of the candidates' features."""
    index = np.array([i for i, c in enumerate(candidates) if c.sketch is not None], dtype=np.int64)
    if not len(index):
        return None, None
    batch: points.Batch = scorer.space.space.batch([candidates[i] for i in index])
    features, valid = scorer.features(batch)
    if features is None:
        return None, None
    index = index[valid]
    blob = BatchFeatures(features, index, FEATURES).save(context.blobs)
    if scorer.model is None:
        return None, blob
    mean, _ = scorer.model.predict(features)
    found = dict(zip(index.tolist(), mean.tolist(), strict=True))
    return tuple(found.get(i) for i in range(len(candidates))), blob


def _store(session: Session, lease: Lease, subject: Subject, proposal: Proposal) -> None:
    round_: Round = lease.hold(session)
    task = lock_row(session, JobTask, subject.task.id)
    assert task is not None, "a task goes with its job, and the round with it"
    rounds.keep_searcher(session, task, proposal.searcher_state, proposal.told, exhausted=proposal.exhausted)
    values: dict[str, Any] = {
        "cost_model_id": proposal.cost_model_id,
        "best_before": task.best_seconds,
        "metrics": {"propose_seconds": round(proposal.seconds, 4)},
    }
    about = {"number": round_.number, "task": task.id, "name": task.name}
    if not proposal.candidates:
        transition(
            session,
            round_,
            RoundState.DONE,
            event=EventKind.ROUND_FINISHED,
            best_after=task.best_seconds,
            finished_at=clock.now(session),
            data={**about, "measured": 0, "failed": 0},
            **values,
        )
        return
    rounds.add_batch(
        session, round_, subject.device_class, proposal.candidates, proposal.predictions, proposal.features_blob
    )
    transition(session, round_, RoundState.MEASURING, data={**about, "candidates": len(proposal.candidates)}, **values)
