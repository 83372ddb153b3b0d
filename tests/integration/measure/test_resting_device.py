"""A measure worker whose device fails again and again leaves it alone for a while; bad candidates are no reason to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from gemm_batches import Gemm, Mailbox

from tunesmith.errors import DeviceLost
from tunesmith.messages import BatchReport, DeviceReport
from tunesmith.targets import Target
from tunesmith.types import DeviceHealth, FailureKind
from workers.measure.worker import MeasureWorker
from workers.protocol import RunOutcome, RunRequest
from workers.settings import Settings
from workers.tvm_backend.run.runner import SimulatedRunner

pytestmark = pytest.mark.servers


class Moody(SimulatedRunner):
    """A device that is gone, or on which everything crashes, while it is told to be so."""

    gone = crashing = False

    def open(self, target: Mapping[str, Any]) -> None:
        if self.gone:
            raise DeviceLost("nobody answers")

    def race(self, requests: Sequence[RunRequest], incumbent: float | None) -> list[RunOutcome]:
        if self.crashing:
            return [RunOutcome(failure=FailureKind.CRASH, message="ended by SIGSEGV") for _ in requests]
        return super().race(requests, incumbent)


def test_a_device_that_is_lost_again_and_again_rests_and_comes_back(tmp_path: Path) -> None:
    mailbox, runner = Mailbox(), Moody()
    settings = Settings(data_dir=tmp_path, simulate=True, lease_file=tmp_path / "lease", device_rest_seconds=0.01)
    worker = MeasureWorker(settings, mailbox.send, runner)
    try:
        gemm = Gemm.make(Target(worker.identity.target), 2)
        runner.crashing = True
        for number in range(4):
            worker.measure(gemm.batch(number))
        assert worker.device_report().health is DeviceHealth.OK, "candidates that crash are no fault of the device"
        runner.crashing, runner.gone = False, True
        for number in range(10, 13):
            worker.measure(gemm.batch(number))
        rested = [m for m in mailbox.messages if isinstance(m, DeviceReport) and m.health is DeviceHealth.RESTING]
        assert rested, "nobody is told that the device rests"
        assert rested[0].reason.startswith("the device failed 3 times in a row, at last: nobody answers; it rests for")
        runner.gone = False
        worker.measure(gemm.batch(20))
        assert mailbox.last(BatchReport).error == ""
        assert (worker.device_report().health, worker.device_report().reason) == (DeviceHealth.OK, "")
    finally:
        worker.close()
