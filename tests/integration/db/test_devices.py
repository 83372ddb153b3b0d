"""Devices, their classes and their calibration in the database."""

from __future__ import annotations

import datetime as dt

import pytest

from db.engine import Sessions
from db.models.base import utcnow
from db.queries import device_times, devices, event_log
from db.transactions import device_reports, enrolment
from tunesmith.messages import Calibration, DeviceReport
from tunesmith.types import DeviceHealth

pytestmark = pytest.mark.parallel
FOUND = Calibration(
    peak_flops=1e11,
    bandwidth=1e10,
    noise_floor=0.02,
    reference_seconds=1e-3,
    latest_seconds=1e-3,
    measured_at="",
    drift=1.0,
)


def test_short_names_mean_real_devices(sessions: Sessions) -> None:
    target = {"kind": "cuda", "arch": "sm_90a"}
    for name, simulated in (("desk/simulated", True), ("box/gpu", False)):
        with sessions.begin() as session:
            assert devices.targets_of_kind(session, 15.0, "cuda") == []
            report = DeviceReport(
                worker="w",
                name=name,
                host="h",
                device_classes=["cuda-sm_90a"],
                target=target,
                cores=1,
                simulated=simulated,
            )
            device_reports.store(session, report, 15.0)
    with sessions() as session:
        assert devices.targets_of_kind(session, 15.0, "cuda") == [target]
        assert devices.targets_of_kind(session, 15.0, "llvm") == []


def test_devices_come_and_go(sessions: Sessions) -> None:
    now = utcnow()
    message = DeviceReport(
        worker="w", name="host/cpu", host="host", device_classes=["llvm-x-1", "llvm-x-2"], target={}, cores=2
    )
    with sessions.begin() as session:
        device_reports.store(session, message, 15, now)
        device_reports.store(session, message, 15, now)
        assert [d.name for d in devices.live(session, 15, now, "llvm-x-2")] == ["host/cpu"]
        assert devices.live(session, 15, now, "llvm-x-3") == []
        later = now + dt.timedelta(seconds=16)
        assert devices.live(session, 15, later) == []
        device_reports.store(session, message, 15, later)
        device_reports.store(session, message.model_copy(update={"stopping": True}), 15, later)
        assert devices.live(session, 15, later) == []
    with sessions() as session:
        assert [event.kind for event in event_log.page(session)] == ["device_joined", "device_joined", "device_left"]


def test_the_calibration_of_a_class_is_that_of_its_real_device_seen_last(sessions: Sessions) -> None:
    now = utcnow()
    found = FOUND.model_copy(update={"cache_sizes": (32768,)})
    reports = [("old", 2e11, False), ("new", 3e11, False), ("simulated", 4e11, True), ("other", 5e11, False)]
    with sessions.begin() as session:
        assert devices.calibration(session, "llvm-x-2") is None
        for age, (name, peak, simulated) in enumerate(reports):
            device_reports.store(
                session,
                DeviceReport(
                    worker="w",
                    name=name,
                    host="h",
                    device_classes=["llvm-y-2" if name == "other" else "llvm-x-2"],
                    target={},
                    cores=2,
                    simulated=simulated,
                    calibration=found.model_copy(update={"peak_flops": peak}),
                ),
                15,
                now + dt.timedelta(seconds=age),
            )
    with sessions() as session:
        stored = devices.calibration(session, "llvm-x-2")
        assert Calibration.model_validate(stored) == found.model_copy(update={"peak_flops": 3e11})


def test_a_device_has_a_history_of_noise_drift_and_use(sessions: Sessions) -> None:
    begin = device_times.step_of(utcnow())
    report = DeviceReport(worker="w", name="h/cpu", host="h", device_classes=["llvm-x-2"], target={}, cores=2)

    def told(seconds: float, **values: object) -> None:
        with sessions.begin() as session:
            now = begin + dt.timedelta(seconds=seconds)
            device_reports.store(session, report.model_copy(update=values), 100.0, now)

    told(10, busy=True)
    told(70, busy=False, calibration=FOUND)  # sixty seconds of work
    told(100, busy=True, calibration=FOUND.model_copy(update={"noise_floor": 0.05}))  # thirty without
    told(1000, busy=False)  # it was away: nobody knows what it did
    told(1060, health=DeviceHealth.DRIFTING, calibration=FOUND.model_copy(update={"drift": 1.4}))
    with sessions() as session:
        first, second = device_times.of_device(session, "h/cpu", begin - dt.timedelta(seconds=1))
        assert (first.start, first.seen, first.busy) == (begin, 90.0, 60.0)
        assert (first.noise_floor, first.drift, first.health) == (0.05, 1.0, "ok")
        assert (second.start, second.seen, second.busy) == (begin + device_times.STEP, 60.0, 0.0)
        assert (second.drift, second.health) == (1.4, "drifting")
        assert device_times.utilisation(session, begin + dt.timedelta(seconds=1100)) == {"h/cpu": 60.0 / 150.0}
    told(device_times.KEPT.total_seconds() + 1000)
    with sessions() as session:
        kept = device_times.of_device(session, "h/cpu", begin - dt.timedelta(seconds=1))
        assert [row.start - begin for row in kept] == [device_times.KEPT + device_times.STEP], "older steps are dropped"


def test_a_worker_that_two_coordinators_let_in_at_once_is_enrolled_once(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    with sessions.begin() as session:
        first, new = enrolment.enrol(session, "w", "key", "one", (), "settings")
        assert (first.name, new) == ("one", True)
    # The other one looked before that was written.
    monkeypatch.setattr("db.queries.by_key.get", lambda *_: None)
    with sessions.begin() as session:
        second, new = enrolment.enrol(session, "w", "key", "two", (), "settings")
        assert (second.name, new) == ("one", False)
