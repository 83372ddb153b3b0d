"""Propose a batch for a round: searcher, design space and cost model brought together."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sqlalchemy.orm import Session

from db import clock
from db.models import JobTask, Record, Round
from db.queries import devices, proposals, records, tasks, work_parts
from db.queries.cost_models import TrainedModel
from db.queries.proposals import Waiting
from db.queries.work_parts import RoundSubject
from db.transactions import rounds
from db.transactions.locks import lock_row
from db.transactions.proposals import hand_out, refuse
from db.transactions.transitions import transition
from tunesmith.dataset.shards import restricted
from tunesmith.event_kinds import EventKind
from tunesmith.messages import ProposeRound
from tunesmith.names import features_of
from tunesmith.proposals import places_for_proposals
from tunesmith.search.base import Searcher
from tunesmith.search.registry import make_searcher
from tunesmith.states import RoundState
from tunesmith.types import Candidate, Measurement
from workers.core import siblings
from workers.core.context import Context
from workers.core.features import Expected, describe
from workers.core.leased import Lease, run_leased
from workers.core.scoring import Scorer
from workers.core.subjects import cost_model_of, scorer_of, space_of
from workers.core.unmeasured import give_answer
from workers.tvm_backend.design_space.space import TraceSpace
from workers.tvm_backend.warm import warm

SEEDS = 64
"""Earlier records of a workload that a fresh searcher learns."""
CHAMPIONS = 3
"""The fastest of them that the first batch of a task without a champion measures again."""


@dataclass(frozen=True)
class Knowledge:
    """What the database knows of a round's task.

    Attributes:
        new_records: measured since the searcher last learned records, oldest first.
        last_record_id: id of the newest record among them.
        seeds: what other jobs measured of the workload, fastest first; for a fresh searcher with warm start.
        similar: candidates that were fast on workloads of the family, for one that has no seeds.
        pending: candidates out for measurement.
        proposed: candidates that were proposed from outside, oldest first.
        overtaken: why others of these are refused after all, by proposal.
        calibration: calibration of the most recently calibrated device of the class.
        undescribed: candidates of batches before the searcher's first one, by batch: their features are still to come.
    """

    new_records: Sequence[Measurement]
    last_record_id: int
    seeds: Sequence[Measurement]
    similar: Sequence[Candidate]
    pending: set[Candidate]
    proposed: Sequence[Waiting]
    overtaken: dict[int, str]
    model: TrainedModel | None
    calibration: dict[str, Any] | None
    undescribed: Mapping[int, Sequence[Candidate]]


@dataclass(frozen=True)
class Asked:
    """A batch.

    Attributes:
        places: index of each proposal from outside that is in it.
        exhausted: the searcher has no more.
    """

    candidates: tuple[Candidate, ...]
    places: dict[int, int]
    exhausted: bool


@dataclass(frozen=True)
class Proposal:
    """A batch, and the searcher as it stands after proposing it; ``overtaken``: see :class:`Knowledge`.

    Attributes:
        described: blobs of features that earlier batches lacked, by batch.
    """

    candidates: tuple[Candidate, ...]
    places: dict[int, int]
    overtaken: dict[int, str]
    predictions: Expected
    deviations: Expected
    features_blob: str | None
    searcher_state: dict[str, Any] | None
    last_record_id: int
    exhausted: bool
    cost_model_id: str | None
    seconds: float
    described: Mapping[int, str | None] = field(default_factory=dict)


def propose_round(context: Context, message: ProposeRound) -> bool:
    """The task ``tunesmith.search``."""

    def work(lease: Lease) -> None:
        started = time.perf_counter()
        with context.readers() as session:
            subject = work_parts.of_round(session, message.round_id)
        warm(subject.target.kind)
        if not subject.size:
            give_answer(context, lease, subject)
            return
        proposal = _promised(subject, started) or propose(context, lease, subject, started)
        context.write(lambda session: _store(session, lease, subject, proposal))

    timeout = context.settings.work_timeout
    return run_leased(context, Round, message.round_id, message.attempt, timeout, work)


def _promised(subject: RoundSubject, started: float) -> Proposal | None:
    """The batch of a round that measures the schedule that its task was given, and nothing else; None for others.

    It waits for neither space nor searcher: the next round of the task opens these.
    """
    if subject.answer is None or not subject.baseline or subject.size > 1:
        return None
    return Proposal(
        candidates=(Candidate(None), subject.answer),
        places={},
        overtaken={},
        predictions=None,
        deviations=None,
        features_blob=None,
        searcher_state=None,
        last_record_id=0,
        exhausted=False,
        cost_model_id=None,
        seconds=time.perf_counter() - started,
    )


def propose(context: Context, lease: Lease, subject: RoundSubject, started: float) -> Proposal:
    """Tell the searcher what is new, ask it for a batch, and extract the batch's features."""
    space = space_of(context, subject)
    searcher, last_record_id = _restored(subject, space)
    with context.readers() as session:
        known = _load(session, subject, space, last_record_id)
    searcher.suggest(known.similar)
    searcher.tell([*known.seeds, *known.new_records])
    scorer = scorer_of(context, lease, subject, space, known.model, known.calibration)
    asked = _ask(searcher, subject, known, scorer)
    version = features_of(subject.options.cost_model)
    predictions, deviations, blob = describe(context, scorer, asked.candidates, version)
    described = {id_: describe(context, scorer, batch, version)[2] for id_, batch in known.undescribed.items()}
    return Proposal(
        candidates=asked.candidates,
        places=asked.places,
        overtaken=known.overtaken,
        predictions=predictions,
        deviations=deviations,
        features_blob=blob,
        searcher_state=searcher.state(),
        last_record_id=known.last_record_id,
        exhausted=asked.exhausted,
        cost_model_id=known.model.id if known.model else None,
        seconds=time.perf_counter() - started,
        described=described,
    )


