"""How sure the latency is that a record stands for."""

from __future__ import annotations

import statistics

from db.models import Record
from tunesmith.measuring.interval import recorded_interval


def samples_of(record: Record) -> list[float]:
    """The confirmation's samples, which were not chosen for being the fastest; otherwise the race's."""
    confirmed: list[float] = (record.confirmation or {}).get("samples") or record.samples
    return confirmed


def of_record(record: Record) -> tuple[float, float] | None:
    """The interval of its samples in seconds; None without any."""
    return recorded_interval(samples_of(record), record.environment)


def around(latency: float, record: Record) -> tuple[float, float] | None:
    """The same around ``latency``, which may be the median freed of the device's drift."""
    found = of_record(record)
    if found is None:
        return None
    scale = latency / statistics.median(samples_of(record))
    return found[0] * scale, found[1] * scale
