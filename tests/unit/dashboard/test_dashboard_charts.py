"""Options of the dashboard's charts."""

from __future__ import annotations

import pytest

from services.dashboard import charts, job_curve

POINTS = [
    {"trials": 1, "seconds": 2.0, "device_seconds": 0.1, "latency": 0.2},
    {"trials": 16, "seconds": 9.0, "device_seconds": 0.5, "latency": 0.004},
]


UNTUNED = [charts.Mark("untuned", 0.232)]


@pytest.mark.parametrize(("axis", "first"), [("trials", 1), ("seconds", 2.0), ("device_seconds", 0.1)])
def test_curve_draws_milliseconds_against_every_axis(axis: str, first: float) -> None:
    options = charts.best_so_far(POINTS, axis, UNTUNED, log=True)
    series = options["series"][0]
    assert series["data"][0] == [first, 200.0]
    assert [(mark["yAxis"], mark["name"]) for mark in series["markLine"]["data"]] == [(232.0, "untuned")]
    assert options["yAxis"]["type"] == "log"
    assert options["yAxis"]["min"] <= 4.0
    assert options["yAxis"]["max"] >= 232.0


@pytest.mark.parametrize(
    ("values", "low", "high"),
    [((0.116, 30.05), 0.1, 50), ((4.0, 232.0), 2, 500), ((1.0, 1.0), 0.5, 2), ((0.09,), 0.05, 0.2)],
)
def test_log_scale_ends_on_round_numbers(values: tuple[float, ...], low: float, high: float) -> None:
    assert charts._bounds(list(values), log=True) == {"min": low, "max": high}


def test_the_part_of_the_curve_with_rough_latencies_is_drawn_apart() -> None:
    points = [{**point, "tasks_rough": rough} for point, rough in zip(POINTS, (2, 1), strict=False)] + [
        {**POINTS[-1], "tasks_rough": 0}
    ]
    solid, dotted = charts.best_so_far(points, "trials", UNTUNED, log=True)["series"]
    assert (len(solid["data"]), len(dotted["data"])) == (1, 3)
    assert dotted["lineStyle"]["type"] == "dotted"
    assert (len(solid["markLine"]["data"]), dotted["markLine"]["data"]) == (1, [])
    (none, all_rough) = charts.best_so_far(points[:2], "trials", UNTUNED, log=True)["series"]
    assert (none["data"], len(all_rough["data"]), len(all_rough["markLine"]["data"])) == ([], 2, 1)


def test_a_curve_stands_beside_other_runtimes_the_limit_and_other_jobs() -> None:
    told = {"references": [{"runtime": "torch", "seconds": 0.1}, {"runtime": "openvino", "seconds": None}]}
    marks = job_curve.marks(told, 0.232, 0.0005)
    assert [(mark.name, mark.seconds) for mark in marks] == [
        ("untuned", 0.232),
        ("torch", 0.1),
        ("limit of the machine", 0.0005),
    ]
    options = charts.best_so_far(POINTS, "trials", marks, log=True, others={"other (j2)": POINTS})
    assert [line["name"] for line in options["series"]][2:] == ["other (j2)"]
    assert options["yAxis"]["min"] <= 0.5, "the limit is inside the chart"
    assert job_curve.marks({}, None, None) == []


def test_curve_without_data_is_no_log_scale() -> None:
    options = charts.best_so_far([], "trials", (), log=True)
    assert options["yAxis"]["type"] == "value"
    assert options["series"][0]["data"] == []
