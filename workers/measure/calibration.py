"""Calibrates a device: how fast it can be, how noisy it is, and, as time passes, whether it still is the same."""

from __future__ import annotations

import datetime as dt
import hashlib
import logging
import os
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tunesmith.host import core_caches
from tunesmith.measuring.plausibility import told_latency
from tunesmith.messages import Calibration, MeasureLimits
from tunesmith.targets import Target
from tunesmith.types import DeviceHealth
from workers.measure import drift, references
from workers.measure.device import DeviceIdentity
from workers.measure.drift import Rules
from workers.measure.plausibility import check
from workers.measure.references import Stored
from workers.protocol import Built, Runner
from workers.sandbox.pool import ChildError, Pool
from workers.settings import Settings
from workers.tvm_backend.build import calibration_kernels
from workers.tvm_backend.host import Host

log = logging.getLogger("tunesmith.measure")
BUILD_SECONDS = 60.0
REMEMBERED = 40
"""Medians of the calibration kernel that the noise floor is made of: the first and those of later checks."""
FIRST_MEDIANS = 3
"""Medians taken before each of the other kernels of a calibration. All make the reference; for the noise floor the
last of each row counts, because those taken in a row fall into one phase of the device."""
CHECK = MeasureLimits(repeats=MeasureLimits().min_repeats, variation=0.0, run_timeout=30.0)
"""What most candidates get, no more: the noise floor is to say how much *their* medians differ."""
SHORT_SAMPLES = CHECK.model_copy(update={"repeats": 30, "min_repeat_seconds": 0.001, "max_measure_seconds": 0.2})
"""Short samples, many of them: the fastest shows what the device can do."""
MOST_PASSES = 4
"""How often a peak or the bandwidth is taken at most: twice, then until the two best agree. One taken while the
machine stood still would refuse every good kernel as faster than the device can be."""
AGREEMENT = 1.25
"""Two rates agree when one is at most so many times the other."""


@dataclass
class _State:
    """A target's calibration.

    Attributes:
        kernel: the calibration kernel, built.
        drifts: drifts that this process's checks found since the reference was taken.
        checked: when the device was looked at last, by the calibrator's clock.
        quarantined: since when.
        doubted: peaks and bandwidth are to be taken again.
    """

    target: Target
    about: str
    path: Path
    stored: Stored | None = None
    kernel: Built | None = None
    drifts: list[float] = field(default_factory=list)
    checked: float | None = None
    quarantined: float | None = None
    doubted: bool = False


