"""What a row of calibration times says about a device: how noisy it is, and whether it can be trusted now. Pure."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from tunesmith.measuring.plausibility import MOST_NOISE
from tunesmith.types import DeviceHealth

QUANTILE = 0.95
LEAST_NOISE = 0.001
"""No clock and no machine is better than that."""
EARLY_NOISE = 0.08
"""Noise floor of a device that was looked at less than ``EARLY_LOOKS`` times, if they show no more. It is assumed: in
recorded measurements on a quiet virtual machine of 2 cores, 95 % of the differences between two medians of one
kernel, each of three samples of 5 ms in a row, were smaller."""
EARLY_LOOKS = 20
"""With the default pauses these are over after a minute of use. With fewer, a single slow phase is most of what is
known."""


@dataclass(frozen=True)
class Rules:
    """When a device is calibrated and what its drift means; seconds, and ratios of latencies.

    Attributes:
        interval: at least this long between two checks of a device in use, once it is known.
        early: the same for the first ``EARLY_LOOKS`` checks after a calibration, if that is sooner.
        retry: the same, if that is sooner, while it is so slow that it may be quarantined.
        drifting: a latency that differs from the reference by this share, and by more than the noise, is drift.
        quarantine: a latency of this many times the reference is too slow to measure with, ``checks`` times in a row.
        patience: a device that stays in quarantine for so long is what it is: its speed becomes the reference.
    """

    interval: float = 30.0
    early: float = 3.0
    retry: float = 3.0
    drifting: float = 0.1
    quarantine: float = 1.5
    checks: int = 3
    patience: float = 60.0


def noise_floor(medians: Sequence[float]) -> float:
    """The share by which two medians of one kernel, measured apart, differ nineteen times of twenty at most.

    The 0.95 quantile of ``max/min - 1`` over all pairs.

    Args:
        medians: seconds, at least two.
    """
    gaps = sorted(max(a, b) / min(a, b) - 1 for a, b in itertools.combinations(medians, 2))
    return max(LEAST_NOISE, gaps[math.ceil(QUANTILE * len(gaps)) - 1])


def stated_noise(medians: Sequence[float], looks: int) -> float:
    """``noise_floor``, ``MOST_NOISE`` at most, and ``EARLY_NOISE`` at least while the device was looked at a few times.

    Args:
        medians: as above.
        looks: how many of them were taken after the calibration, each some time after the one before.
    """
    measured = min(MOST_NOISE, noise_floor(medians))
    return measured if looks >= EARLY_LOOKS else max(EARLY_NOISE, measured)


def pause(looks: int, rules: Rules) -> float:
    """Seconds of use before the next look, after so many: often at first, because the noise floor is made of looks."""
    return min(rules.interval, rules.early) if looks < EARLY_LOOKS else rules.interval


def judge(drifts: Sequence[float], noise: float, rules: Rules) -> DeviceHealth:
    """The health that the newest drifts (latency over reference, oldest first) speak of."""
    if not drifts:
        return DeviceHealth.OK
    newest = drifts[-rules.checks :]
    # What a device did when it was calibrated is no reason: its noise floor tells what its numbers are worth.
    if len(newest) == rules.checks and min(newest) > max(rules.quarantine, 1 + noise):
        return DeviceHealth.QUARANTINED
    return DeviceHealth.DRIFTING if _beyond(drifts[-1], noise, rules) else DeviceHealth.OK


def suspicious(drifts: Sequence[float], rules: Rules) -> bool:
    """True when the newest drift, were it to last, would end in quarantine."""
    return bool(drifts) and drifts[-1] > rules.quarantine


def lastingly_faster(drifts: Sequence[float], noise: float, rules: Rules) -> bool:
    """True when the reference was taken on a busy device: the newest checks all undercut it by more than noise.

    Being faster than a quarantined device is slower is no noise, however much of it there was at first.
    """
    newest, noise = drifts[-rules.checks :], min(noise, rules.quarantine - 1)
    return len(newest) == rules.checks and max(newest) < 1 and all(_beyond(drift, noise, rules) for drift in newest)


def _beyond(drift: float, noise: float, rules: Rules) -> bool:
    return max(drift, 1 / drift) - 1 > max(noise, rules.drifting)
