"""A device's calibration on a scripted device: what is taken when, what drift means, what outlives the worker."""

from __future__ import annotations

from pathlib import Path

import pytest
from scripted_device import RULES, TARGET, Builders, Device, calibrator

from tunesmith.errors import DeviceLost
from tunesmith.measuring.plausibility import MOST_NOISE, impossible_calibration
from tunesmith.messages import MeasureLimits
from tunesmith.types import DeviceHealth, FailureKind
from workers.measure.calibration import CHECK, Calibrator
from workers.measure.drift import (
    EARLY_LOOKS,
    EARLY_NOISE,
    LEAST_NOISE,
    Rules,
    judge,
    lastingly_faster,
    noise_floor,
    pause,
    stated_noise,
)
from workers.tvm_backend.build import calibration_kernels

OK, DRIFTING, QUARANTINED = DeviceHealth.OK, DeviceHealth.DRIFTING, DeviceHealth.QUARANTINED


def looked(made: Calibrator, device: Device, *slowness: float) -> list[DeviceHealth]:
    """The health after each check, a check for each slowness."""
    found = []
    for factor in slowness:
        device.slowness, device.now = [factor], device.now + 30.0
        made.refresh(TARGET)
        found.append(made.health(TARGET))
    return found


def test_first_use_takes_peak_bandwidth_reference_and_noise(tmp_path: Path) -> None:
    device = Device()
    made = calibrator(device, tmp_path, Builders(narrow=True))
    assert (made.calibration(TARGET), made.current()) == (None, (OK, None))
    made.refresh(TARGET)
    found = made.calibration(TARGET)
    assert found is not None
    assert (found.peak_flops, found.bandwidth) == (pytest.approx(1e9), pytest.approx(1e9))
    assert found.narrow_flops == {"bf16": pytest.approx(1e9)}
    assert impossible_calibration(found, "llvm", 2) is None
    for wrong in ({"bf16": 1e15}, {"bf17": 1e9}, {"bf16": 0.0}):
        forged = found.model_copy(update={"narrow_flops": wrong})
        assert "narrow_flops" in str(impossible_calibration(forged, "llvm", 2))
    assert found.reference_seconds == found.latest_seconds == pytest.approx(calibration_kernels.Reference().work / 1e9)
    assert (found.drift, found.noise_floor, made.health(TARGET)) == (1.0, EARLY_NOISE, OK)
    assert made.current() == (OK, found)
    assert not device.held
    assert [path.name.partition("-")[2] for path in tmp_path.glob("*.so")] == ["reference.so"]


@pytest.mark.parametrize("still", range(8))
def test_a_machine_that_stands_still_while_its_device_is_calibrated_is_believed(tmp_path: Path, still: int) -> None:
    device = Device([*([1.0] * still), 3000.0, 1.0])
    made = calibrator(device, tmp_path)
    made.refresh(TARGET)
    found = made.calibration(TARGET)
    assert found is not None
    assert impossible_calibration(found, "llvm", 2) is None
    assert found.noise_floor <= MOST_NOISE


@pytest.mark.parametrize("slowness", [3000.0, 1e-3])
def test_a_machine_that_stands_still_at_a_check_is_believed(tmp_path: Path, slowness: float) -> None:
    device = Device()
    made = calibrator(device, tmp_path)
    made.refresh(TARGET)
    looked(made, device, slowness)
    found = made.calibration(TARGET)
    assert found is not None
    assert impossible_calibration(found, "llvm", 2) is None


def test_a_check_is_the_kernel_alone_and_only_when_it_is_due(tmp_path: Path) -> None:
    device, builders = Device(), Builders()
    made = calibrator(device, tmp_path, builders)
    made.refresh(TARGET)
    kernels, device.runs = len(builders.built), []
    made.refresh(TARGET)
    assert device.runs == []
    looks = 0
    for wait in (*[3] * EARLY_LOOKS, 30, 30):
        device.now += wait - 0.1
        made.refresh(TARGET)
        assert len(device.runs) == looks
        device.now, looks = device.now + 0.2, looks + 1
        made.refresh(TARGET)
        assert device.runs == [calibration_kernels.Reference().work] * looks
    assert len(builders.built) == kernels


def test_the_noise_floor_is_not_low_before_the_device_was_watched_for_a_while(tmp_path: Path) -> None:
    device = Device()
    made = calibrator(device, tmp_path)
    made.refresh(TARGET)
    stated = []
    for slowness in (1.0, 1.09, 1.0, 1.01, 1.0, 1.0, *[1.0] * 40):
        looked(made, device, slowness)
        found = made.calibration(TARGET)
        assert found is not None
        stated.append(found.noise_floor)
    assert stated[0] == EARLY_NOISE
    assert stated[1 : EARLY_LOOKS - 1] == pytest.approx([0.09] * (EARLY_LOOKS - 2)), (
        "more than that is believed at once"
    )
    assert stated[-1] == LEAST_NOISE
    repeated = calibrator(device, tmp_path)
    repeated.refresh(TARGET)
    found = repeated.calibration(TARGET)
    assert found is not None
    assert found.noise_floor == LEAST_NOISE, "a worker that starts anew knows the device"


