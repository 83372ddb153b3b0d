from __future__ import annotations

from db.queries.measured import MeasuredCandidate
from tunesmith.types import Candidate
from workers.core.labelled import replaced


def row(number: int, latency: float | None, content: str | None) -> MeasuredCandidate:
    return MeasuredCandidate(number, "workload", Candidate("sketch", (number,)), latency, (1.0, 2.0), content)


def test_a_second_measurement_takes_the_place_of_the_first() -> None:
    (found,) = replaced([row(1, 3.0, "a")], {"a": 2.0})
    assert (found.latency, found.samples, found.candidate.decisions) == (2.0, (), (1,))


def test_what_was_not_measured_again_is_left_out_and_failures_stay() -> None:
    rows = [row(1, 3.0, "a"), row(2, None, "b"), row(3, 4.0, "c"), row(4, 5.0, None)]
    assert [(each.id, each.latency) for each in replaced(rows, {"c": 1.0})] == [(2, None), (3, 1.0)]