def _load(session: Session, subject: RoundSubject, space: TraceSpace, last_record_id: int) -> Knowledge:
    """``last_record_id``: the last record that the searcher knows; 0 for a fresh one."""
    rows = _new_records(session, subject, last_record_id)
    fresh = not last_record_id and subject.searcher_state is None and subject.options.warm_start
    seeds = _seeds(session, subject, space) if fresh else []
    pending = tasks.pending(session, subject.task_id)
    proposed, overtaken = _proposed(session, subject, pending)
    return Knowledge(
        new_records=[records.measurement(row) for row in rows],
        last_record_id=max([last_record_id, *(row.id for row in rows)]),
        seeds=seeds,
        similar=siblings.suggestions(session, subject) if fresh and not seeds else [],
        pending=pending,
        proposed=proposed,
        overtaken=overtaken,
        model=cost_model_of(session, subject),
        calibration=devices.calibration(session, subject.device_class),
        undescribed=tasks.undescribed(session, subject.task_id) if subject.searcher_state is None else {},
    )


def _new_records(session: Session, subject: RoundSubject, after: int) -> Sequence[Record]:
    """The task's own records; in a collecting job those of every job, because no program is labelled twice."""
    if subject.collecting is None:
        return records.of_task_since(session, subject.task_id, after)
    return records.of_workload_since(
        session, subject.workload, subject.target_hash, subject.sketches, after, subject.job_id
    )


def _proposed(
    session: Session, subject: RoundSubject, pending: Collection[Candidate]
) -> tuple[list[Waiting], dict[int, str]]:
    """Proposals from outside that may be measured, and why others may not: the searcher was first."""
    waiting = proposals.waiting(session, subject.task_id)
    if not waiting:
        return [], {}
    given = [each.candidate for each in waiting]
    trials = proposals.measured(session, subject.task_id, {str(each.sketch) for each in given}, given)
    overtaken = {}
    for each in waiting:
        trial = trials.get(each.candidate)
        if trial is not None or each.candidate in pending:
            where = "is being measured" if trial is None else f"is trial {trial}"
            overtaken[each.id] = f"the searcher proposed the same program meanwhile: it {where}"
    return [each for each in waiting if each.id not in overtaken], overtaken


