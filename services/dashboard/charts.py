"""The options of the best-so-far chart. ECharts takes milliseconds here because its labels carry no unit."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

SOFT = "#8a93a3"  # readable on both backgrounds
LINE = "#6366f1"
BASE = "#d97706"
LEAST = "#dc2626"

AXES = {
    "trials": ("Trials", "trials"),
    "seconds": ("Wall time (s)", "seconds"),
    "device_seconds": ("Device time (s)", "device_seconds"),
}
CHOICES = {"trials": "Trials", "seconds": "Wall time", "device_seconds": "Device time"}
"""What the switch of the horizontal axis says."""


class Mark(NamedTuple):
    """A latency in seconds that a line across the chart stands for."""

    name: str
    seconds: float
    colour: str = BASE


def best_so_far(
    points: list[dict[str, Any]],
    axis: str,
    marks: Sequence[Mark],
    *,
    log: bool,
    others: Mapping[str, list[dict[str, Any]]] | None = None,
) -> dict[str, Any]:
    """Options of the chart.

    Args:
        points: ``trials``, ``seconds``, ``device_seconds``, ``latency`` (seconds) and ``tasks_rough``, in order. The
            part in which tasks count at rough latencies is drawn as a thin dotted line.
        axis: one of ``AXES``.
        marks: drawn as dashed lines.
        log: logarithmic latency axis.
        others: points of other jobs by what the legend calls them.
    """
    title, key = AXES[axis]
    drawn = [p for p in points if p.get("latency") and p.get(key) is not None]
    data = _pairs(drawn, key)
    rough = next((at for at, p in enumerate(drawn) if not p.get("tasks_rough")), len(drawn))
    more = {name: _pairs(found, key) for name, found in (others or {}).items()}
    values = [y for pairs in (data, *more.values()) for _, y in pairs] + [mark.seconds * 1e3 for mark in marks]
    text = {"color": SOFT, "fontSize": 12}
    return {
        "animation": False,
        "legend": {"show": bool(more), "top": 0, "textStyle": {"color": SOFT}, "type": "scroll"},
        "grid": {"left": 64, "right": 24, "top": 36, "bottom": 46},
        "tooltip": {"trigger": "axis", "axisPointer": {"type": "line"}},
        "xAxis": {
            "type": "value",
            "name": title,
            "nameLocation": "middle",
            "nameGap": 28,
            "nameTextStyle": text,
            "axisLabel": text,
            "axisLine": {"lineStyle": {"color": SOFT}},
            "splitLine": {"show": False},
            "min": 0,
        },
        "yAxis": {
            "type": "log" if log and values else "value",
            "name": "Latency (ms)",
            "nameTextStyle": text,
            "axisLabel": text,
            "splitLine": {"lineStyle": {"color": SOFT, "opacity": 0.22}},
            **(_bounds(values, log=log) if values else {}),
        },
        "series": [
            {
                **_line("Best so far (ms)", data[rough:]),
                "areaStyle": {"color": LINE, "opacity": 0.08},
                "markLine": _across(marks) if rough < len(data) else {"data": []},
            },
            {
                **_line("With rough latencies (ms)", data[: rough + 1] if rough else [], width=1.5, kind="dotted"),
                "markLine": {"data": []} if rough < len(data) else _across(marks),
            },
            *_several(more, SERIES[1:]),
        ],
    }


SERIES = ("#6366f1", "#d97706", "#0d9488", "#db2777", "#65a30d", "#0284c7")


def several(curves: dict[str, list[dict[str, Any]]], axis: str) -> dict[str, Any]:
    """Options of a chart with the best-so-far curve of several jobs, by the legend's name of each."""
    options = best_so_far([], axis, (), log=True, others=curves)
    options["series"] = options["series"][2:]
    options["grid"] = {**options["grid"], "top": 64}  # the axis has its name between the legend and the lines
    for line, colour in zip(options["series"], SERIES, strict=False):
        line["lineStyle"]["color"] = line["itemStyle"]["color"] = colour
    return options


