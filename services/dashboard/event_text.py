"""Events in words."""

from __future__ import annotations

from typing import Any

from services.dashboard import format as fmt
from tunesmith.event_kinds import EventKind

NOTABLE = ("_failed", "_retried", "_cancelled")
STEPS = ("round_", "batch_", "evaluation_", "cost_model_")
LATENCIES = ("seconds", "tuned")
"""How members that are latencies end: ``untuned``, ``best_seconds``."""
OWN = {
    EventKind.ROUND_FINISHED,
    EventKind.EVALUATION_QUEUED,
    EventKind.EVALUATION_DONE,
    EventKind.COST_MODEL_DONE,
}


def shown(kind: str) -> bool:
    """False for steps inside a round that only matter when they go wrong."""
    return not kind.startswith(STEPS) or kind in OWN or kind.endswith(NOTABLE)


def describe(kind: str, data: dict[str, Any]) -> str:
    """An event's data in one line."""
    if kind in (EventKind.NEW_BEST, EventKind.CHAMPION_ADOPTED):
        before = f" (was {fmt.latency(data['before'])})" if data.get("before") else ""
        finder = f", found by {data['found_by']}" if data.get("found_by") else ""
        return f"{data.get('name')}: {fmt.latency(data.get('seconds'))}{before}{finder}"
    if kind == EventKind.CHALLENGER_REJECTED:
        return _rejected(data)
    if kind == EventKind.ROUND_FINISHED:
        failed = f", {data['failed']} failed" if data.get("failed") else ""
        best = f", best {fmt.latency(data['best_after'])}" if data.get("best_after") else ""
        measured = f": {data['measured']} measured" if data.get("measured") is not None else ""
        return f"round {data.get('number')} of {data.get('name')}{measured}{failed}{best}"
    parts = []
    if data.get("from") and data.get("to"):
        parts.append(f"{data['from']} → {data['to']}")
    parts += [f"{k.replace('_', ' ')} {_value(k, v)}" for k, v in data.items() if _plain(k, v)]
    problem = data.get("problem")
    if isinstance(problem, dict) and problem.get("detail"):
        parts.append(str(problem["detail"]))
    return ", ".join(parts)


def _rejected(data: dict[str, Any]) -> str:
    """Why a finalist is not the new best."""
    found, champion = fmt.latency(data.get("seconds")), fmt.latency(data.get("champion_seconds"))
    reason = data.get("reason")
    if reason == "not_faster":
        doubt = f" (p {data['p_value']:.2g})" if data.get("p_value") is not None else ""
        why = f"{found} is not significantly faster than {champion}{doubt}"
    elif reason == "overtaken":
        why = f"{found}, but a faster one became champion meanwhile"
    elif reason == "unchecked":
        why = f"{found}, but its outputs could not be compared with the default schedule's"
    elif reason == "wrong_result" and None not in (data.get("error"), data.get("tolerance")):
        why = f"wrong outputs, error {data['error']:.1e}, allowed {data['tolerance']:.0e}"
    else:
        why = f"{str(reason).replace('_', ' ')} when measured again"
    return f"{data.get('name')}: {why}"


def _plain(name: str, value: Any) -> bool:
    shown_elsewhere = name in ("id", "from", "to", "problem")
    return not shown_elsewhere and value not in (None, "") and not isinstance(value, (dict, list))


def _value(name: str, value: Any) -> str:
    if isinstance(value, float):
        return fmt.latency(value) if name.endswith(LATENCIES) else f"{value:.3g}"
    return str(value)