def test_medians_taken_in_a_row_count_once(tmp_path: Path) -> None:
    """Three in a row and then a slow phase: of nine medians six would be equal to their neighbours."""
    own, *others = [1.0] * 3, [1.0], [1.3] * 3, [1.0], [1.3] * 3, [1.0]
    device = Device(slowness=[*own, *(factor for part in others for factor in part)])
    made = calibrator(device, tmp_path)
    made.refresh(TARGET)
    found = made.calibration(TARGET)
    assert found is not None
    assert found.noise_floor == pytest.approx(0.3)
    assert found.reference_seconds == pytest.approx(1.3 * calibration_kernels.Reference().work / 1e9), (
        "the median of all nine"
    )
    assert '"looks":0' in next(tmp_path.glob("*.json")).read_text()


def test_the_kernel_is_sampled_as_a_candidate_whose_samples_agree() -> None:
    usual = MeasureLimits()
    assert (CHECK.min_repeats, CHECK.repeats) == (usual.min_repeats, usual.min_repeats)
    assert CHECK.min_repeat_seconds == usual.min_repeat_seconds


def test_drift_is_seen_and_forgiven(tmp_path: Path) -> None:
    device = Device()
    made = calibrator(device, tmp_path)
    made.refresh(TARGET)
    assert looked(made, device, 1.05, 1.2, 1.0) == [OK, DRIFTING, OK]
    found = made.calibration(TARGET)
    assert found is not None
    assert found.drift == pytest.approx(1.0)


def test_three_slow_checks_are_a_quarantine_and_one_good_one_ends_it(tmp_path: Path) -> None:
    device = Device()
    made = calibrator(device, tmp_path)
    made.refresh(TARGET)
    assert looked(made, device, 1.8, 1.8, 1.0, 1.8, 1.8) == [DRIFTING, DRIFTING, OK, DRIFTING, DRIFTING]
    assert looked(made, device, 1.8) == [QUARANTINED]
    device.slowness = [1.8, 1.7, 1.0]
    assert made.wait_until_healthy(100.0)
    assert made.health(TARGET) is OK
    assert device.slowness == [1.0]


def test_a_suspicious_device_is_looked_at_sooner(tmp_path: Path) -> None:
    device = Device()
    made = calibrator(device, tmp_path)
    made.refresh(TARGET)
    looked(made, device, 1.8)
    made.refresh(TARGET)
    made.refresh(TARGET)
    assert made.health(TARGET) is QUARANTINED


def test_waiting_for_a_slow_device_has_a_limit(tmp_path: Path) -> None:
    device = Device()
    made = calibrator(device, tmp_path)
    assert made.wait_until_healthy(0.0)
    made.refresh(TARGET)
    looked(made, device, 2.0, 2.0, 2.0)
    before = device.now
    assert not made.wait_until_healthy(10.0)
    assert device.now - before == pytest.approx(10.0, abs=1.0)
    assert made.health(TARGET) is DRIFTING  # so that work comes, and with it the next look
    assert looked(made, device, 2.0) == [QUARANTINED]
    made.close()
    assert not made.wait_until_healthy(1e9)


def test_a_device_lost_in_quarantine_does_not_stay_there(tmp_path: Path) -> None:
    device = Device()
    made = calibrator(device, tmp_path)
    made.refresh(TARGET)
    looked(made, device, 2.0, 2.0, 2.0)
    device.lost = True
    with pytest.raises(DeviceLost):
        made.wait_until_healthy(10.0)
    assert made.health(TARGET) is DRIFTING


def test_a_device_that_stays_slow_is_compared_with_its_new_speed(tmp_path: Path) -> None:
    device = Device()
    made = calibrator(device, tmp_path)
    made.refresh(TARGET)
    assert looked(made, device, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0)[2:] == [QUARANTINED] * 4
    assert looked(made, device, 2.0, 2.0) == [OK, OK]
    found = made.calibration(TARGET)
    assert found is not None
    assert found.reference_seconds == pytest.approx(2 * calibration_kernels.Reference().work / 1e9)
    assert found.peak_flops == pytest.approx(1e9)  # it once could


def test_a_reference_from_a_busy_device_is_taken_anew(tmp_path: Path) -> None:
    device = Device(slowness=[1.5])
    made = calibrator(device, tmp_path)
    made.refresh(TARGET)
    assert looked(made, device, 1.0, 1.0, 1.0) == [DRIFTING, DRIFTING, OK]
    found = made.calibration(TARGET)
    assert found is not None
    assert (found.drift, found.peak_flops) == (pytest.approx(1.0), pytest.approx(1e9))


def test_the_reference_outlives_the_worker(tmp_path: Path) -> None:
    first = Device()
    calibrator(first, tmp_path).refresh(TARGET)
    later = Device(slowness=[1.2])
    made = calibrator(later, tmp_path)
    made.refresh(TARGET)
    assert later.runs == [calibration_kernels.Reference().work]
    assert made.health(TARGET) is DRIFTING


