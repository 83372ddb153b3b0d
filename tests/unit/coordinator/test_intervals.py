from __future__ import annotations

import pytest

from db.models import JobTask, Record, Schedule
from services.coordinator import best, champions, intervals


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


def test_the_log_has_the_latency_of_the_page() -> None:
    """A champion's is freed of the device's drift, and its samples with it."""
    found = best._latency(record([4.0] * 3, [2.0, 2.0, 2.2]), 1.0)
    assert found is not None
    assert (found["median"], found["samples"]) == (1.0, pytest.approx([1.0, 1.0, 1.1]))
    assert found["interval"] == pytest.approx(intervals.around(1.0, record([4.0] * 3, [2.0, 2.0, 2.2])))
    default = best._latency(record([4.0] * 3), None)
    assert default is not None
    assert default["median"] == 4.0


@pytest.mark.parametrize("alternative_of", [None, "direct"])
@pytest.mark.parametrize(("untuned", "kept"), [(None, True), (2.0, True), (1.0, False), (0.5, False)])
def test_a_schedule_that_does_not_beat_its_own_default_is_not_used(
    untuned: float | None, kept: bool, alternative_of: str | None
) -> None:
    task = JobTask(workload_hash="w", untuned_seconds=untuned, alternative_of=alternative_of)
    champion = Schedule(workload_hash="w", latency=1.0)
    assert champions._better(task, {"w": champion}) is (champion if kept else None)
