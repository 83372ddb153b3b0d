"""The core tasks as Celery sees them. What they do is imported by the first of them, or by :func:`load`."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import structlog
from celery import Celery

from tunesmith.message_reading import UnreadableError, read
from tunesmith.messages import (
    INGEST,
    RECORD,
    SEARCH,
    TRAIN,
    BatchReport,
    DeviceReport,
    EvaluationReport,
    ImportRecords,
    IngestModel,
    JudgeProposals,
    ListProgram,
    Message,
    PrepareJob,
    ProposeRound,
    TrainCostModel,
    Unreadable,
)
from workers.refusing import WATCHFUL

log = structlog.get_logger(__name__)


class CoreTask(NamedTuple):
    """A message, the queue that it arrives on, and the function for it.

    ``limit``: seconds after which Celery kills the child. Heartbeats come from a thread, so they would go on for
    ever from a task that hangs; after the kill they stop, and the reconciler hands the work out anew.
    """

    message: type[Message]
    queue: str
    module: str
    function: str
    limit: int


CORE_TASKS = (
    CoreTask(IngestModel, INGEST, "workers.core.ingest", "import_model", 1800),
    CoreTask(ImportRecords, INGEST, "workers.core.import_records", "import_records", 1800),
    CoreTask(PrepareJob, INGEST, "workers.core.prepare", "prepare_job", 1800),
    CoreTask(ProposeRound, SEARCH, "workers.core.propose", "propose_round", 300),
    CoreTask(ListProgram, SEARCH, "workers.core.list_program", "list_program", 300),
    CoreTask(JudgeProposals, SEARCH, "workers.core.judge_proposals", "judge_proposals", 300),
    CoreTask(TrainCostModel, TRAIN, "workers.core.train", "train_cost_model", 600),
    CoreTask(BatchReport, RECORD, "workers.core.record", "batch", 120),
    CoreTask(EvaluationReport, RECORD, "workers.core.record", "evaluation", 120),
    CoreTask(DeviceReport, RECORD, "workers.core.record", "device", 120),
)


LEASED = (IngestModel, ImportRecords, PrepareJob, ProposeRound, ListProgram, JudgeProposals, TrainCostModel)
"""Messages about a row that a worker claims."""


def register(app: Celery, queues: Iterable[str], context: Callable[[], Any]) -> None:
    """Register the tasks of ``queues``; ``context`` makes or returns the process's context."""
    wanted = set(queues)
    for task in CORE_TASKS:
        if task.queue in wanted:
            _register(app, task, context)


def load(queues: Iterable[str]) -> None:
    """Import the code of the tasks of ``queues``."""
    wanted = set(queues)
    for task in CORE_TASKS:
        if task.queue in wanted:
            importlib.import_module(task.module)


def _register(app: Celery, task: CoreTask, context: Callable[[], Any]) -> None:
    def run_task(body: dict[str, Any]) -> None:
        try:
            message = read(task.message, body)
        except UnreadableError as error:
            _hand_back(context(), error.found)
            raise
        perform(task, context(), message)

    def take(body: Any) -> None:
        try:
            take_in(task, context(), body)
        except Exception as error:  # drivers and pools report an outage in several classes
            if not _is_away(error):
                raise
            # A report holds what was measured, and nobody would send it again before the work's deadline.
            log.warning("the database is away, the report goes back to its queue", task=task.message.task)
            app.send_task(task.message.task, args=[body], queue=task.queue, ignore_result=True)

    if task.queue == RECORD:
        app.task(
            name=task.message.task,
            shared=False,
            time_limit=task.limit,
            Strategy="workers.gate:bounded",
            Request=WATCHFUL,
        )(take)
    else:
        app.task(name=task.message.task, shared=False, time_limit=task.limit, Request=WATCHFUL)(run_task)


def take_in(task: CoreTask, context: Any, body: Any) -> None:
    """Do what a report asks for, unless it is refused before it is one."""
    from workers.core import intake

    claim: Any = intake.read(context, task.message, body)
    if claim is not None:
        perform(task, context, claim)


def _hand_back(context: Any, found: Unreadable) -> None:
    from db.engine import transact
    from db.transactions import unreadable

    attempts = context.settings.max_attempts
    transact(context.sessions, lambda session: unreadable.note(session, found, context.worker, attempts))


def _is_away(error: Exception) -> bool:
    from db.outages import is_away  # here, because a worker's parent does without the database's library

    return is_away(error)


def perform(task: CoreTask, context: Any, message: Message) -> None:
    """Do what a message asks for.

    Where the code for it does not load, a broken installation, the work uses up an attempt like any other that
    breaks: nobody would claim it otherwise, and its message would come back for ever.
    """
    context.check_schema()
    try:
        function = getattr(importlib.import_module(task.module), task.function)
    except Exception as error:  # an import runs foreign code, which may raise anything
        if not isinstance(message, LEASED):
            raise
        _use_up_attempt(context, message, error)
    else:
        function(context, message)


def _use_up_attempt(
    context: Any,
    message: IngestModel | ImportRecords | PrepareJob | ProposeRound | ListProgram | JudgeProposals | TrainCostModel,
    error: Exception,
) -> None:
    from workers.core.leased import Lease, run_leased
    from workers.core.rows import row_of

    def broken(_: Lease) -> None:
        raise error

    kind, row_id = row_of(message)
    run_leased(context, kind, row_id, message.attempt, context.settings.work_timeout, broken)
