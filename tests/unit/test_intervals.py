from __future__ import annotations

import pytest

from db.models import Record
from services.coordinator import intervals


def record(samples: list[float], confirmed: list[float] | None = None, floor: float = 0.1) -> Record:
    confirmation = {"samples": confirmed} if confirmed is not None else None
    return Record(samples=samples, confirmation=confirmation, environment={"noise_floor": floor})


def test_a_confirmation_s_samples_count_before_those_that_were_chosen_for_being_fast() -> None:
    assert intervals.of_record(record([1.0] * 3, [2.0] * 5)) == pytest.approx((1.8, 2.2))
    assert intervals.of_record(record([1.0] * 3, [])) == pytest.approx((0.9, 1.1))
    assert intervals.of_record(record([1.0] * 3)) == pytest.approx((0.9, 1.1))


def test_a_latency_freed_of_drift_keeps_its_relative_width() -> None:
    assert intervals.around(1.0, record([2.0] * 3)) == pytest.approx((0.9, 1.1))


def test_a_failure_has_none() -> None:
    assert intervals.of_record(record([])) is None
    assert intervals.around(1.0, record([])) is None
