"""Figures of answers beside searches, and which jobs are run for them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from benchmarks.answers import study
from benchmarks.answers.study import STATIC, Answered, Draw
from tunesmith.targets import Target

DRAW = Draw(count=2, seed=3, trials=8)


def test_an_answer_that_is_missing_or_failed_does_not_count() -> None:
    found = [
        Answered("a", 1e-3, {STATIC: 2e-3, "estimated": 1e-3}),
        Answered("b", 1e-3, {STATIC: 8e-3, "estimated": 1.09e-3, "rescaled": 4e-3}),
        Answered("c", 1e-3, {STATIC: math.inf, "estimated": 2e-3}),
    ]
    assert [each.ratio(STATIC) for each in found] == [2.0, 8.0, None]
    assert [each.ratio("rescaled") for each in found] == [None, 4.0, None]
    report = study.report(found, DRAW, {})
    rows = {row[0]: dict(zip(report.columns, row, strict=True)) for row in report.rows}
    assert list(rows) == [STATIC, "estimated", "rescaled"]
    assert (rows[STATIC]["operators"], rows[STATIC]["ratio"], rows[STATIC]["worst"]) == (2, 4.0, 8.0)
    assert [row["near, %"] for row in rows.values()] == [0, 67, 0], "1 and 1.09 are within a tenth, 2 is not"
    assert "rescaled 4.00" in study.line(found[1])
    assert "estimated 1.00" in study.line(found[0])


def test_a_way_that_always_failed_has_a_row_without_figures() -> None:
    report = study.report([Answered("a", 1e-3, {"estimated": 2e-3, "rescaled": math.inf})], DRAW, {})
    rows = {row[0]: row[1:] for row in report.rows}
    assert rows["rescaled"] == (0, None, None, None, None, None)
    assert rows["estimated"][0] == 1


class Jobs:
    """A client whose jobs are over at once; each has a failure, the default schedule and four candidates."""

    def __init__(self) -> None:
        self.open, self.most = set[str](), 0
        self.asked: list[Mapping[str, Any]] = []

    def submit(self, **asked: Any) -> SimpleNamespace:
        self.asked.append(asked)
        self.open.add(asked["operator"])
        self.most = max(self.most, len(self.open))
        return SimpleNamespace(id=asked["operator"])

    def wait(self, job: str, timeout: float, poll: float = 0.0) -> None:
        assert timeout > 0
        self.open.discard(job)

    def trials(self, job: str) -> list[dict[str, Any]]:
        latencies = [None, 1e-3, 4e-3, 2e-3, 5e-3, 3e-3]
        return [
            {"workload": job, "sketch": "s" if number != 1 else None, "decisions": [number], "latency": latency}
            for number, latency in enumerate(latencies)
        ]


def test_few_searches_are_under_way_at_a_time_and_the_fastest_three_of_each_count() -> None:
    jobs, said = Jobs(), list[str]()
    specs = [f"gemm:{n}x16x16" for n in range(16, 144, 16)]
    found = study._searched(jobs, specs, Target({"kind": "llvm"}), DRAW, said.append)  # type: ignore[arg-type]
    assert list(found) == specs
    assert all([each.decisions for each in fastest] == [(3,), (5,), (2,)] for fastest in found.values())
    assert (jobs.most, jobs.open) == (study.AT_ONCE, set())
    for asked in jobs.asked[1:]:  # the first one warms up
        assert (asked["trials"], asked["seed"], asked["warm_start"], asked["fast_math"]) == (8, 3, False, False)
    assert said[-1] == "8 of 8 operators tuned"
