"""Invented devices: they take real messages from the broker and answer with real reports, but measure nothing."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from queue import Empty
from typing import Any

from cachetools import LRUCache
from celery import Celery
from kombu import Connection
from kombu.exceptions import OperationalError

from benchmarks.faults.cluster import TARGET
from tunesmith.messages import (
    RECORD,
    BatchReport,
    Confirmation,
    DeviceReport,
    MeasureBatch,
    Message,
    WireCandidate,
    WireResult,
    measure_queue,
)
from tunesmith.signing import Signer
from workers.measure.heartbeat import Heartbeat
from workers.measure.reporting import Reporter

POLL_SECONDS = 0.5
REMEMBERED = 256
"""Batches whose results a device keeps, to answer a repeated message from memory as the real worker does."""
TRANSPORT = {"global_keyprefix": "tunesmith:", "socket_timeout": 30, "socket_connect_timeout": 5}


class Device:
    """Takes one batch at a time.

    Args:
        number: of this device.
        broker: URL of the Redis.
        seconds: that a candidate takes.
        signer: of the enrolled worker that it reports as.
    """

    def __init__(self, number: int, broker: str, seconds: float, signer: Signer) -> None:
        self.name, self.worker = f"invented-{number}", f"invented-{number}-worker"
        self._signer = signer
        self._seconds, self._rng = seconds, random.Random(number)
        self._known: LRUCache[int, dict[int, WireResult]] = LRUCache(REMEMBERED)
        self._broker, self._busy, self._stop = broker, False, threading.Event()
        self._app = Celery(f"invented-{number}", broker=broker, set_as_current=False)
        self._app.conf.update(task_serializer="json", result_backend=None, broker_transport_options=TRANSPORT)
        self._heartbeat = Heartbeat(self._send, self._device_report)
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)

    def start(self) -> None:
        """Report the device and begin."""
        self._heartbeat.start()
        self._thread.start()

    def stop(self) -> None:
        """End in the middle of what it does."""
        self._stop.set()

    def join(self) -> None:
        """Wait for the end."""
        self._thread.join()
        self._heartbeat.stop()
        self._app.close()

    def _send(self, message: Message) -> bool:
        signed = self._signer.sign(message).model_dump(mode="json")
        try:
            self._app.send_task(message.task, args=[signed], queue=RECORD, retry=False)
        except (OperationalError, OSError):
            return False
        return True

    def _device_report(self) -> DeviceReport:
        return DeviceReport(
            worker=self.worker,
            name=self.name,
            host="invented",
            device_classes=[TARGET.device_class],
            target=TARGET.to_json(),
            cores=2,
            simulated=True,
            busy=self._busy,
        )

    def _run(self) -> None:
        with Connection(self._broker, transport_options=TRANSPORT) as connection:
            queue = connection.SimpleQueue(measure_queue(TARGET.device_class), no_ack=True)
            while not self._stop.is_set():
                try:
                    found = queue.get(timeout=POLL_SECONDS)
                except Empty:
                    continue
                self._busy = True
                self._measure(MeasureBatch.model_validate(_body(found.payload)))
                self._busy = False

    def _measure(self, batch: MeasureBatch) -> None:
        known = self._known.setdefault(batch.batch_id, {})

        def compose(results: list[WireResult], final: bool, error: str) -> BatchReport:
            return BatchReport(
                batch_id=batch.batch_id,
                attempt=batch.attempt,
                ticket=batch.ticket,
                worker=self.worker,
                results=results,
                final=final,
                environment={"simulated": True},
                error=error,
            )

        with Reporter(self._send, compose) as reporter:
            for candidate in batch.candidates:
                if candidate.index not in known:
                    if self._stop.wait(self._seconds):
                        return
                    known[candidate.index] = self._result(candidate, batch)
                reporter.add(known[candidate.index])
            reporter.finish()

    def _result(self, candidate: WireCandidate, batch: MeasureBatch) -> WireResult:
        incumbent = batch.incumbent_seconds
        if candidate.sketch is None:
            return WireResult(index=candidate.index, samples=[0.1] * 3)
        seconds = self._rng.uniform(0.01, 0.2)
        if incumbent is not None and seconds >= incumbent:
            return WireResult(index=candidate.index, samples=[seconds])
        won = Confirmation(samples=[seconds] * 5, champion_samples=[0.2] * 5, error=0.0, tolerance=1e-4, won=True)
        return WireResult(
            index=candidate.index, samples=[seconds] * 3, confirmation=won, trace=_trace(candidate, batch)
        )


def _trace(candidate: WireCandidate, batch: MeasureBatch) -> str | None:
    """A candidate's trace without its postprocessing, where the message holds its sketch."""
    body = batch.sketches.get(candidate.sketch or "")
    if body is None or body.inline is None:
        return None
    instructions = json.loads(body.unpack())["trace"]
    knobs = [at for at, instruction in enumerate(instructions) if instruction[0].startswith("Sample")]
    return json.dumps([instructions, list(zip(knobs, candidate.decisions, strict=True))])


def _body(payload: Any) -> dict[str, Any]:
    """The message in a Celery task of protocol 2: arguments, keywords, and what belongs to Celery."""
    (message,), _, _ = json.loads(payload) if isinstance(payload, str | bytes) else payload
    return dict(message)


@contextmanager
def devices(count: int, broker: str, seconds: float, signer: Signer) -> Iterator[None]:
    """That many devices of one enrolled worker, ``seconds`` a candidate, for the length of the block."""
    found = [Device(number, broker, seconds, signer) for number in range(count)]
    for device in found:
        device.start()
    try:
        yield
    finally:
        for device in found:
            device.stop()
        for device in found:
            device.join()
