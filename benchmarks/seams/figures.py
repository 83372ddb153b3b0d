"""What the pieces of a result cost, as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from benchmarks.harness.report import Report, Row

NAME = "seams"
LOW, HIGH = 10, 90
"""Percentiles over a minute: cores that are near each other, and far ones, where the machine has both."""


def report(
    sizes: Sequence[int], written: int, found: Sequence[Sequence[Sequence[float]]], setup: Mapping[str, str]
) -> Report:
    """A line for each size.

    Args:
        sizes: bytes of a piece.
        written: bytes of each core.
        found: by turn and size, seconds of pieces among others and of pieces that follow each other.
    """
    summary = (
        f"Each core writes {written // 1024} KiB, in pieces. `among others`: the cores' pieces take turns in memory; "
        "`in a row`: those of a core follow each other. `a piece`: the difference over the number of its pieces.\n\n"
        f"- Low and high are the {LOW}th and the {HIGH}th percentile of {len(found)} turns, each of which times all."
    )
    seconds = np.array(found)  # turns, sizes, both ways
    rows = [_row(size, written, seconds[:, at]) for at, size in enumerate(sizes)]
    return Report.of(NAME, "Seams", summary, rows, setup)


def _row(size: int, written: int, turns: np.ndarray) -> Row:
    among, row = turns[:, 0], turns[:, 1]
    each = (among - row) / (written // size)
    figures = {"among others, µs": among * 1e6, "in a row, µs": row * 1e6, "a piece, ns": each * 1e9}
    return {"piece, bytes": size, "pieces": written // size} | {
        f"{name}, {word}": float(np.percentile(values, share))
        for name, values in figures.items()
        for word, share in (("low", LOW), ("high", HIGH))
    }
