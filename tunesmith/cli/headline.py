"""What a job came to, in lines of at most ``WIDTH`` columns: the latency, against what, and how sure that is."""

from __future__ import annotations

import math
from typing import Any

from tunesmith.cli.output import INVENTED, seconds, times
from tunesmith.measuring.ratio import Verdict

WIDTH = 69
"""Columns of a line, which stands right of a name in eleven."""
APART = 1.1
"""An estimate that differs from the measurement by more than this factor is told, and why."""
Line = tuple[str, str]
"""Name and text; a line that goes on has no name."""


def headline(summary: dict[str, Any]) -> list[Line]:
    """The lines of ``summary.json``'s latencies."""
    source = summary["latency_source"]
    tuned, untuned, speedup = summary["tuned_seconds"], summary["untuned_seconds"], summary["speedup"]
    if source != "measured":
        how = INVENTED if source == "simulated" else "estimated from its tasks, not measured end to end"
        return [("latency", f"{seconds(tuned)}: {_faster(speedup)} than untuned, {seconds(untuned)}"), ("", how)]
    return [("latency", f"{seconds(tuned)}: {_change(summary)}"), *_estimate(summary["estimate_seconds"], tuned)]


def _change(summary: dict[str, Any]) -> str:
    """The tuned build against the untuned one."""
    if summary["verdict"] == Verdict.NO_DIFFERENCE.value:
        why = ", no schedule changed" if summary["schedules"] == 0 else f" ({_span(summary['interval'])})"
        return f"no difference from the untuned build{why}"
    sure = f" ({_span(summary['interval'])})" if summary["interval"] else ""
    return f"{_faster(summary['speedup'])} than untuned, {seconds(summary['untuned_seconds'])}{sure}"


def _faster(speedup: float | None) -> str:
    """In words; models of a few microseconds may be slower, because the virtual machine's calls are most of them."""
    if speedup is None or speedup >= 1:
        return f"{times(speedup)} faster"
    return f"{times(1 / speedup)} SLOWER"


def _span(interval: list[float]) -> str:
    """An interval of speed-ups in words, where it is so wide that its ends say nothing."""
    low, high = interval
    if not 0 < low <= high < math.inf or high / low > 100:
        return "too noisy to tell"
    return f"{times(low)} to {times(high)}"


def _estimate(estimate: float | None, measured: float) -> list[Line]:
    """Where the tasks alone do not sum up to what was measured, both are told."""
    if not estimate or 1 / APART <= measured / estimate <= APART:
        return []
    why = "the rest is calls and colder caches" if estimate < measured else "together they find more in the caches"
    return [("", f"its tasks alone sum up to {seconds(estimate)}: {why}")]