@pytest.mark.parametrize("spoil", ["other device", "other version", "no JSON"])
def test_a_file_of_something_else_is_passed_over(tmp_path: Path, spoil: str) -> None:
    calibrator(Device(), tmp_path).refresh(TARGET)
    (path,) = tmp_path.glob("*.json")
    if spoil == "other version":
        path.write_text(path.read_text().replace('"version":2', '"version":1'))
    elif spoil == "no JSON":
        path.write_text("{")
    device = Device()
    made = calibrator(device, tmp_path, name="another" if spoil == "other device" else "test")
    made.refresh(TARGET)
    assert len(device.runs) > 1


def test_a_kernel_that_fails_leaves_things_as_they_were(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    device, builders = Device(), Builders(broken=True)
    made = calibrator(device, tmp_path, builders)
    made.refresh(TARGET)
    assert made.current() == (OK, None)
    assert "no calibration" in caplog.text
    builders.broken, device.failure, device.now = False, FailureKind.CRASH, 40.0
    made.refresh(TARGET)
    assert (made.current(), device.held) == ((OK, None), False)
    device.failure, device.now = None, 80.0
    made.refresh(TARGET)
    known = made.current()
    assert known[1] is not None
    device.failure, device.now = FailureKind.RUN_TIMEOUT, 120.0
    made.refresh(TARGET)
    assert made.current() == known


def test_a_lost_device_is_not_a_slow_one(tmp_path: Path) -> None:
    device = Device(lost=True)
    made = calibrator(device, tmp_path)
    with pytest.raises(DeviceLost):
        made.refresh(TARGET)
    assert made.health(TARGET) is OK


def test_simulated_devices_and_other_kinds_are_left_alone(tmp_path: Path) -> None:
    device = Device()
    calibrator(device, tmp_path, enabled=False).refresh(TARGET)
    calibrator(device, tmp_path).refresh({"kind": "cuda", "arch": "sm_90a"})
    assert (device.runs, list(tmp_path.iterdir())) == ([], [])


def test_noise_floor_is_what_nineteen_of_twenty_pairs_stay_below() -> None:
    assert noise_floor([1.0, 1.0]) == LEAST_NOISE
    assert noise_floor([1.0, 1.1]) == pytest.approx(0.1)
    assert noise_floor([1.0] * 45 + [2.0]) == LEAST_NOISE
    assert noise_floor([1.0] * 20 + [1.4] * 20) == pytest.approx(0.4)


def test_the_first_looks_follow_each_other_closely() -> None:
    assert [pause(looks, Rules()) for looks in (0, EARLY_LOOKS - 1, EARLY_LOOKS, 10**6)] == [3.0, 3.0, 30.0, 30.0]
    assert pause(0, Rules(interval=1.0)) == 1.0
    assert stated_noise([1.0, 1.0], EARLY_LOOKS - 1) == EARLY_NOISE
    assert stated_noise([1.0, 1.0], EARLY_LOOKS) == LEAST_NOISE


def test_health_follows_the_newest_checks() -> None:
    assert judge([], 0.01, RULES) is OK
    assert judge([1.3], 0.5, RULES) is OK  # within its noise
    assert judge([0.7], 0.01, RULES) is DRIFTING
    assert judge([9.0, 1.6, 1.6, 1.6], 0.5, RULES) is QUARANTINED
    assert judge([1.6, 1.6, 1.6], 0.7, RULES) is OK
    assert not lastingly_faster([0.5, 0.5], 0.01, RULES)
    assert lastingly_faster([0.5, 0.5, 0.5], 0.01, RULES)
    assert not lastingly_faster([0.5, 0.5, 0.95], 0.01, RULES)
    assert not lastingly_faster([0.8, 0.8, 0.8], 20.0, RULES)
    assert lastingly_faster([0.3, 0.1, 0.6], 20.0, RULES)


def test_a_peak_that_was_taken_while_the_machine_stood_still_is_taken_again(tmp_path: Path) -> None:
    device = Device([1.0, 1.0, 1.0, 500.0, 1.0, 1.0, 1.0, 500.0, 1.0])
    made = calibrator(device, tmp_path)
    made.refresh(TARGET)
    found = made.calibration(TARGET)
    assert found is not None
    assert found.peak_flops == pytest.approx(1e9)


def test_limits_in_doubt_are_taken_again_and_the_reference_stays(tmp_path: Path) -> None:
    device, builders = Device([500.0]), Builders(narrow=True)
    made = calibrator(device, tmp_path, builders)
    made.refresh(TARGET)
    before = made.calibration(TARGET)
    assert before is not None
    assert before.peak_flops == pytest.approx(1e9 / 500)
    made.doubt_limits()
    device.slowness = [1.0]
    made.refresh(TARGET)
    after = made.calibration(TARGET)
    assert after is not None
    assert (after.peak_flops, after.bandwidth) == (pytest.approx(1e9), pytest.approx(1e9))
    assert after.narrow_flops == {"bf16": pytest.approx(1e9)}
    assert after.reference_seconds == before.reference_seconds
    device.runs = []
    device.now += 31
    made.refresh(TARGET)
    assert device.runs == [calibration_kernels.Reference().work], "the doubt is gone"
