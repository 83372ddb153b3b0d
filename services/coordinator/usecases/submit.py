"""Submitting a job: everything that can be refused without a compiler is refused here."""

from __future__ import annotations

import hashlib
import json

from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from db import clock
from db.models import IdempotencyKey, Job, Model
from db.queries import by_key, devices
from db.transactions import idempotency, job_requests, locks, model_import
from services.coordinator.auth import Caller
from services.coordinator.context import Context
from services.coordinator.requests import JobRequest
from services.coordinator.usecases import models
from services.coordinator.usecases.describe import describe
from tunesmith.answers.jobs import JobBody
from tunesmith.budget import DEFAULT_TRIALS, UNMEASURED, check_budget
from tunesmith.dataset.collecting import Collecting, JobKind
from tunesmith.dataset.workloads import list_text, parse_operators
from tunesmith.errors import (
    IdempotencyMismatch,
    InvalidInput,
    QuotaExceeded,
    from_problem,
)
from tunesmith.extras import CHOICES, choice_unavailable
from tunesmith.job_tags import checked_tags
from tunesmith.names import OPERATOR, OPERATORS, RANKER
from tunesmith.operators import OperatorSpec, parse_operator
from tunesmith.preparation import for_target, of_operator
from tunesmith.resources import JOB, new_id
from tunesmith.states import JobState, ModelState
from tunesmith.targets import MAX_SPEC, Target, choose, parse_target

ROUTE = "POST /v1/jobs"
MAX_IDEMPOTENCY_KEY = 200


def submit(context: Context, caller: Caller, request: JobRequest, key: str | None) -> tuple[JobBody, bool]:
    """Create a job, or answer as before when the Idempotency-Key was seen; True when it is new.

    Raises:
        InvalidInput: or a subclass that says which field; nothing is created then.
        IdempotencyMismatch: the key came with another body before.
        ModelRejected: the model was refused by its import.
        QuotaExceeded: the user has too many jobs under way.
        MissingDependency: no worker can run the searcher or the cost model.
    """
    check(request)
    _check_available(request, context.settings.unavailable)
    if key is not None and not 0 < len(key) <= MAX_IDEMPOTENCY_KEY:
        raise InvalidInput(f"an Idempotency-Key has 1 to {MAX_IDEMPOTENCY_KEY} characters", field="Idempotency-Key")
    fingerprint = hashlib.sha256(request.model_dump_json().encode()).hexdigest()

    if request.operators is not None:  # a list is kept like a file that was uploaded
        context.blobs.put_bytes(list_text(parse_operators(request.operators)).encode())

    def work(session: Session) -> tuple[JobBody, bool]:
        if key is not None:
            job_id = _remembered(session, caller, key, fingerprint)
            if job_id is not None:
                return _shown(context, session, job_id), False
        target = _likely_target(session, request, context.settings.device_timeout)
        _check_quota(session, caller, context.settings.max_open_jobs)
        job = _create(session, caller, request, target)
        if key is not None:
            idempotency.store(session, caller.owner, ROUTE, key, fingerprint, 202, {"id": job.id})
        return _shown(context, session, job.id), True

    try:
        return context.write(work)
    except IntegrityError:
        if key is None:
            raise
        return context.write(work)  # the same request arrived twice at once; the other one is stored by now


def _shown(context: Context, session: Session, job_id: str) -> JobBody:
    found = describe(session, [job_id], context.settings.device_timeout)
    if not found:
        raise InvalidInput("the job that this Idempotency-Key made was deleted", field="Idempotency-Key")
    return found[0]


def _remembered(session: Session, caller: Caller, key: str, fingerprint: str) -> str | None:
    stored = by_key.get(session, IdempotencyKey, (caller.owner, ROUTE, key))
    if stored is None:
        return None
    if stored.fingerprint != fingerprint:
        raise IdempotencyMismatch(
            "this Idempotency-Key was used with a different body; use a new one", field="Idempotency-Key", value=key
        )
    return str(stored.body["id"])


def check(request: JobRequest) -> None:
    """Everything about a request that needs no database. Raises what :func:`submit` raises."""
    sources = [value for value in (request.model_id, request.operator, request.operators) if value is not None]
    if len(sources) != 1:
        raise InvalidInput(
            "give either model_id or operator, or operators in a collecting job",
            field="model_id",
            value=request.model_id,
        )
    if request.operator is not None:
        parse_operator(request.operator)
    if request.operators is not None:
        parse_operators(request.operators)
    _check_kind(request)
    if parse_target(request.target).kind != "llvm" and request.cost_model == RANKER:
        raise InvalidInput(
            f"cost model '{RANKER}' corrects the static model of CPUs, and the target is no CPU: choose 'xgboost'",
            field="cost_model",
            value=RANKER,
        )
    least = UNMEASURED if request.kind is JobKind.TUNE else 1
    check_budget(request.budget.trials, request.budget.seconds, least)
    checked_tags(request.tags)
    request.check_values()


