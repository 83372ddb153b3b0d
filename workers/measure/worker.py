"""The measure worker's state: builders and a device that stay warm between batches."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cachetools import LRUCache

from tunesmith import __version__
from tunesmith.errors import DeviceLost, MeasurementFailed, TunesmithError
from tunesmith.messages import (
    BatchReport,
    DefaultLatency,
    DeviceReport,
    EvaluateModel,
    EvaluationReport,
    MeasureBatch,
    Unreadable,
    WireResult,
)
from tunesmith.targets import slug
from tunesmith.types import CacheState, DeviceHealth, Environment, FailureKind
from workers.log_lines import LogChannel
from workers.measure import plausibility, rough
from workers.measure.batches import BatchMeasurement, Tools
from workers.measure.blobs import PayloadCache
from workers.measure.breaker import Breaker, BreakerRules, Circuit
from workers.measure.calibration import make_calibrator
from workers.measure.crash_blocklist import CrashBlocklist
from workers.measure.device import DeviceIdentity, expected_kind, identify
from workers.measure.evaluate import evaluate, lost
from workers.measure.heartbeat import Heartbeat
from workers.measure.library_cache import LibraryCache
from workers.measure.reporting import HEARTBEAT_SECONDS, PeriodicThread, Reporter, Send, send_final_report
from workers.measure.task_memory import TaskMemory
from workers.protocol import Built, Runner, RunOutcome
from workers.sandbox.limits import allowance
from workers.sandbox.pool import Actor, Pool
from workers.settings import Settings
from workers.tvm_backend.host import Host
from workers.tvm_backend.run.runner import RpcRunner, SimulatedRunner
from workers.tvm_backend.warm import visible_cores

log = logging.getLogger("tunesmith.measure")
REMEMBERED = 64
START_SECONDS = 120.0
QUARANTINE_WAITS = 2.0
"""A batch waits this many times as long as a quarantine lasts at most."""
FOLDER = "tunesmith-measure-"
QUARANTINE = "its calibration kernel runs far slower than at first"
ON_DEVICE = frozenset({FailureKind.CRASH, FailureKind.RUN_TIMEOUT})
"""Failures that may be the candidate's or the device's."""


class DeviceResting(DeviceLost):
    """Nothing is measured on the device for now, on purpose."""


class MeasureWorker:
    """Measures batches and evaluates models, one at a time; lives in one process and one long-lived thread.

    Args:
        settings: the worker's settings.
        send: publishes a message to the queue ``record``.
        runner: the device; by default what the settings say.
        builder: what the processes of the pool host; by default TVM's.
        channel: log lines that heartbeats tell; none by default.

    Attributes:
        builders: that pool.
    """

    def __init__(
        self,
        settings: Settings,
        send: Send,
        runner: Runner | None = None,
        builder: Actor | None = None,
        channel: LogChannel | None = None,
    ) -> None:
        self._send, self._settings, self._channel = send, settings, channel
        sweep(Path(tempfile.gettempdir()))
        self.builders = Pool(builder or make_builder(settings), visible_cores())
        # One question per process: all of them are warm before the first batch comes.
        answers = [self.builders.submit("describe", timeout=START_SECONDS) for _ in range(self.builders.size)]
        self._host: Host = answers[0].result()
        self.identity: DeviceIdentity = identify(settings, self._host)
        self._runner = runner or make_runner(settings, self.identity)
        self._blobs = PayloadCache(settings.data_dir / "measure-cache", store=settings.blobs())
        self._kept = _folder()
        self._tools = Tools(
            builders=self.builders,
            runner=self._runner,
            load=self._blobs.load,
            libraries=LibraryCache(self._kept),
            book=CrashBlocklist(settings.data_dir / "poison" / slug(self.identity.name)),
            memory=TaskMemory(),
            check=self._plausible,
        )
        self._calibrator = make_calibrator(settings, self.identity, self._host, self.builders, self._runner)
        self._patience = QUARANTINE_WAITS * settings.quarantine_seconds
        self._batches: LRUCache[tuple[str, int], dict[int, WireResult]] = LRUCache(REMEMBERED)
        self._evaluations: LRUCache[tuple[str, int, int], EvaluationReport] = LRUCache(REMEMBERED)
        self._busy = False
        rules = BreakerRules(in_row=settings.device_failures, rest=settings.device_rest_seconds)
        self._breaker = Breaker(rules, time.monotonic)
        self._closed = threading.Event()
        self._cannot_read = ""
        self._unsaid: Unreadable | None = None
        self._heartbeat = Heartbeat(send, self.device_report, self._unsent)

    def start(self) -> None:
        """Say that the device is there."""
        self._heartbeat.start()

    def close(self) -> None:
        """Say that the device is going, and end every child process."""
        self._closed.set()
        self._heartbeat.stop()
        self._tools.book.close()
        self._runner.close()
        self.builders.close()
        self._blobs.close()
        shutil.rmtree(self._kept, ignore_errors=True)

    def device_report(self) -> DeviceReport:
        """The heartbeat to send now."""
        it = self.identity
        health, calibration = self._calibrator.current()
        reason, unsaid = self._cannot_read, self._unsaid
        self._unsaid = None
        if reason:
            health = DeviceHealth.INCOMPATIBLE
        elif self._breaker.circuit is Circuit.OPEN:
            health, reason = DeviceHealth.RESTING, self._breaker.reason
        elif health is DeviceHealth.QUARANTINED:
            reason = QUARANTINE
        return DeviceReport(
            worker=it.worker,
            name=it.name,
            host=it.host,
            device_classes=list(it.classes),
            target=it.target,
            cores=it.cores,
            simulated=it.simulated,
            environment={**self.environment(), "tunesmith": __version__},
            busy=self._busy,
            health=health,
            reason=reason[:500],
            unreadable=unsaid,
            calibration=calibration,
            calibrated=self._calibrator.calibrated,
            log=self._channel.take() if self._channel is not None else [],
        )

    def _unsent(self, report: DeviceReport) -> None:
        """What is said once is said with the next heartbeat."""
        self._unsaid = self._unsaid or report.unreadable
        if self._channel is not None:
            self._channel.put_back(report.log)

    def environment(self, batch: MeasureBatch | None = None) -> dict[str, Any]:
        """Fingerprint of where measurements are taken, and with ``batch`` of how."""
        host, runner = self._host, self._runner
        calibration = self._calibrator.calibration(batch.target) if batch else None
        return asdict(
            Environment(
                host=host.name,
                device=self.identity.name,
                cpu=host.cpu,
                cores=host.cores,
                threads=runner.threads,
                tvm=host.tvm,
                python=host.python,
                os=host.os,
                simulated=self.identity.simulated,
                binding=runner.binding,
                isolation=runner.isolation.value,
                cache=self._cache(batch).value if batch else "",
                noise_floor=calibration.noise_floor if calibration else 0.0,
            )
        )

    def _cache(self, batch: MeasureBatch) -> CacheState:
        """Where the runs of a batch find their arguments, once the device was opened."""
        return CacheState.STREAMED if batch.weights is not None and self._runner.streams else CacheState.WARM

    def cannot_read(self, found: Unreadable) -> None:
        """Say that a message cannot be read; the device is not healthy from now on, because it gets no more work."""
        self._cannot_read, self._unsaid = found.reason, found
        self._heartbeat.beat()

    def measure(self, batch: MeasureBatch) -> None:
        """Measure a batch and report; a repeated message is answered from memory as far as that reaches."""
        key = (batch.job_id, batch.batch_id)  # numbers begin anew with a new database, ids of jobs never come back
        known = self._batches.setdefault(key, {})

        defaults: list[DefaultLatency] = []

        def compose(results: list[WireResult], final: bool, error: str) -> BatchReport:
            return BatchReport(
                batch_id=batch.batch_id,
                attempt=batch.attempt,
                ticket=batch.ticket,
                worker=self.identity.worker,
                environment=self.environment(batch),
                results=results,
                defaults=defaults,
                final=final,
                error=error,
            )

        with self._work() as folder, Reporter(self._send, compose) as report:
            report.add(*(known[c.index] for c in batch.candidates if c.index in known))
            try:
                self._make_ready(batch.target)
                defaults += rough.latencies(batch, self._tools, folder)
                measurement = BatchMeasurement(batch, self._tools, folder)
                fresh = []
                for result in measurement.results(set(known)):
                    known[result.index] = result
                    fresh.append(result)
                    report.add(result)
                self._judge(fresh)
            except DeviceResting as error:
                report.finish(str(error))
            except DeviceLost as error:
                self._failed(str(error))
                report.finish(str(error))
            except TunesmithError as error:
                report.finish(str(error))
            except Exception as error:  # the batch must be reported as over whatever failed
                log.exception("batch %d", batch.batch_id)
                report.finish(f"{type(error).__name__}: {error}")
            else:
                report.finish()

    def _make_ready(self, target: Mapping[str, Any]) -> None:
        """See that the device can be trusted.

        Raises:
            DeviceLost: it is gone, or too slow for too long.
        """
        if self._breaker.left > self._patience or self._closed.wait(self._breaker.left):
            raise DeviceResting(self._breaker.reason or "the worker ends")
        before = self._calibrator.current(), self._calibrator.calibrated
        self._calibrator.refresh(target)
        if before != (self._calibrator.current(), self._calibrator.calibrated):
            self._heartbeat.beat()  # results are held against the calibration: it must be known before they come
        if not self._calibrator.wait_until_healthy(self._patience):
            raise DeviceResting(f"the device is in quarantine: {QUARANTINE}")
        if self._calibrator.trouble:
            self._failed(f"a calibration kernel: {self._calibrator.trouble}")

    def _judge(self, results: Sequence[WireResult]) -> None:
        """What a batch says about the device. Of candidates that crash or hang it says nothing: where none ran, the
        calibration kernel, which is known to be good, is asked before the next batch. Of a time that cannot be it
        is not known whether the device told it wrong, or its peak was taken while something disturbed it."""
        ran = [result for result in results if not result.duplicate]
        if any(result.failure is FailureKind.IMPLAUSIBLE for result in ran):
            self._calibrator.doubt_limits()
        if any(result.failure is FailureKind.DEVICE_LOST for result in ran):
            self._failed("it was lost while candidates ran")
        elif any(result.samples for result in ran):
            self._breaker.succeeded()
        elif any(result.failure in ON_DEVICE for result in ran):
            self._calibrator.doubt()

    def _failed(self, why: str) -> None:
        self._breaker.failed(why)
        if self._breaker.circuit is Circuit.OPEN:
            log.warning("%s", self._breaker.reason)
            self._heartbeat.beat()

    def _plausible(self, outcome: RunOutcome, built: Built, batch: MeasureBatch) -> RunOutcome:
        return plausibility.check(outcome, built.flops, built.args, self._calibrator.calibration(batch.target))

    def evaluate(self, message: EvaluateModel) -> None:
        """Evaluate a model and report; a repeated message is answered from memory."""
        report = EvaluationReport(
            evaluation_id=message.evaluation_id,
            attempt=message.attempt,
            ticket=message.ticket,
            worker=self.identity.worker,
            environment=self.environment(),
        )
        key = (message.job_id, message.evaluation_id, message.attempt)
        if key not in self._evaluations:
            with self._work() as folder, PeriodicThread(HEARTBEAT_SECONDS, lambda: self._send(report), "evaluation"):
                self._evaluations[key] = self._evaluate(message, folder, report)
        done = self._evaluations[key]
        send_final_report(self._send, done.model_copy(update={"final": True, "environment": self.environment()}))

    def _evaluate(self, message: EvaluateModel, folder: Path, report: EvaluationReport) -> EvaluationReport:
        try:
            return evaluate(message, self.builders, self._runner, self._blobs, folder, report, self._settings)
        except DeviceLost as error:
            self._failed(str(error))
            return lost(report, error)
        except MeasurementFailed as error:  # the device is gone, or whoever has the weights does not answer now
            return lost(report, error)
        except Exception as error:  # the evaluation must be reported as over whatever failed
            log.exception("evaluation %d", message.evaluation_id)
            return report.model_copy(update={"failure": FailureKind.RUN_ERROR, "message": str(error)[:2000]})

    @contextmanager
    def _work(self) -> Iterator[Path]:
        """A folder for one piece of work; the device counts as busy meanwhile."""
        folder = _folder()
        self._busy = True
        try:
            yield folder
        finally:
            self._busy = False
            shutil.rmtree(folder, ignore_errors=True)


def _folder() -> Path:
    return Path(tempfile.mkdtemp(prefix=f"{FOLDER}{os.getpid()}-"))


def sweep(temporary: Path) -> None:
    """Remove the folders of workers that were killed."""
    for path in temporary.glob(f"{FOLDER}*"):
        pid = path.name.removeprefix(FOLDER).partition("-")[0]
        if pid.isdigit() and not Path("/proc", pid).exists():
            shutil.rmtree(path, ignore_errors=True)


def make_builder(settings: Settings) -> Actor:
    """TVM's builder for the settings' device classes."""
    arguments = (str(settings.lease_file), expected_kind(settings))
    return Actor("workers.tvm_backend.build.builder:Builder", arguments, memory=allowance(settings.memory_share))


def make_runner(settings: Settings, identity: DeviceIdentity) -> Runner:
    """The runner that the settings ask for."""
    if settings.simulate:
        return SimulatedRunner()
    return RpcRunner(settings.tracker, identity.key, settings.lease_file)
