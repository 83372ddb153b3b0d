"""Options of the charts of a task's analysis. Latencies are in milliseconds, because labels carry no unit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from services.dashboard.charts import BASE, LINE, SOFT

TEXT = {"color": SOFT, "fontSize": 12}
COLOURS = ["#0d9488", "#6366f1", "#d97706", "#dc2626"]
"""From fast to slow, or from early to late."""
MOST_AXES = 10
"""Knobs of the parallel coordinates: more cannot be told apart."""


def predicted(points: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Scores of the cost model against latencies; the colour is the round."""
    data = [[p["score"], _ms(p["latency"]), p["round"], p["trial"]] for p in points if p["score"] is not None]
    rounds = [row[2] for row in data if row[2] is not None]
    options = _scatter("Score of the cost model", data)
    options["visualMap"] = {
        "dimension": 2,
        "min": min(rounds, default=0),
        "max": max(rounds, default=1),
        "text": ["late round", "early round"],
        **_scale(),
    }
    return options


def ranking(rounds: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """How much of each round the cost model had in the right order."""
    pairs = [[each["round"], round(100 * each["pairwise"], 1)] for each in rounds if each["pairwise"] is not None]
    best = [[each["round"], round(100 * each["top1"], 1)] for each in rounds if each["top1"] is not None]
    return {
        "animation": False,
        "legend": {"top": 0, "textStyle": {"color": SOFT}},
        "grid": {"left": 56, "right": 24, "top": 36, "bottom": 46},
        "tooltip": {"trigger": "axis"},
        "xAxis": _axis("Round", {"minInterval": 1, "scale": True}),
        "yAxis": {**_axis("%"), "nameLocation": "end", "nameGap": 15, "min": 0, "max": 100},
        "series": [
            _points_and_line("Pairs in the right order (%)", pairs, LINE),
            _points_and_line("Best latency over that of the best score (%)", best, BASE),
        ],
    }


def importance(knobs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What each knob's value alone explains of the latency, the most important on top."""
    shown = [*knobs][: 2 * MOST_AXES][::-1]
    return {
        "animation": False,
        "grid": {"left": 12, "right": 48, "top": 8, "bottom": 28, "containLabel": True},
        "tooltip": {"trigger": "item"},
        "xAxis": {"type": "value", "min": 0, "axisLabel": {**TEXT, "formatter": "{value} %"}, "splitLine": _SOFT_LINE},
        "yAxis": {"type": "category", "data": [each["name"] for each in shown], "axisLabel": TEXT},
        "series": [
            {
                "type": "bar",
                "itemStyle": {"color": LINE},
                "data": [round(100 * each["importance"], 1) for each in shown],
                "label": {"show": True, "position": "right", "color": SOFT, "formatter": "{c} %"},
            }
        ],
    }


def parallel(knobs: Sequence[dict[str, Any]], points: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """A line for each trial through its values of the most important knobs; the last axis and the colour are the
    latency."""
    some = [p for p in points if p["values"] is not None]
    chosen = [i for i in range(len(knobs)) if len({p["values"][i] for p in some}) > 1][:MOST_AXES]
    data = [[*(p["values"][i] for i in chosen), _ms(p["latency"])] for p in some]
    slow = sorted((row[-1] for row in data), reverse=True)
    names = [knobs[i]["name"] for i in chosen]
    axes = [{"dim": at, "name": name, "scale": True} for at, name in enumerate(names)]
    return {
        "animation": False,
        "parallel": {
            "left": 40,
            "right": 90,
            "top": 90,
            "bottom": 60,
            "parallelAxisDefault": {
                "axisLabel": TEXT,
                "nameTextStyle": {**TEXT, "align": "left", "width": 110, "overflow": "truncate"},
                "nameRotate": 30,
            },
        },
        "parallelAxis": [*axes, {"dim": len(names), "name": "latency (ms)", "type": "log"}],
        "visualMap": {"dimension": len(names), "min": slow[-1] if slow else 0, "max": _slow(slow), **_scale()},
        "series": [{"type": "parallel", "lineStyle": {"width": 1, "opacity": 0.35}, "data": data}],
    }


def slices(name: str, at: int, points: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Latency by the value of one knob, which is the one at the place ``at``."""
    some = [p for p in points if p["values"] is not None]
    return _scatter(name, [[p["values"][at], _ms(p["latency"]), p["round"], p["trial"]] for p in some])


def _slow(latencies: Sequence[float]) -> float:
    """Where the colours end: few latencies are far slower than the others, and would make those look alike."""
    return latencies[len(latencies) // 10] if latencies else 1.0


def _scatter(name: str, data: list[list[Any]]) -> dict[str, Any]:
    return {
        "animation": False,
        "grid": {"left": 64, "right": 90, "top": 30, "bottom": 46},
        "tooltip": {"trigger": "item"},
        "dataset": {"source": data, "dimensions": [name, "latency (ms)", "round", "trial"], "sourceHeader": False},
        "xAxis": _axis(name, {"scale": True}),
        "yAxis": {
            **_axis("Latency (ms)"),
            "nameLocation": "end",
            "nameGap": 15,
            "type": "log" if data else "value",
            "splitLine": _SOFT_LINE,
        },
        "series": [
            {
                "type": "scatter",
                "symbolSize": 6,
                "itemStyle": {"color": LINE, "opacity": 0.7},
                "encode": {"x": 0, "y": 1, "tooltip": [0, 1, 2, 3]},
            }
        ],
    }


_SOFT_LINE = {"lineStyle": {"color": SOFT, "opacity": 0.22}}


def _axis(name: str, more: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "type": "value",
        "name": name,
        "nameLocation": "middle",
        "nameGap": 28,
        "nameTextStyle": TEXT,
        "axisLabel": TEXT,
        "splitLine": {"show": False},
        **(more or {}),
    }


def _points_and_line(name: str, data: list[list[Any]], colour: str) -> dict[str, Any]:
    return {
        "name": name,
        "type": "line",
        "symbolSize": 5,
        "data": data,
        "lineStyle": {"width": 1.5, "color": colour},
        "itemStyle": {"color": colour},
    }


def _scale() -> dict[str, Any]:
    return {
        "type": "continuous",
        "right": 0,
        "top": "middle",
        "itemHeight": 120,
        "precision": 3,
        "textStyle": TEXT,
        "inRange": {"color": COLOURS},
    }


def _ms(seconds: float) -> float:
    return float(f"{seconds * 1e3:.5g}")