class Calibrator:
    """Keeps the calibration of one device, for each target that it is used for.

    A target that is new takes its peak, bandwidth, reference latency and noise floor, under three seconds; later the
    calibration kernel alone runs again, some 40 ms, every few seconds at first, later at most every ``rules.interval``
    seconds, and only when somebody asks. References outlive the worker. CPUs alone are calibrated: other kinds are
    healthy and unknown.

    :meth:`refresh` and :meth:`wait_until_healthy` run kernels: call them from the thread that measures, while the
    runner is released. The other methods may be called by any thread.

    Args:
        builders: pool of ``workers.tvm_backend.build.builder.Builder``.
        runner: the device.
        folder: where references are kept; made when absent.
        clock: seconds.
        device: what the device is; a reference of another is not taken over.

    Attributes:
        trouble: why the newest look could not be taken, a calibration kernel that did not run; empty when it was.
    """

    def __init__(
        self,
        builders: Pool,
        runner: Runner,
        folder: Path,
        clock: Callable[[], float] = time.monotonic,
        *,
        device: str = "",
        rules: Rules | None = None,
        enabled: bool = True,
    ) -> None:
        self._builders, self._runner, self._folder, self._clock = builders, runner, folder, clock
        self._device, self._rules, self._enabled = device, rules or Rules(), enabled
        self._states: dict[str, _State] = {}
        self._known: dict[str, tuple[DeviceHealth, Calibration]] = {}
        self._latest: Target | None = None
        self.trouble = ""
        self._closed = threading.Event()

    def refresh(self, target: Mapping[str, Any]) -> None:
        """Calibrate, or check the calibration, when that is due.

        A kernel that cannot be built or run is logged and leaves things as they were.

        Raises:
            DeviceLost: no device answers.
        """
        wanted = Target(dict(target))
        if not self._enabled or wanted.kind != "llvm":
            return
        self._latest = wanted
        state = self._states.get(wanted.hash) or self._state(wanted)
        if state.checked is None or self._clock() - state.checked >= self._pause(state):
            self._look(state)

    def wait_until_healthy(self, limit: float) -> bool:
        """Look again every few seconds until the device of the last :meth:`refresh` left quarantine.

        Whoever leaves earlier ends the quarantine as others see it: nobody looks at the device, and only new work makes
        somebody look.

        Args:
            limit: seconds to wait; 0 looks at what is known.

        Returns:
            False when it is still too slow, or the calibrator was closed.

        Raises:
            DeviceLost: no device answers.
        """
        deadline = self._clock() + limit
        try:
            while self.current()[0] is DeviceHealth.QUARANTINED:
                left = deadline - self._clock()
                state = self._states[self._latest.hash] if self._latest is not None else None
                if left <= 0 or state is None or self._closed.wait(min(left, self._pause(state))):
                    return False
                self._look(state)
            return True
        finally:
            health, calibration = self.current()
            if health is DeviceHealth.QUARANTINED and self._latest is not None and calibration is not None:
                self._known[self._latest.hash] = (DeviceHealth.DRIFTING, calibration)

    def doubt(self) -> None:
        """Have the next :meth:`refresh` look at the device, whenever it looked last."""
        for state in self._states.values():
            state.checked = None

    def doubt_limits(self) -> None:
        """Have the next :meth:`refresh` take peak and bandwidth again: something was faster, or was said to be."""
        for state in self._states.values():
            state.checked, state.doubted = None, True

    def calibration(self, target: Mapping[str, Any]) -> Calibration | None:
        """What is known of the device for a target."""
        return self._known_of(Target(dict(target)))[1]

    def health(self, target: Mapping[str, Any]) -> DeviceHealth:
        """Whether the device can be trusted for a target now."""
        return self._known_of(Target(dict(target)))[0]

    def current(self) -> tuple[DeviceHealth, Calibration | None]:
        """Health and calibration for the target that the device was used for last."""
        return self._known_of(self._latest) if self._latest is not None else (DeviceHealth.OK, None)

    @property
    def calibrated(self) -> str:
        """The device class that :meth:`current` is about; empty before the device was used."""
        return self._latest.device_class if self._latest is not None else ""

    def close(self) -> None:
        """End a wait that another thread is in."""
        self._closed.set()

    def _known_of(self, target: Target) -> tuple[DeviceHealth, Calibration | None]:
        return self._known.get(target.hash, (DeviceHealth.OK, None))

    def _state(self, target: Target) -> _State:
        about = "\n".join((self._device, target.canonical, f"kernels {calibration_kernels.VERSION}"))
        path = self._folder / f"{hashlib.sha256(about.encode()).hexdigest()[:24]}.json"
        state = self._states[target.hash] = _State(target, about, path, references.load(path, about))
        return state

    def _pause(self, state: _State) -> float:
        rules = self._rules
        usual = drift.pause(state.stored.looks if state.stored is not None else 0, rules)
        return min(rules.retry, usual) if drift.suspicious(state.drifts, rules) else usual

    def _look(self, state: _State) -> None:
        """Calibrate or check, and publish what was found."""
        try:
            if state.stored is None or state.doubted:
                self._calibrate(state)
            else:
                self._check(state, state.stored)
        except (_UnusableError, ChildError, OSError) as error:
            self.trouble = str(error)
            log.warning("%s: no calibration for %s: %s", self._device, state.target.device_class, error)
        else:
            self.trouble = ""
        finally:
            state.checked = self._clock()

    def _calibrate(self, state: _State) -> None:
        """Take everything; where only its limits are in doubt, those alone are replaced."""
        narrow = self._builders.call("narrow_peaks", state.target.to_json(), timeout=BUILD_SECONDS)
        threads, old = state.target.num_cores, state.stored
        kernels: list[calibration_kernels.Kernel] = [
            *calibration_kernels.peaks(threads),
            calibration_kernels.uncached_read(threads),
            *narrow.values(),
        ]
        rates, medians = self._rates(state, kernels)
        *peaks, bandwidth = rates[: len(rates) - len(narrow)]
        of_narrow = dict(zip(narrow, rates[len(rates) - len(narrow) :], strict=True))
        before = old.narrow_flops if old else {}
        # What a device could once do it can do.
        fresh = Stored(
            about=state.about,
            peak_flops=max(*peaks, old.peak_flops if old else 0.0),
            narrow_flops={name: max(rate, before.get(name, 0.0)) for name, rate in of_narrow.items()},
            bandwidth=max(bandwidth, old.bandwidth if old else 0.0),
            reference_seconds=statistics.median(medians),
            medians=medians[FIRST_MEDIANS - 1 :: FIRST_MEDIANS],
            looks=0,
        )
        if old is not None and state.doubted:
            own = {"reference_seconds": old.reference_seconds, "medians": old.medians, "looks": old.looks}
            fresh = fresh.model_copy(update=own)
        else:
            state.drifts, state.quarantined = [], None
        state.stored, state.doubted = fresh, False
        self._publish(state, fresh, fresh.reference_seconds)

    def _rates(self, state: _State, kernels: Sequence[calibration_kernels.Kernel]) -> tuple[list[float], list[float]]:
        """Best rates of kernels in FLOP/s or bytes/s, and medians of the calibration kernel in seconds."""
        built = [self._build(state, kernel, f"limit{index}") for index, kernel in enumerate(kernels)]
        own, medians, rates = self._kernel(state), list[float](), list[list[float]]()
        with self._held(state):
            for kernel, library in zip(kernels, built, strict=True):
                # Between the others, the medians are as far apart as they can be here.
                medians += [statistics.median(self._time(own, CHECK)) for _ in range(FIRST_MEDIANS)]
                rates.append([self._rate(kernel, library)])
            for _ in range(MOST_PASSES - 1):
                for kernel, library, found in zip(kernels, built, rates, strict=True):
                    if not _agree(found):
                        found.append(self._rate(kernel, library))
        for library in built:
            if library.path is not None:
                library.path.unlink(missing_ok=True)
        return [max(found) for found in rates], medians

    def _rate(self, kernel: calibration_kernels.Kernel, library: Built) -> float:
        """FLOP/s or bytes/s of a kernel's fastest sample."""
        return kernel.work / min(self._time(library, SHORT_SAMPLES))

    def _check(self, state: _State, stored: Stored) -> None:
        own = self._kernel(state)
        with self._held(state):
            latest = statistics.median(self._time(own, CHECK))
        state.drifts = [*state.drifts, latest / stored.reference_seconds][-self._rules.checks :]
        if not drift.suspicious(state.drifts, self._rules):  # what is not measured with is not its noise either
            medians = [*stored.medians, latest][-REMEMBERED:]
            stored = state.stored = stored.model_copy(update={"medians": medians, "looks": stored.looks + 1})
        if self._publish(state, stored, latest) is not DeviceHealth.QUARANTINED:
            state.quarantined = None
        elif state.quarantined is None:
            state.quarantined = self._clock()
        elif self._clock() - state.quarantined >= self._rules.patience:
            log.warning("%s stays %.2f times slower; this becomes its reference", self._device, state.drifts[-1])
            self._calibrate(state)
        if drift.lastingly_faster(state.drifts, self._noise_before(state, stored), self._rules):
            log.info("%s is faster than its reference, which is taken anew", self._device)
            self._calibrate(state)

    def _noise_before(self, state: _State, stored: Stored) -> float:
        """The noise floor without the newest checks: what they may be must not excuse them."""
        settled = stored.medians[: len(stored.medians) - len(state.drifts)]
        return drift.noise_floor(settled if len(settled) > 1 else stored.medians)

    def _publish(self, state: _State, stored: Stored, latest: float) -> DeviceHealth:
        health = drift.judge(state.drifts, self._noise_before(state, stored), self._rules)
        latest = told_latency(latest, stored.reference_seconds)
        calibration = Calibration(
            peak_flops=stored.peak_flops,
            narrow_flops=stored.narrow_flops,
            bandwidth=stored.bandwidth,
            noise_floor=drift.stated_noise(stored.medians, stored.looks),
            reference_seconds=stored.reference_seconds,
            latest_seconds=latest,
            measured_at=dt.datetime.now(dt.timezone.utc).isoformat(timespec="seconds"),
            drift=latest / stored.reference_seconds,
            cache_sizes=core_caches(),
        )
        before = self._known_of(state.target)[0]
        if health is not before:
            log.warning("%s was %s and is %s: drift %.2f", self._device, before.value, health.value, calibration.drift)
        self._known[state.target.hash] = (health, calibration)
        references.save(state.path, stored)
        return health

    @contextmanager
    def _held(self, state: _State) -> Iterator[None]:
        """The device, opened for the state's target."""
        try:
            self._runner.open(state.target.to_json())
            yield
        finally:
            self._runner.release()

    def _time(self, built: Built, limits: MeasureLimits) -> tuple[float, ...]:
        """Samples of a kernel in seconds, all of them positive."""
        assert built.path is not None
        request = built.to_run(limits, default=True)
        outcome = check(self._runner.race([request], None)[0], 0.0, (), None)
        if outcome.failure is not None:
            raise _UnusableError(f"{outcome.failure.value}: {outcome.message}")
        return outcome.samples

    def _kernel(self, state: _State) -> Built:
        """The calibration kernel, built by the first who needs it."""
        if state.kernel is None:
            state.kernel = self._build(state, calibration_kernels.Reference(), "reference")
        return state.kernel

    def _build(self, state: _State, kernel: calibration_kernels.Kernel, name: str) -> Built:
        self._folder.mkdir(parents=True, exist_ok=True)
        # Another worker of the same data folder writes its own, and whoever reads finds a whole library.
        fresh, final = (self._folder / f"{state.path.stem}-{part}.so" for part in (f"{name}.{os.getpid()}", name))
        built: Built = self._builders.call("build_kernel", kernel, state.target.to_json(), fresh, timeout=BUILD_SECONDS)
        fresh.replace(final)
        return replace(built, path=final)


def _agree(rates: Sequence[float]) -> bool:
    """True when the two best rates are about equal, so that nothing disturbed both."""
    best, *others = sorted(rates, reverse=True)
    return bool(others) and best <= AGREEMENT * others[0]


class _UnusableError(Exception):
    """A calibration kernel did not run."""


def make_calibrator(
    settings: Settings, identity: DeviceIdentity, host: Host, builders: Pool, runner: Runner
) -> Calibrator:
    """The calibrator of a measure worker."""
    rules = Rules(
        interval=settings.calibration_interval,
        drifting=settings.drift_limit,
        quarantine=settings.quarantine_limit,
        patience=settings.quarantine_seconds,
    )
    device = f"{identity.name}, {host.cpu}, TVM {host.tvm}"
    folder = settings.data_dir / "calibration"
    return Calibrator(builders, runner, folder, device=device, rules=rules, enabled=not identity.simulated)
