"""A measure worker whose device is not what it was, or tells times that cannot be true: real builds and real runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from gemm_batches import Gemm, Mailbox
from rpc_device import RpcDevice

from tunesmith.messages import BatchReport, DeviceReport
from tunesmith.targets import Target
from tunesmith.types import DeviceHealth, FailureKind, Isolation
from workers.measure.worker import MeasureWorker
from workers.protocol import Confirmed, ConfirmRequest, ModelOutcome, ModelRequest, RunOutcome, RunRequest
from workers.settings import Settings
from workers.tvm_backend.build import calibration_kernels
from workers.tvm_backend.run.runner import RpcRunner


@dataclass
class Distorted:
    """A device whose clock lies: ``calibrating`` scales the calibration kernel's times, ``racing`` the candidates',
    ``confirming`` the finalists'.

    ``seen``: what was run, and the worker's health as others saw it then.
    """

    runner: RpcRunner
    calibrating: list[float] = field(default_factory=lambda: [1.0])
    racing: float = 1.0
    confirming: float = 1.0
    look: Callable[[], DeviceHealth] = lambda: DeviceHealth.OK
    seen: list[tuple[str, DeviceHealth]] = field(default_factory=list)

    @property
    def threads(self) -> int:
        return self.runner.threads

    @property
    def isolation(self) -> Isolation:
        return self.runner.isolation

    @property
    def binding(self) -> str:
        return self.runner.binding

    def open(self, target: Mapping[str, Any]) -> None:
        self.runner.open(target)

    def race(self, requests: Sequence[RunRequest], incumbent: float | None) -> list[RunOutcome]:
        outcomes = self.runner.race(requests, incumbent)
        if requests[0].args == calibration_kernels.Reference().args:
            self.seen.append(("kernel", self.look()))
            factor = self.calibrating.pop(0) if len(self.calibrating) > 1 else self.calibrating[0]
            # Steady, whatever the machine that the test runs on is doing.
            return [replace(outcome, samples=(1e-3 * factor,) * 10) for outcome in outcomes]
        self.seen += [("candidate", self.look()) for request in requests if request.code_hash]
        return [replace(o, samples=tuple(s * self.racing for s in o.samples)) for o in outcomes]

    def confirm(self, request: ConfirmRequest) -> list[Confirmed]:
        return [
            replace(found, samples=tuple(s * self.confirming for s in found.samples))
            for found in self.runner.confirm(request)
        ]

    def compare(self, request: ModelRequest) -> ModelOutcome:
        return self.runner.compare(request)

    def release(self) -> None:
        self.runner.release()

    def close(self) -> None:
        self.runner.close()


@dataclass
class Scene:
    """A worker on a distorted device."""

    worker: MeasureWorker
    device: Distorted
    mailbox: Mailbox
    gemm: Gemm


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    process, mailbox = RpcDevice(tmp_path_factory.mktemp("device")), Mailbox()
    settings = Settings(
        data_dir=tmp_path_factory.mktemp("data"),
        tracker=process.tracker,
        device_key=process.key,
        lease_file=process.lease,
        queues=("measure",),
        calibration_interval=1e-6,
        quarantine_limit=1.5,
    )
    device = Distorted(RpcRunner(process.tracker, process.key, process.lease))
    worker = MeasureWorker(settings, mailbox.send, device)
    device.look = lambda: worker.device_report().health
    try:
        yield Scene(worker, device, mailbox, Gemm.make(Target(worker.identity.target), 2))
    finally:
        worker.close()
        process.stop()


def test_a_calibrated_device_reports_itself_and_its_noise(scene: Scene) -> None:
    scene.worker.measure(scene.gemm.batch(1))
    report = scene.worker.device_report()
    assert isinstance(report, DeviceReport)
    assert report.health is DeviceHealth.OK
    assert report.calibration is not None
    assert report.calibration.reference_seconds == pytest.approx(1e-3)
    assert report.calibration.peak_flops > 1e8
    environment = scene.mailbox.last(BatchReport).environment
    assert environment["noise_floor"] == report.calibration.noise_floor > 0
    assert all(result.failure is None for result in scene.mailbox.results(1).values())


def test_nothing_is_measured_in_quarantine_and_the_batch_goes_on_after_it(scene: Scene) -> None:
    scene.device.calibrating, scene.device.seen = [1.8, 1.8, 1.8, 1.8, 1.0], []
    for number in (2, 3, 4):
        scene.worker.measure(scene.gemm.batch(number, job_id=f"slow-{number}"))
    kinds = [kind for kind, _ in scene.device.seen]
    third = [i for i, kind in enumerate(kinds) if kind == "kernel"][2]
    assert kinds[third:].count("kernel") >= 3, "the check that ended in quarantine, one within it, one that ended it"
    assert ("candidate", DeviceHealth.QUARANTINED) not in scene.device.seen
    assert scene.device.seen[third + 1] == ("kernel", DeviceHealth.QUARANTINED)
    assert "candidate" in kinds[third + 2 :]
    assert all(result.failure is None for result in scene.mailbox.results(4).values())
    assert scene.worker.device_report().health is DeviceHealth.OK


def test_times_that_cannot_be_true_are_refused(scene: Scene) -> None:
    scene.device.racing = 1e-6
    try:
        scene.worker.measure(scene.gemm.batch(5, job_id="liar", incumbent_seconds=1e-3))
    finally:
        scene.device.racing = 1.0
    results = scene.mailbox.results(5)
    assert {result.failure for result in results.values()} == {FailureKind.IMPLAUSIBLE}
    assert all("GFLOP/s" in result.message and result.trace is None for result in results.values())


def test_nobody_is_crowned_with_a_time_that_cannot_be_true(scene: Scene) -> None:
    scene.device.confirming = 1e-6
    try:
        scene.worker.measure(scene.gemm.batch(6, job_id="late liar"))
    finally:
        scene.device.confirming = 1.0
    confirmed = [result for result in scene.mailbox.results(6).values() if result.confirmation is not None]
    assert confirmed
    assert {result.failure for result in confirmed} == {FailureKind.IMPLAUSIBLE}
    assert all("when measured again" in result.message and "GFLOP/s" in result.message for result in confirmed)
