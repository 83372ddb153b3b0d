"""The data card: what a dataset file holds, in Markdown."""

from __future__ import annotations

from collections.abc import Mapping

from tunesmith.dataset.manifest import SCHEMA, SKETCH_FORMAT, Summary
from tunesmith.preparation import PIPELINE

SECTIONS = (
    ("Operators", "operators"),
    ("Targets", "targets"),
    ("Processors", "processors"),
    ("Compiler (TVM)", "builds"),
    ("Precision", "precisions"),
    ("Caches", "caches"),
    ("Failures", "failures"),
)


def card(summary: Summary, licence: str, quarantined: Mapping[str, int]) -> str:
    """The card of some records.

    Args:
        quarantined: rows that imports refused, by reason.
    """
    facts = [
        ("Records", str(summary.records)),
        ("Failed", str(summary.failed)),
        ("Of simulated devices", str(summary.simulated)),
        ("Measured", _period(summary)),
        ("Licence", licence),
        ("Schema", f"`{SCHEMA}`, sketch format {SKETCH_FORMAT}, models prepared by `{PIPELINE}`"),
    ]
    parts = ["# Performance records of tensor programs", _table(("", ""), facts)]
    for title, name in SECTIONS:
        counts: dict[str, int] = getattr(summary, name)
        if counts:
            parts.append(f"## {title}\n\n{_counts(counts)}")
    if quarantined:
        parts.append(f"## Quarantined by imports\n\n{_counts(quarantined)}")
    parts.append(
        "Each record names its workload, target, sketch and environment by hash; the file holds all of them. "
        "A record is a claim of whoever measured it: an import keeps it apart from what is measured there."
    )
    return "\n\n".join(parts) + "\n"


def _period(summary: Summary) -> str:
    if summary.first is None or summary.last is None:
        return "never"
    return f"{summary.first.date()} to {summary.last.date()}"


def _counts(counts: Mapping[str, int]) -> str:
    rows = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return _table(("", "rows"), [(_cell(name), str(number)) for name, number in rows])


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _table(head: tuple[str, str], rows: list[tuple[str, str]]) -> str:
    lines = [head, ("---", "---"), *rows]
    return "\n".join(f"| {first} | {second} |" for first, second in lines)
