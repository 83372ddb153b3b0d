"""Proposing candidates of a task from outside."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy.orm import Session

from db.models import Job, JobTask
from db.queries import proposals as rows
from db.queries import sketches, tasks
from db.queries.proposals import CLOSED, ProposalRow
from db.transactions import proposals
from services.coordinator.auth import Caller
from services.coordinator.context import Context
from services.coordinator.usecases.jobs import visible, visible_task
from tunesmith.answers.proposals import ProposalBody, ProposalRequest, SourceCurve, SourcePoint, TaskCurvesBody
from tunesmith.answers.trials import KnobBody
from tunesmith.errors import DuplicateProposal, ProposalsRefused
from tunesmith.proposals import MAX_PROPOSED, MAX_WAITING
from tunesmith.space.knob_names import described
from tunesmith.space.proposed import NamedSketch, candidate_of
from tunesmith.types import Candidate

SEARCH = "search"
"""Source of what a job's own searcher proposes, and of the seeds that it measures again."""


def propose(
    context: Context, caller: Caller, job_id: str, task_id: int, request: ProposalRequest
) -> list[ProposalBody]:
    """Take candidates in, to be judged by a worker.

    Raises:
        NotFound: no such job or task.
        InvalidProposal: the subclass that says what is wrong with which candidate; none is taken in then.
        DuplicateProposal: the task has one of them already.
        ProposalsRefused: the job or the task takes none, or none now.
    """

    def work(session: Session) -> list[ProposalBody]:
        job = visible(session, caller, job_id, lock=True)
        task = visible_task(session, caller, job_id, task_id)
        _check_open(session, job, task, len(request.candidates))
        bodies = sketches.get(session, task.sketches)
        named = {key: NamedSketch.of(key, bodies[key]) for key in task.sketches if key in bodies}
        given = [
            candidate_of(each.sketch, each.knobs, named, f"candidates.{index}")
            for index, each in enumerate(request.candidates)
        ]
        _check_new(session, task, given, request.measure)
        made = proposals.add(session, task, given, request.source, request.author, measure=request.measure)
        return described_rows(session, rows.page(session, task.id, set_id=made.id))

    return context.write(work)


def _check_open(session: Session, job: Job, task: JobTask, count: int) -> None:
    """Raises ProposalsRefused where nothing that is proposed could be measured."""
    if job.state in CLOSED:
        raise ProposalsRefused(f"the job is {job.state.value}: nothing more of it is measured", state=job.state.value)
    if job.collecting is not None:
        raise ProposalsRefused("a collecting job labels what its sampler draws: propose to one that tunes")
    if not job.proposal_share:
        raise ProposalsRefused("the job takes no proposals: its proposal_share is 0", field="proposal_share", value=0)
    if not task.tunable:
        raise ProposalsRefused(f"task {task.id} has no decision to take", field="task_id", value=task.id)
    waiting = rows.count_open(session, task.id)
    if waiting + count > MAX_WAITING:
        detail = f"{waiting} proposals of task {task.id} wait already, and {MAX_WAITING} may: wait for some of them"
        raise ProposalsRefused(detail, field="candidates", value=count)
    if rows.count(session, task.id) + count > MAX_PROPOSED:
        detail = f"{MAX_PROPOSED} candidates may be proposed for a task in all, and task {task.id} had as many"
        raise ProposalsRefused(detail, field="candidates", value=count)


def _check_new(session: Session, task: JobTask, given: Sequence[Candidate], measure: bool) -> None:
    """Raises DuplicateProposal for a candidate that the task has already, or that the request has twice."""
    known = rows.earlier(session, task.id, {str(each.sketch) for each in given}, among=given)
    keys = rows.given_keys(session, task.id, {rows.given_key(each) for each in given}, measure=measure)
    known.update(dict.fromkeys(tasks.pending(session, task.id), "a candidate that is being measured"))
    for index, candidate in enumerate(given):
        same = known.get(candidate) or keys.get(rows.given_key(candidate))
        if same is not None:
            detail = f"candidate {index} is the same as {same}"
            raise DuplicateProposal(detail, field=f"candidates.{index}", value=same)
        known[candidate] = f"candidate {index}"


def described_rows(session: Session, found: Sequence[ProposalRow]) -> list[ProposalBody]:
    """Proposals as they are answered."""
    bodies = sketches.get(session, {row.proposal.sketch_hash for row in found})
    return [_body(row, bodies) for row in found]


def _body(row: ProposalRow, bodies: dict[str, dict[str, object]]) -> ProposalBody:
    it, record = row.proposal, row.record
    trace = bodies.get(it.sketch_hash, {}).get("trace", [])
    problem = row.set.error or {}
    return ProposalBody.of(
        it,
        set=it.set_id,
        source=row.set.source,
        author=row.set.author,
        state=row.state,
        reason=it.reason or problem.get("detail"),
        sketch=it.sketch_hash,
        knobs=[KnobBody(**knob) for knob in described(trace, it.decisions)],  # type: ignore[arg-type]
        trial=None if record is None else record.id,
        latency=None if record is None else record.latency,
        failure=None if record is None else record.failure,
        created_at=row.set.created_at,
    )


def curves(context: Context, caller: Caller, job_id: str, task_id: int) -> TaskCurvesBody:
    """Best-so-far of a task by who proposed its candidates. Raises NotFound."""
    with context.reading() as session:
        task = visible_task(session, caller, job_id, task_id)
        trials = rows.trials_by_source(session, task_id)
    by_source: dict[str, list[tuple[int, float | None]]] = {}
    for number, (source, latency) in enumerate(trials, 1):
        by_source.setdefault(source or SEARCH, []).append((number, latency))
    found = [_curve(source, by_source[source]) for source in sorted(by_source, key=lambda each: (each != SEARCH, each))]
    return TaskCurvesBody(task=task.id, name=task.name, untuned=task.untuned_seconds, sources=found)


def _curve(source: str, trials: Sequence[tuple[int, float | None]]) -> SourceCurve:
    best, points = None, []
    for own, (number, latency) in enumerate(trials, 1):
        if latency is not None and (best is None or latency < best):
            best = latency
            points.append(SourcePoint(trials=own, task_trials=number, latency=latency))
    failures = sum(latency is None for _, latency in trials)
    return SourceCurve(source=source, trials=len(trials), failures=failures, best=best, points=points)
