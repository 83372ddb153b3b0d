"""Numbers for people: three significant digits and a unit, or a dash where nothing is known yet."""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

from tunesmith.measuring.ratio import Verdict

NOTHING = "–"


def significant(value: float, digits: int = 3) -> str:
    """``value`` with that many significant digits, never in scientific notation."""
    if value == 0:
        return "0"
    places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{places}f}"
    return text


def latency(seconds: float | None) -> str:
    """Seconds as ``ns``, ``µs``, ``ms`` or ``s``."""
    if seconds is None or not math.isfinite(seconds):
        return NOTHING
    for factor, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if abs(seconds) >= factor:
            return f"{significant(seconds / factor)} {unit}"
    return f"{significant(seconds / 1e-9)} ns"


def duration(seconds: float | None) -> str:
    """A span of time to wait for: ``42 s``, ``3 min 05 s``, ``2 h 10 min``."""
    if seconds is None or not math.isfinite(seconds):
        return NOTHING
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    if whole < 48 * 3600:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 86400} d"


def speedup(ratio: float | None) -> str:
    """``3.21 ×``."""
    return NOTHING if not ratio else f"{significant(ratio)} ×"


def change(latency: dict[str, Any]) -> str:
    """A job's speed-up, where there is one."""
    same = latency.get("verdict") == Verdict.NO_DIFFERENCE.value
    return "no difference" if same else speedup(latency.get("speedup"))


def rate(flops_per_second: float | None) -> str:
    """FLOP/s as ``GFLOP/s``, or ``TFLOP/s`` from ten thousand on."""
    if not flops_per_second:
        return NOTHING
    giga = flops_per_second / 1e9
    return f"{significant(giga / 1000)} TFLOP/s" if giga >= 10_000 else f"{significant(giga)} GFLOP/s"


def share(fraction: float | None) -> str:
    """A fraction as a percentage."""
    return NOTHING if fraction is None else f"{100 * fraction:.1f} %"


def noise(floor: float) -> str:
    """A device's noise floor; a word where it is as large as what is measured."""
    return f"noise ±{share(floor)}" if floor < 1 else "too noisy to tell"


def count(done: int | None, of: int | None = None) -> str:
    """``128`` or ``128 / 1,000``."""
    first = f"{done or 0:,}"
    return first if of is None else f"{first} / {of:,}"


def trials(progress: dict[str, Any]) -> str:
    """Trials of the budget; of a collecting job ``812 / 4,480 labels``."""
    if progress.get("labels_wanted") is not None:
        return f"{count(progress.get('labels'), progress['labels_wanted'])} labels"
    return count(progress.get("trials"), progress.get("trials_budget"))


def unmeasured(job: dict[str, Any]) -> str:
    """``12 / 23 tasks`` until each tunable task has a latency, because part of the sum is no latency of the model."""
    progress, current = job.get("progress") or {}, (job.get("latency") or {}).get("current")
    tunable = progress.get("tasks_tunable")
    return f"{count(progress.get('tasks_measured'), tunable)} tasks" if current is None and tunable else ""


def when(stamp: str | None) -> str:
    """Day, time and zone of an ISO 8601 stamp, in the server's zone."""
    parsed = parse(stamp)
    return NOTHING if parsed is None else parsed.astimezone().strftime("%d %b %H:%M:%S %Z")


def ago(stamp: str | None, now: dt.datetime) -> str:
    """How long before ``now`` an ISO 8601 stamp was."""
    parsed = parse(stamp)
    return "never" if parsed is None else f"{duration((now - parsed).total_seconds())} ago"


def parse(stamp: str | None) -> dt.datetime | None:
    """An ISO 8601 stamp as an aware time; one without a zone is UTC."""
    if not stamp:
        return None
    parsed = dt.datetime.fromisoformat(stamp.replace("Z", "+00:00"))
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=dt.timezone.utc)