def samples(values: list[float], interval: Any) -> dict[str, Any]:
    """Options of the chart of a trial's samples, in the order in which they were taken.

    Args:
        values: latencies in seconds.
        interval: bounds of the median in seconds; None without.
    """
    text = {"color": SOFT, "fontSize": 12}
    data = [[number, round(value * 1e3, 6)] for number, value in enumerate(values, 1)]
    band = [] if not interval else [[{"yAxis": round(interval[0] * 1e3, 6)}, {"yAxis": round(interval[1] * 1e3, 6)}]]
    return {
        "animation": False,
        "grid": {"left": 64, "right": 24, "top": 36, "bottom": 46},
        "tooltip": {"trigger": "item"},
        "xAxis": {
            "type": "value",
            "name": "Sample",
            "nameLocation": "middle",
            "nameGap": 28,
            "minInterval": 1,
            "nameTextStyle": text,
            "axisLabel": text,
            "splitLine": {"show": False},
        },
        "yAxis": {
            "type": "value",
            "scale": True,
            "name": "Latency (ms)",
            "nameTextStyle": text,
            "axisLabel": text,
            "splitLine": {"lineStyle": {"color": SOFT, "opacity": 0.22}},
        },
        "series": [
            {
                "type": "scatter",
                "data": data,
                "itemStyle": {"color": LINE},
                "markArea": {"silent": True, "itemStyle": {"color": LINE, "opacity": 0.12}, "data": band},
            }
        ],
    }


def _pairs(points: list[dict[str, Any]], key: str) -> list[list[Any]]:
    return [[p[key], round(p["latency"] * 1e3, 6)] for p in points if p.get("latency") and p.get(key) is not None]


def _several(lines: Mapping[str, list[list[Any]]], colours: Sequence[str]) -> list[dict[str, Any]]:
    return [
        _line(name, data, width=2, colour=colours[number % len(colours)])
        for number, (name, data) in enumerate(lines.items())
    ]


def _line(
    name: str, data: list[list[Any]], *, width: float = 2.5, kind: str = "solid", colour: str = LINE
) -> dict[str, Any]:
    return {
        "name": name,
        "type": "line",
        "step": "end",
        "showSymbol": len(data) < 2,
        "symbolSize": 7,
        "data": data,
        "lineStyle": {"width": width, "color": colour, "type": kind},
        "itemStyle": {"color": colour},
    }


def _bounds(values: list[float], *, log: bool) -> dict[str, float]:
    """Limits that leave air above and below, on the series 1, 2, 5 so that their labels keep clear of the decades'."""
    if not log:
        return {"min": 0}
    low, high = min(values) / 1.15, max(values) * 1.15
    below = [number for number in _round_numbers(low) if number <= low]
    above = [number for number in _round_numbers(high) if number >= high]
    return {"min": max(below), "max": min(above)}


def _round_numbers(near: float) -> list[float]:
    decade = math.floor(math.log10(near))
    return [float(f"{n}e{decade + shift}") for shift in (-1, 0, 1) for n in (1, 2, 5)]


def _across(marks: Sequence[Mark]) -> dict[str, Any]:
    """Dashed lines with their names; the names are at both ends in turn, where two lines may be close."""
    return {
        "symbol": "none",
        "silent": True,
        "animation": False,
        "lineStyle": {"type": "dashed", "width": 1.5},
        "data": [
            {
                "yAxis": round(mark.seconds * 1e3, 6),
                "name": mark.name,
                "lineStyle": {"color": mark.colour},
                "label": {
                    "formatter": mark.name,
                    "position": "insideStartTop" if number % 2 else "insideEndTop",
                    "color": mark.colour,
                    "fontSize": 12,
                },
            }
            for number, mark in enumerate(marks)
        ],
    }
