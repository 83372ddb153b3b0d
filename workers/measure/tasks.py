"""Binds the measure worker to a Celery app."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from celery import Celery
from celery.signals import worker_process_init, worker_process_shutdown
from kombu.exceptions import OperationalError

from tunesmith.message_reading import Kind, UnreadableError, read
from tunesmith.messages import RECORD, EvaluateModel, MeasureBatch, Message
from tunesmith.signing import Signer, load_signer
from workers.log_shipping import LogShipping
from workers.measure.worker import MeasureWorker
from workers.refusing import WATCHFUL
from workers.settings import Settings

log = logging.getLogger("tunesmith.measure")


class MeasureTasks:
    """The tasks and the worker that they share.

    The worker is made in the pool process (prefork, one process) and not in Celery's main process, which imports
    nothing heavy and stays free to answer pings.
    """

    def __init__(self, app: Celery, settings: Settings, shipping: LogShipping | None = None) -> None:
        self._app, self._settings, self._shipping = app, settings, shipping
        self._signer: Signer | None = None
        self._worker: MeasureWorker | None = None

    def start(self, **_: object) -> None:
        """Start the builders and report the device."""
        if self._worker is None:
            self._signer = load_signer(self._settings.data_dir)
            channel = self._shipping.channel if self._shipping is not None and not self._settings.core_queues else None
            self._worker = MeasureWorker(self._settings, self.send, channel=channel)
            self._worker.start()

    def begin(self, **_: object) -> None:
        """:meth:`start`, or the end of this process and, at its beginning, of the worker.

        Celery only logs what a signal's handler raises: the worker would go on without a device, for ever.
        """
        try:
            self.start()
        except Exception as error:
            log.exception("the measure worker cannot start")
            raise SystemExit(1) from error

    def stop(self, **_: object) -> None:
        """Report that the device goes and end the children."""
        if self._worker is not None:
            worker, self._worker = self._worker, None
            worker.close()

    def send(self, message: Message) -> bool:
        """Sign and publish to the queue ``record``; False when the broker is away."""
        assert self._signer is not None, "nothing is sent before the worker begins"
        signed = self._signer.sign(message).model_dump(mode="json")
        try:
            self._app.send_task(message.task, args=[signed], queue=RECORD, retry=False)
        except (OperationalError, OSError) as error:
            log.warning("%s not sent: %s", message.task, error)
            return False
        return True

    def measure(self, body: Mapping[str, Any]) -> None:
        """``tunesmith.measure``."""
        self._ready().measure(self._read(MeasureBatch, body))

    def evaluate(self, body: Mapping[str, Any]) -> None:
        """``tunesmith.evaluate``."""
        self._ready().evaluate(self._read(EvaluateModel, body))

    def _read(self, kind: type[Kind], body: object) -> Kind:
        try:
            return read(kind, body)
        except UnreadableError as error:
            self._ready().cannot_read(error.found)
            raise

    def _ready(self) -> MeasureWorker:
        self.start()
        assert self._worker is not None
        return self._worker


def register(app: Celery, settings: Settings, shipping: LogShipping | None = None) -> MeasureTasks:
    """Bind ``tunesmith.measure`` and ``tunesmith.evaluate``, and the worker's life to its process's.

    Args:
        shipping: where the worker's log lines wait that its heartbeats are to tell.
    """
    tasks = MeasureTasks(app, settings, shipping)
    app.task(tasks.measure, name=MeasureBatch.task, shared=False, Request=WATCHFUL)
    app.task(tasks.evaluate, name=EvaluateModel.task, shared=False, Request=WATCHFUL)
    # Not weak: the signals are what keeps the bound methods alive.
    worker_process_init.connect(tasks.begin, weak=False)
    worker_process_shutdown.connect(tasks.stop, weak=False)
    return tasks
