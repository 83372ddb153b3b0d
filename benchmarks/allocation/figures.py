"""From courses to tables. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.allocation.hindsight import NAME as HINDSIGHT
from benchmarks.allocation.replay import ReplayedRun
from benchmarks.harness.report import Report, Row
from services.coordinator.scheduling.snapshot import ROUND_SIZE
from tunesmith.space.base import Floats

NAME = "allocation"
SHARES = (0.95, 0.99)
EQUAL = f"rounds of {ROUND_SIZE}"
UNTUNED, FIRST_ROUNDS = "untuned", "first rounds"
MEASURES = tuple(
    (start, share) for start in (UNTUNED, FIRST_ROUNDS) for share in ((0.5,) if start == FIRST_ROUNDS else ()) + SHARES
)
"""From where, and how much of the gain."""
BASELINE = "gradient"
DRAWS = 2000
ReplayedRuns = Mapping[tuple[str, str], Sequence[ReplayedRun]]
"""By model and allocator, one for each seed."""


def reached(course: ReplayedRun, start: str, share: float) -> float:
    """Seconds until so much of what can be gained from ``start`` on was there."""
    before = course.untuned if start == UNTUNED else course.first
    return course.reached(before - share * (before - course.best))


def ratios(courses: ReplayedRuns, allocator: str, start: str, share: float) -> Floats:
    """Logarithm of the baseline's time over the allocator's, float64 [models, seeds]; positive: the allocator leads."""
    models = dict.fromkeys(model for model, _ in courses)
    mine, other = (
        np.array([[reached(course, start, share) for course in courses[model, name]] for model in models])
        for name in (allocator, BASELINE)
    )
    out: Floats = np.log(other / mine)
    return out


def band(values: Floats) -> tuple[float, float, float]:
    """Mean and 95 % bootstrap over seeds, of all models together, of float64 [models, seeds]."""
    rng = np.random.default_rng(0)
    picks = rng.integers(values.shape[1], size=(DRAWS, values.shape[1]))
    means = values[:, picks].mean(axis=(0, 2))
    low, high = np.quantile(means, (0.025, 0.975))
    return float(values.mean()), float(low), float(high)


def report(courses: ReplayedRuns, setup: Mapping[str, str]) -> Report:
    """One line per allocator and share: seconds, and how many times as fast as the baseline."""
    models, names = (tuple(dict.fromkeys(key[i] for key in courses)) for i in (0, 1))
    rows: list[Row] = []
    for start, share in MEASURES:
        for name in names:
            mean, low, high = (float(np.exp(value)) for value in band(ratios(courses, name, start, share)))
            middle = {m: np.median([reached(c, start, share) for c in courses[m, name]]) for m in models}
            rows.append(
                {
                    "gain": f"{share:.0%} from {start}",
                    "allocator": name,
                    "times as fast": round(mean, 3),
                    "95 % from": round(low, 3),
                    "to": round(high, 3),
                    **{f"{model}, s": round(float(value), 1) for model, value in middle.items()},
                }
            )
    seeds = len(next(iter(courses.values())))
    summary = (
        f"Jobs of {len(models)} models, {seeds} seeds each, replayed on recorded learning curves under the service's "
        "own rules. Each seed takes each task's curve from one of the recorded runs, in which all tasks had equally "
        "many rounds.\n\n"
        f"- The bandit starts with small first rounds; the others' rounds have {ROUND_SIZE} candidates. So do those of "
        f"`bandit, {EQUAL}`, which separates the effect of the order from that of the sizes.\n"
        "- A round cut otherwise than in the record takes the time of its candidates plus the overhead of the next "
        "recorded round.\n"
        "- The figures are seconds of tuning until this share of a gain was there, or of all rounds if it never was.\n"
        f"- `{UNTUNED}`: the gain over the model with default schedules. `{FIRST_ROUNDS}`: what is left to gain once "
        "every task had its first recorded round.\n"
        f"- `times as fast`: the time of `{BASELINE}` over its own, geometric mean over models and seeds with a 95 % "
        "bootstrap over seeds. Then the median seconds by model.\n"
        f"- `{HINDSIGHT}` is not an allocator: it knows every curve to its end, and is close to the best possible."
    )
    return Report.of(NAME, "Allocators on the curves of whole models", summary, rows, setup)


def draw(courses: ReplayedRuns, axes: Any) -> None:
    """What was gained after the first rounds, over the share of all time, mean over models and seeds."""
    where = np.linspace(0, 1, 100)
    for name in dict.fromkeys(name for _, name in courses):
        lines = [_gain(course, where) for (_, each), found in courses.items() if each == name for course in found]
        axes.plot(100 * where, 100 * np.mean(lines, axis=0), label=name)
    axes.set(xlabel="share of the time of all rounds, %", ylabel="of the gain after the first rounds, %", ylim=(0, 100))
    axes.legend()


def _gain(course: ReplayedRun, where: Floats) -> Floats:
    at = np.searchsorted(course.seconds, where * course.seconds[-1], side="right") - 1
    gain = (course.first - course.latency) / (course.first - course.best)
    out: Floats = np.where(at >= 0, np.maximum(gain[np.maximum(at, 0)], 0.0), 0.0)
    return out
