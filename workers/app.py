"""The Celery application of the workers."""

from __future__ import annotations

import functools
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any

from billiard.process import current_process
from celery import Celery, signals
from kombu import Queue

from db import revision
from tunesmith import extras
from tunesmith.broker_users import KEY_PREFIX
from tunesmith.child_process import THREADS
from tunesmith.errors import SchemaMismatch
from tunesmith.messages import CORE_QUEUES, INGEST, SEARCH, measure_queue
from tunesmith.starting import undisturbed
from workers import logs, refusing
from workers.broker import GuardedTransport, restrict_remote_control
from workers.core import lost_work, tasks
from workers.core.ending import Ending
from workers.core_heartbeat import CoreReporting
from workers.log_shipping import LogShipping
from workers.sandbox.parent_death import die_with_parent
from workers.settings import MEASURE, Settings

PROCESS_START_SECONDS = 120.0
"""How long a child may take to load TVM before Celery counts it as failed."""
LOST_SECONDS = 0.5
"""How long Celery waits for the answer of a process that has died: there is none, the database has it."""


def create_app(settings: Settings) -> Celery:
    """The application with the tasks of ``settings.queues``.

    Early acknowledgement and no prefetch: a message is only a bell, the database owns the work, and a lost or
    doubled one is harmless. So Redis keeps no list of what is under way, which all workers would share. Nothing heavy
    is imported here: Celery's worker loads TVM as it starts.
    """
    for name in THREADS:
        os.environ.setdefault(name, "1")
    os.environ["CELERY_LOADER"] = "app"  # Celery's other one imports a celeryconfig.py of the working folder
    if settings.measures:
        from workers.measure.device import check_device, check_enrolled

        check_device(settings)
        check_enrolled(settings)
    settings = with_device_classes(settings)
    app = Celery("tunesmith", set_as_current=False)
    app.conf.update(
        broker_read_url=settings.broker_url.get_secret_value(),
        broker_write_url=(settings.reports_url or settings.broker_url).get_secret_value(),
        broker_transport=f"{GuardedTransport.__module__}:{GuardedTransport.__qualname__}",
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_transport_options={
            "ack_emulation": False,
            "global_keyprefix": KEY_PREFIX,
            "socket_timeout": 30,
            "socket_connect_timeout": 5,
            "health_check_interval": 25,
            "priority_steps": [0],  # one list a queue, so that Redis can be told its name
        },
        result_backend=None,
        task_ignore_result=True,
        task_acks_late=False,
        task_serializer="json",
        accept_content=["json"],
        task_queues=[Queue(name, routing_key=name) for name in queue_names(settings)],
        task_default_queue=CORE_QUEUES[0],
        task_create_missing_queues=True,
        worker_prefetch_multiplier=1,
        worker_disable_prefetch=True,
        worker_proc_alive_timeout=PROCESS_START_SECONDS,
        worker_lost_wait=LOST_SECONDS,
        worker_soft_shutdown_timeout=5,
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
        worker_enable_remote_control=True,
        worker_send_task_events=False,
        enable_utc=True,
    )
    logs.configure(settings.log_level)
    refusing.watch()
    if settings.core_queues:
        signals.celeryd_init.connect(lambda **_: _check_schema(settings), weak=False, dispatch_uid="tunesmith.schema")
    shipping = LogShipping(settings)
    context = _context_factory(settings, _ending())
    _follow_children(settings, context)
    tasks.register(app, settings.core_queues, context)
    if settings.core_queues:
        lost_work.watch(settings)
        CoreReporting(settings)
    if settings.measures:
        from workers.measure.tasks import register

        register(app, settings, shipping)
    return app


def _check_schema(settings: Settings) -> None:
    """End a worker that starts with a database of another version, before it fails task by task."""
    try:
        revision.check(settings.url())
    except SchemaMismatch as error:
        print(f"error: {error.detail}", file=sys.stderr, flush=True)
        raise SystemExit(error.exit_code) from error


def with_device_classes(settings: Settings) -> Settings:
    """The settings with the device classes filled in, which ``measure`` stands for."""
    if MEASURE not in settings.queues or settings.device_classes:
        return settings
    from workers.measure.device import served_classes
    from workers.tvm_backend.host import describe_from_outside

    return settings.model_copy(update={"device_classes": served_classes(settings, describe_from_outside())})


def queue_names(settings: Settings) -> tuple[str, ...]:
    """The queues to consume: ``measure`` stands for those of every class of this worker's device."""
    names: list[str] = []
    for name in settings.queues:
        names += [measure_queue(c) for c in settings.device_classes] if name == MEASURE else [name]
    return tuple(dict.fromkeys(names))


def _ending() -> Ending:
    """Set when this worker is to end; its pool's processes, which get no message, see it."""
    ending = Ending()
    signals.worker_shutting_down.connect(lambda **_: ending.set(), weak=False, dispatch_uid="tunesmith.ending")
    return ending


def _context_factory(settings: Settings, ending: Ending) -> Any:
    """Makes this process's context when the first task asks for it, which is after the fork."""

    @functools.lru_cache(maxsize=1)
    def context() -> Any:
        from workers.core.context import make_context
        from workers.core.database_retry import DatabaseRetry

        return make_context(settings, DatabaseRetry(ending))

    return context


def _load_before_fork(queues: Sequence[str]) -> None:
    """What the tasks of ``queues`` need is loaded once, TVM and LightGBM: the pool's processes are forked with it."""
    if INGEST in queues or SEARCH in queues:
        from workers.tvm_backend.warm import warm

        with undisturbed():
            warm()
            tasks.load(queues)
            if extras.here("lightgbm"):
                importlib.import_module("costmodels.ranker")  # what is shipped guides the first proposals


def _follow_children(settings: Settings, context: Any) -> None:
    """Each child of the pool ends with its parent. A separate process imports models; that of the first importer loads
    before its first task, those of others, who are there for further users, with theirs."""
    imports = INGEST in settings.core_queues

    def start(**_: Any) -> None:
        die_with_parent()
        if imports and getattr(current_process(), "index", 0) == 0:
            context().importing.begin()

    signals.worker_process_init.connect(start, weak=False, dispatch_uid="tunesmith.start")
    signals.celeryd_init.connect(lambda **_: restrict_remote_control(), weak=False, dispatch_uid="tunesmith.control")
    signals.celeryd_init.connect(
        lambda **_: _load_before_fork(settings.core_queues), weak=False, dispatch_uid="tunesmith.load"
    )
