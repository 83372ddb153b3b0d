"""The options of the best-so-far chart. ECharts takes milliseconds here because its labels carry no unit."""

from __future__ import annotations

import math
from typing import Any

SOFT = "#8a93a3"  # readable on both backgrounds
LINE = "#6366f1"
BASE = "#d97706"

AXES = {"trials": ("Trials", "trials"), "seconds": ("Wall time (s)", "seconds")}


def best_so_far(points: list[dict[str, Any]], axis: str, untuned: float | None, *, log: bool) -> dict[str, Any]:
    """Options of the chart.

    Args:
        points: ``trials``, ``seconds``, ``latency`` (seconds) and ``tasks_rough``, in order. The part in which tasks
            count at rough latencies is drawn as a thin dotted line.
        axis: ``trials`` or ``seconds``.
        untuned: latency of the default schedules in seconds, drawn as a dashed line.
        log: logarithmic latency axis.
    """
    title, key = AXES[axis]
    drawn = [p for p in points if p.get("latency") and p.get(key) is not None]
    data = [[p[key], round(p["latency"] * 1e3, 6)] for p in drawn]
    rough = next((at for at, p in enumerate(drawn) if not p.get("tasks_rough")), len(drawn))
    values = [y for _, y in data] + ([untuned * 1e3] if untuned else [])
    text = {"color": SOFT, "fontSize": 12}
    return {
        "animation": False,
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
                "markLine": _baseline(untuned) if rough < len(data) else {"data": []},
            },
            {
                **_line("With rough latencies (ms)", data[: rough + 1] if rough else [], width=1.5, kind="dotted"),
                "markLine": {"data": []} if rough < len(data) else _baseline(untuned),
            },
        ],
    }


SERIES = ("#6366f1", "#d97706", "#0d9488", "#db2777", "#65a30d", "#0284c7")


def several(curves: dict[str, list[dict[str, Any]]], axis: str) -> dict[str, Any]:
    """Options of a chart with the best-so-far curve of several jobs, by the legend's name of each."""
    options = best_so_far([], axis, None, log=False)
    _, key = AXES[axis]
    values = [p["latency"] * 1e3 for points in curves.values() for p in points if p.get("latency")]
    options["legend"] = {"top": 0, "textStyle": {"color": SOFT}}
    options["yAxis"] |= {"type": "log" if values else "value", **(_bounds(values, log=True) if values else {})}
    options["series"] = [
        _line(
            name, [[p[key], round(p["latency"] * 1e3, 6)] for p in points if p.get("latency")], width=2, colour=colour
        )
        for (name, points), colour in zip(curves.items(), SERIES, strict=False)
    ]
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


def _baseline(untuned: float | None) -> dict[str, Any]:
    if not untuned:
        return {"data": []}
    return {
        "symbol": "none",
        "silent": True,
        "animation": False,
        "lineStyle": {"color": BASE, "type": "dashed", "width": 1.5},
        "label": {"formatter": "untuned", "position": "insideEndTop", "color": BASE, "fontSize": 12},
        "data": [{"yAxis": round(untuned * 1e3, 6)}],
    }
