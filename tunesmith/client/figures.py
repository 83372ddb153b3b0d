"""Figures of jobs, by matplotlib. Imported when one is asked for: see :mod:`tunesmith.client.frames`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from io import BytesIO
from typing import Any

from matplotlib.figure import Figure

from tunesmith.answers.curves import CurveBody

INCHES = (6.4, 3.6)
MOST_NAMED = 10
"""Tasks that a legend lists."""


class Plot(Figure):
    """A figure that notebooks draw, whether or not they set up matplotlib."""

    def _repr_png_(self) -> bytes:
        drawn = BytesIO()
        self.savefig(drawn, format="png", dpi=80)
        return drawn.getvalue()


def curve(name: str, found: CurveBody) -> Plot:
    """A model's estimated latency in milliseconds against trials, on a scale of powers."""
    figure = Plot(figsize=INCHES, layout="constrained")
    axes = figure.subplots()
    axes.step(
        [point.trials for point in found.points],
        [1e3 * point.latency for point in found.points],
        where="post",
        label="best so far",
    )
    if found.untuned is not None:
        axes.axhline(1e3 * found.untuned, color="grey", linestyle="--", label="untuned")
    axes.set(title=name, xlabel="trials", ylabel="estimated latency in ms", yscale="log")
    axes.legend()
    return figure


def trials(name: str, found: Iterable[Mapping[str, Any]]) -> Plot:
    """Latencies in milliseconds of the trials that ran, in their order, a colour for each task."""
    figure = Plot(figsize=INCHES, layout="constrained")
    axes = figure.subplots()
    tasks: dict[str, tuple[list[int], list[float]]] = {}
    for number, trial in enumerate(found, 1):
        if trial["latency"] is not None:
            places, latencies = tasks.setdefault(trial["task_name"] or str(trial["task"]), ([], []))
            places.append(number)
            latencies.append(1e3 * trial["latency"])
    for task, (places, latencies) in tasks.items():
        axes.scatter(places, latencies, s=9, label=task)
    axes.set(title=name, xlabel="trial", ylabel="latency in ms", yscale="log")
    if 0 < len(tasks) <= MOST_NAMED:
        axes.legend(fontsize="small")
    return figure
