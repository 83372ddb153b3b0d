"""What a job came to, in lines of at most ``WIDTH`` columns: the latency, against what, and how sure that is."""

from __future__ import annotations

import math
import textwrap
from typing import Any

from tunesmith.cli.output import INVENTED, seconds, times
from tunesmith.measuring.ratio import Verdict

WIDTH = 69
"""Columns of a line, which stands right of a name in eleven."""
APART = 1.2
"""An estimate that differs from the measurement by more than this factor is shown, with the reason."""
Line = tuple[str, str]
"""Name and text; a line that goes on has no name."""


NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


def headline(summary: dict[str, Any]) -> list[Line]:
    """The lines of ``summary.json``'s latencies: against the fastest other runtime first, then the untuned build."""
    source = summary["latency_source"]
    tuned, untuned, speedup = summary["tuned_seconds"], summary["untuned_seconds"], summary["speedup"]
    if tuned is None:
        return [("latency", "not measured")]
    if source != "measured" and untuned is None:
        return [("latency", f"{seconds(tuned)}, the sum of what earlier jobs measured")]
    if source != "measured":
        how = INVENTED if source == "simulated" else "estimated from its tasks, not measured end to end"
        return [("latency", f"{seconds(tuned)}: {_faster(speedup)} than untuned, {seconds(untuned)}"), ("", how)]
    reference = summary.get("reference")
    if reference is None:
        lines = [("latency", f"{seconds(tuned)}: {_change(summary)}"), *_missing(summary.get("reference_missing"))]
    else:
        first = ("latency", f"{seconds(tuned)}: {against(reference)}")
        lines = [first, *_precision(reference), *_behind(reference, summary["tasks"]), ("untuned", _untuned(summary))]
    return [*lines, *_estimate(summary["estimate_seconds"], tuned)]


def against(reference: dict[str, Any]) -> str:
    """The tuned build against another runtime."""
    low, high = reference["interval"]
    name = reference["runtime"]
    theirs = seconds(reference["seconds"])
    if reference["verdict"] == Verdict.NO_DIFFERENCE.value:
        return f"no difference from {name}'s {theirs} ({_parts(low, high)})"
    return f"{reference['ratio']:.3g} of {name}'s {theirs} ({_parts(low, high)})"


def _precision(reference: dict[str, Any]) -> list[Line]:
    """A runtime may compute with less than the model asks for."""
    if reference["precision"] == "model":
        return []
    return [("", f"{reference['runtime']} at its default precision, which may be below the model's")]


def _parts(low: float, high: float) -> str:
    return f"{low:.3g} to {high:.3g}" if _telling(low, high) else "too noisy to tell"


def _behind(reference: dict[str, Any], tasks: list[dict[str, Any]]) -> list[Line]:
    """What is missing where another runtime is faster."""
    if reference["verdict"] != Verdict.SLOWER.value:
        return []
    tunable = [task for task in tasks if task["in_use"] and task["tunable"]]
    default = sum(not better_than_default(task) for task in tunable)
    end = ";" if reference.get("passed_in_seconds") else ""
    if default:
        which = f"{default} of {len(tunable)} tasks run their" if len(tunable) > 1 else "its only task runs its"
        lines = [("", f"still slower: {which} default schedule{end}")]
    else:
        lines = [("", f"still slower, although no task runs its default schedule{end}")]
    if end:
        lines.append(("", f"about {_span_of_time(reference['passed_in_seconds'])} expected to pass it"))
    return lines


def better_than_default(task: dict[str, Any]) -> bool:
    """Whether a task of the summary runs a schedule that was found, faster than its own default."""
    best, untuned = task["best_latency"], task["untuned_latency"]
    return best is not None and (untuned is None or best < untuned)


def _span_of_time(value: float) -> str:
    """``two more minutes are``."""
    for unit, name in ((3600.0, "hour"), (60.0, "minute"), (1.0, "second")):
        if value >= 1.5 * unit or unit == 1.0:
            count = max(1, round(value / unit))
            word = NUMBERS[count] if count < len(NUMBERS) else str(count)
            return f"{word} more {name}{'' if count == 1 else 's'} {'is' if count == 1 else 'are'}"
    raise AssertionError("one of the units is a second")


def _missing(reason: str | None) -> list[Line]:
    """Why no other runtime was timed."""
    lines = textwrap.wrap(f"none: {reason}", WIDTH) if reason else []
    return [("reference" if number == 0 else "", line) for number, line in enumerate(lines)]


def _untuned(summary: dict[str, Any]) -> str:
    """The untuned build against the tuned one, where another runtime comes first."""
    untuned = seconds(summary["untuned_seconds"])
    if summary["verdict"] == Verdict.NO_DIFFERENCE.value:
        return f"{untuned}: no difference{_doubt(summary)}"
    return f"{untuned}: the tuned build is {_faster(summary['speedup'])}{_doubt(summary)}"


def _change(summary: dict[str, Any]) -> str:
    """The tuned build against the untuned one."""
    if summary["verdict"] == Verdict.NO_DIFFERENCE.value:
        return f"no difference from the untuned build{_doubt(summary)}"
    return f"{_faster(summary['speedup'])} than untuned, {seconds(summary['untuned_seconds'])}{_doubt(summary)}"


def _doubt(summary: dict[str, Any]) -> str:
    """How sure a comparison with the untuned build is."""
    if summary["schedules"] == 0:
        return ", no schedule changed"
    if not summary["interval"]:
        return ""
    low, high = summary["interval"]
    return f" ({times(low)} to {times(high)})" if _telling(low, high) else " (too noisy to tell)"


def _telling(low: float, high: float) -> bool:
    """Whether the ends of an interval say anything."""
    return 0 < low <= high < math.inf and high / low <= 100


def _faster(speedup: float | None) -> str:
    """In words; models of a few microseconds may be slower, because the virtual machine's calls are most of them."""
    if speedup is None or speedup >= 1:
        return f"{times(speedup)} faster"
    return f"{times(1 / speedup)} SLOWER"


def _estimate(estimate: float | None, measured: float) -> list[Line]:
    """If the tasks alone do not sum up to what was measured, both are shown."""
    if not estimate or 1 / APART <= measured / estimate <= APART:
        return []
    why = "the rest is calls and colder caches" if estimate < measured else "they were timed apart, at other moments"
    return [("estimate", f"{seconds(estimate)} from the tasks alone: {why}")]
