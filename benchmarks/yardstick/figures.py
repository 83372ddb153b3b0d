"""From jobs to a table. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from benchmarks.harness.report import Report, Row
from benchmarks.yardstick.measure import TunedModel

NAME = "yardstick"
SAME = "no_difference"


def report(found: Sequence[TunedModel], facts: Mapping[str, str]) -> Report:
    """A line for each model and shape."""
    ordered = sorted(found, key=lambda one: (one.model, one.shape, one.seed))
    rows = [
        _row(model, shape, list(group))
        for (model, shape), group in groupby(ordered, lambda one: (one.model, one.shape))
    ]
    same = sum(one.job.latency.verdict == SAME for one in found)
    summary = (
        "Models of one operator that computes next to nothing, tuned by a job: a search has little to gain there. "
        'A verdict is "no difference" where the interval of the speed-up contains 1, or where no schedule changed: '
        "no candidate was shown to be faster than the default schedule in turn with it. "
        f"{same} of {len(found)} jobs say so. Each cell has its jobs in the order of their seeds."
    )
    return Report.of(NAME, "Models with nothing to gain", summary, rows, facts)


def _row(model: str, shape: tuple[int, ...], group: Sequence[TunedModel]) -> Row:
    latencies = [one.job.latency for one in group]
    ratios = [one.job.reference.ratio if one.job.reference else None for one in group]
    return {
        "model": model,
        "input": "×".join(map(str, shape)),
        "no difference": f"{sum(each.verdict == SAME for each in latencies)} of {len(group)}",
        "schedules changed": ", ".join(str(each.schedules) for each in latencies),
        "times as fast as untuned": ", ".join(_figure(each.speedup) for each in latencies),
        "of onnxruntime's latency": ", ".join(map(_figure, ratios)),
    }


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"