def _check_kind(request: JobRequest) -> None:
    """Refuse what does not go with the kind of job. Raises InvalidInput."""
    if request.kind is JobKind.COLLECT:
        if request.per_task is None:
            raise InvalidInput("a collecting job needs per_task, the labels of each task", field="per_task", value=None)
        Collecting(request.per_task, request.shard, request.shards).check()
        return
    for field, other in (("per_task", None), ("operators", None), ("shard", 0), ("shards", 1)):
        value = getattr(request, field)
        if value != other:
            raise InvalidInput(f"{field} is for collecting jobs: add kind collect", field=field, value=value)


def _check_available(request: JobRequest, unavailable: tuple[str, ...]) -> None:
    for field, name in (("search", request.search), ("cost_model", request.cost_model)):
        if name in unavailable and name in CHOICES:
            raise choice_unavailable(field, name)


def _likely_target(session: Session, request: JobRequest, device_timeout: float) -> Target | None:
    """What the job will be for as far as it is known; refuses a short name that no live device can stand for.

    Any other target waits for a device of its class. So does ``cpu`` while there is no device at all: workers that
    start at the same time as the coordinator report a little later.

    Raises:
        TargetUnavailable: there is no such device.
    """
    spec = parse_target(request.target)
    if not spec.is_local:
        return spec.target
    known = devices.targets_of_kind(session, device_timeout, spec.kind)
    return choose(spec, known) if known or spec.kind != "llvm" else None


def _check_quota(session: Session, caller: Caller, most: int) -> None:
    """Refuse what is beyond a user's quota. Raises QuotaExceeded."""
    if locks.count_open_jobs(session, caller.owner) >= most:
        raise QuotaExceeded(
            f"{caller.owner} has {most} unfinished jobs, as many as TUNESMITH_MAX_OPEN_JOBS allows: "
            "wait for one to finish, or cancel one",
            limit=most,
        )


def _create(session: Session, caller: Caller, request: JobRequest, target: Target | None) -> Job:
    model, precision = _model(session, caller, request, target)
    trials, seconds = request.budget.trials, request.budget.seconds
    if trials is None and seconds is None and request.kind is JobKind.TUNE:
        trials = DEFAULT_TRIALS
    spec = request.target if isinstance(request.target, str) else json.dumps(request.target, sort_keys=True)
    if len(spec) > MAX_SPEC:
        raise InvalidInput(f"the target is longer than {MAX_SPEC} characters", field="target")
    job = Job(
        id=new_id(JOB),
        name=request.name,
        comment=request.comment,
        owner=caller.owner,
        model_id=model.id,
        target_spec=spec,
        state=JobState.QUEUED,
        budget_trials=trials,
        budget_seconds=seconds,
        stop_when_converged=request.budget.stop_when_converged and request.kind is JobKind.TUNE,
        per_task=request.per_task,
        shard=request.shard,
        shards=request.shards,
        created_at=clock.now(session),
        paused_seconds=0.0,
        **{**request.values(), "precision": precision, "verify": request.verify and trials != UNMEASURED},
    )
    job_requests.submit(session, job, model, checked_tags(request.tags))
    return job


def _model(session: Session, caller: Caller, request: JobRequest, target: Target | None) -> tuple[Model, str]:
    """What the job tunes: the user's model, or the variant of it that the target and the user's choices ask for.

    The second value is the precision, which an operator has in its type. Where the target is not known yet, its own
    layout is chosen when the job is prepared.
    """
    spec: OperatorSpec | None = None
    if request.operators is not None:
        specs = parse_operators(request.operators)
        model, spec = models.operators_model(session, specs, caller.owner), specs[0]
    elif request.operator is not None:
        model = models.operator_model(session, request.operator, caller.owner)
    else:
        model = models.visible(session, caller, str(request.model_id))
    _check_usable(model)
    if model.source == OPERATORS and spec is None:
        raise InvalidInput(
            f"{model.id} is a list of operators: give the list itself as operators", field="model_id", value=model.id
        )
    if model.source == OPERATOR:
        spec = parse_operator(str(model.operator))
    kind, tiled = parse_target(request.target).kind, () if target is None else target.tiled
    wanted = for_target(kind, False, request, tiled) if spec is None else of_operator(kind, spec, request, tiled)
    model = model_import.prepared(session, model, wanted)
    _check_usable(model)
    return model, request.precision if spec is None else spec.precision


def _check_usable(model: Model) -> None:
    if model.state is ModelState.REJECTED:
        raise from_problem(model.error or {"code": "model_rejected", "detail": "the model was rejected"})