def _ask(searcher: Searcher, subject: RoundSubject, known: Knowledge, scorer: Scorer) -> Asked:
    """The batch: default schedule, seeds that are measured again, what was proposed from outside, the searcher's."""
    first = [Candidate(None)] if subject.baseline else []
    # Every batch measures its task's champion anyway.
    seed_repeats = _given(subject, known) if subject.baseline and not subject.has_champion else []
    wanted = subject.size - len(seed_repeats)
    outside = [each for each in known.proposed if each.candidate not in seed_repeats]
    taken = outside[: places_for_proposals(subject.options.proposal_share, wanted)]
    left = wanted - len(taken)
    collecting = subject.collecting
    score = scorer if collecting is None else restricted(scorer.space.space, scorer, collecting)
    pending = known.pending.union(seed_repeats, (each.candidate for each in known.proposed))
    asked = searcher.ask(left, pending, score, scorer.guide) if left else []
    if len(asked) < left:  # nobody else needs the places
        taken = outside[: wanted - len(asked)]
    before = [*first, *seed_repeats]
    places = {each.id: index for index, each in enumerate(taken, len(before))}
    candidates = (*before, *(each.candidate for each in taken), *asked)
    return Asked(candidates, places, exhausted=bool(left) and not asked)


def _restored(subject: RoundSubject, space: TraceSpace) -> tuple[Searcher, int]:
    """The task's searcher and the last record that it knows; a state of another version starts anew."""
    seed = int(np.random.SeedSequence([subject.options.seed, subject.position]).generate_state(1)[0])
    searcher = make_searcher(subject.options.search, space.space, seed)
    if subject.searcher_state is None:
        return searcher, 0
    try:
        searcher.restore(subject.searcher_state)
    except ValueError:
        return make_searcher(subject.options.search, space.space, seed), 0
    return searcher, subject.told_record_id


def _seeds(session: Session, subject: RoundSubject, space: TraceSpace) -> list[Measurement]:
    """What other jobs measured of this workload on this target, fastest first, and what imports claim of it."""
    claims = records.Claims(subject.options.precision, devices.makes(session, subject.device_class))
    rows = records.best_elsewhere(
        session, subject.workload, subject.target_hash, subject.sketches, subject.job_id, SEEDS, subject.cache, claims
    )
    found = [records.measurement(row) for row in rows]
    known = space.space.known([m.candidate for m in found])
    return [m for m, mine in zip(found, known, strict=True) if mine]


def _given(subject: RoundSubject, known: Knowledge) -> list[Candidate]:
    """What a task without a champion measures first: what was fastest elsewhere, else its schedule from before."""
    if known.seeds or subject.answer is None:
        return _fastest(known.seeds, subject.size)
    return [subject.answer]


def _fastest(seeds: Sequence[Measurement], size: int) -> list[Candidate]:
    """The fastest distinct candidates among the seeds, at most a quarter of the batch but one at least."""
    most = min(CHAMPIONS, max(1, size // 4), size)
    return list(dict.fromkeys(m.candidate for m in seeds))[:most]


def _store(session: Session, lease: Lease, subject: RoundSubject, proposal: Proposal) -> None:
    round_: Round = lease.hold(session)
    task = lock_row(session, JobTask, subject.task_id)
    assert task is not None, "a task goes with its job, and the round with it"
    rounds.keep_searcher(session, task, proposal.searcher_state, proposal.last_record_id, exhausted=proposal.exhausted)
    values: dict[str, Any] = {
        "cost_model_id": proposal.cost_model_id,
        "best_before": task.best_seconds,
        "metrics": {"propose_seconds": round(proposal.seconds, 4)},
    }
    for batch_id, blob in proposal.described.items():
        rounds.keep_features(session, batch_id, blob)
    refuse(session, proposal.overtaken)
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
    batch = rounds.add_batch(
        session,
        round_,
        subject.device_class,
        proposal.candidates,
        proposal.predictions,
        proposal.features_blob,
        proposal.deviations,
    )
    hand_out(session, batch.id, proposal.places)
    transition(session, round_, RoundState.MEASURING, data={**about, "candidates": len(proposal.candidates)}, **values)
