"""A scripted device and its builders, for calibrations without TVM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from tunesmith.errors import DeviceLost
from tunesmith.types import FailureKind, Isolation
from workers.measure.calibration import Calibrator
from workers.measure.drift import Rules
from workers.protocol import Built, Confirmed, ConfirmRequest, ModelOutcome, ModelRequest, RunOutcome, RunRequest
from workers.sandbox.pool import ChildTimeout, Pool
from workers.tvm_backend.build import calibration_kernels

TARGET = {"kind": "llvm", "mcpu": "x86-64", "num-cores": 2}
RULES = Rules(interval=30.0, retry=0.0, drifting=0.1, quarantine=1.5, checks=3, patience=120.0)


@dataclass
class Builders:
    """Makes empty libraries; ``broken`` ones come from a compiler that hangs."""

    built: list[calibration_kernels.Kernel] = field(default_factory=list)
    broken: bool = False
    narrow: bool = False

    def call(self, method: str, *args: Any, timeout: float) -> Built | dict[str, calibration_kernels.PairPeak]:
        if self.broken:
            raise ChildTimeout("no answer")
        if method == "narrow_peaks":
            return {"bf16": calibration_kernels.PairPeak(2)} if self.narrow else {}
        assert method == "build_kernel"
        kernel, _, out = args
        self.built.append(kernel)
        out.write_bytes(b"library")
        return Built(path=out, function=calibration_kernels.FUNCTION, args=kernel.args, flops=kernel.work)


@dataclass
class Device:
    """Runs at 1 GFLOP/s and 1 GB/s, ``slowness`` times slower; each look takes a second of its clock."""

    slowness: list[float] = field(default_factory=lambda: [1.0])
    failure: FailureKind | None = None
    lost: bool = False
    now: float = 0.0
    runs: list[float] = field(default_factory=list)
    held: bool = False
    threads: int = 2
    isolation: Isolation = Isolation.EXCLUSIVE
    binding: str = ""

    def clock(self) -> float:
        return self.now

    def open(self, target: Mapping[str, Any]) -> None:
        if self.lost:
            raise DeviceLost("nobody answers")
        assert dict(target) == TARGET
        self.held = True
        self.now += 1.0

    def release(self) -> None:
        self.held = False

    def race(self, requests: Sequence[RunRequest], incumbent: float | None) -> list[RunOutcome]:
        assert self.held
        assert all(request.default and request.path.read_bytes() == b"library" for request in requests)
        self.runs += [request.flops for request in requests]
        if self.failure is not None:
            return [RunOutcome((), self.failure, "planted") for _ in requests]
        factor = self.slowness.pop(0) if len(self.slowness) > 1 else self.slowness[0]
        return [RunOutcome((request.flops * factor / 1e9,) * 3) for request in requests]

    def confirm(self, request: ConfirmRequest) -> list[Confirmed]:
        raise AssertionError("not asked for")

    def compare(self, request: ModelRequest) -> ModelOutcome:
        raise AssertionError("not asked for")

    def close(self) -> None:
        """Nothing to end."""


def calibrator(
    device: Device, folder: Path, builders: Builders | None = None, name: str = "test", enabled: bool = True
) -> Calibrator:
    pool = cast(Pool, builders or Builders())
    return Calibrator(pool, device, folder, device.clock, device=name, rules=RULES, enabled=enabled)
