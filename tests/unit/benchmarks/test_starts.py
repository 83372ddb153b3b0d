"""When a job's model was near its end, by latencies that were measured afterwards."""

from __future__ import annotations

import math

import pytest

from benchmarks.starts.history import Champion, History, TaskHistory, programs
from tunesmith.types import Candidate

A, B, C, D = (Candidate("s", (n,)) for n in range(4))
MEASURED = {("w", A): 3.0, ("w", B): 1.0, ("w", C): 2.0, ("v", A): 0.5, ("v", D): 0.25}
"""The job thought C of the first task faster than B."""


def task(workload: str = "w", *champions: Champion, **values: object) -> TaskHistory:
    given = {"weight": 1, "replaces": None, "default": 10.0, "given": None, **values}
    return TaskHistory(workload, champions=champions, **given)  # type: ignore[arg-type]


def test_a_task_has_its_default_schedule_until_there_is_a_champion() -> None:
    job = History(1.0, (task("w", Champion(5.0, B, 1.1), Champion(9.0, C, 0.9), weight=2), task("v", default=4.0)))
    assert job.times == [0.0, 5.0, 9.0]
    assert [job.latency(at, MEASURED, given=True) for at in (0.0, 4.9, 5.0, 9.0)] == [24.0, 24.0, 6.0, 8.0]
    assert job.end(MEASURED) == 8.0, "by what it takes, and not by what the job thought"
    assert job.reached(8.0, MEASURED, given=True) == 5.0
    assert job.reached(5.0, MEASURED, given=True) is None


def test_a_schedule_that_nobody_measured_counts_where_that_is_asked() -> None:
    job = History(1.0, (task("w", Champion(5.0, B, 1.1), given=A),))
    assert [job.latency(at, MEASURED, given=True) for at in (0.0, 5.0)] == [3.0, 1.0]
    assert [job.latency(at, MEASURED, given=False) for at in (0.0, 5.0)] == [10.0, 1.0]
    assert [job.reached(3.0, MEASURED, given=given) for given in (True, False)] == [0.0, 5.0]


@pytest.mark.parametrize(("alternative", "expected"), [(0.5, 0.25), (2.0, 1.0)])
def test_of_a_pair_the_faster_one_by_the_job_stands(alternative: float, expected: float) -> None:
    pair = (task("w", Champion(1.0, B, 1.0)), task("v", Champion(2.0, D, alternative), replaces="w", given=A))
    job = History(1.0, pair)
    assert job.latency(0.0, MEASURED, given=True) == 0.5, "the one with a schedule"
    assert job.latency(1.0, MEASURED, given=True) == 1.0, "what was measured goes before"
    assert job.end(MEASURED) == expected


def test_what_was_never_timed_is_never_near() -> None:
    assert History(1.0, (task("w", default=None),)).latency(0.0, MEASURED, given=True) == math.inf


def test_each_schedule_of_several_jobs_is_timed_once() -> None:
    one = History(1.0, (task("w", Champion(5.0, B, 1.1), given=A), task("v", given=D)))
    other = History(1.0, (task("w", Champion(2.0, A, 1.0), Champion(3.0, B, 0.9), Champion(4.0, A, 0.8)),))
    assert programs([one, other]) == {"w": [A, B], "v": [D]}
