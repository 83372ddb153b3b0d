"""Answers as notebooks show them: tables in HTML. Names in them are other people's text, and escaped."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape


def seconds(value: float | None) -> str:
    """A latency with its unit."""
    if value is None:
        return "-"
    for factor, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if value >= factor:
            return f"{value / factor:.3g} {unit}"
    return f"{value / 1e-9:.3g} ns"


def html_table(title: str, rows: Iterable[tuple[str, str]]) -> str:
    """A table of names and texts; rows without a text are left out."""
    shown = "".join(
        f'<tr><th style="text-align:left">{escape(name)}</th><td style="text-align:left">{escape(text)}</td></tr>'
        for name, text in rows
        if text
    )
    return f"<table><caption>{escape(title)}</caption>{shown}</table>"


def html_text(text: str) -> str:
    """Lines as they are."""
    return f"<pre>{escape(text)}</pre>"
