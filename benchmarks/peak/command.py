"""``tunesmith bench peak``."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from benchmarks.harness.report import Report, setup, table, write
from tunesmith.errors import InvalidInput

if TYPE_CHECKING:
    from benchmarks.peak.machine import Limits, Rates

COLUMNS = ("threads", "what", "data, KiB", "best", "median", "unit", "of one thread")
REPEATS, QUICK_REPEATS = 20, 5


def run(
    quick: Annotated[bool, typer.Option(help="Fewer samples, and no plot of every size.")] = False,
    threads: Annotated[
        list[int] | None, typer.Option(min=1, help="Threads; repeatable (default: powers of two up to all cores).")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the CSV file, the table and the plot.")] = Path("bench-out"),
    docs: Annotated[Path | None, typer.Option(help="Markdown page whose section to replace.")] = None,
) -> None:
    """Measure this machine's limits: arithmetic by type, and reading from each cache level and the memory."""
    from benchmarks.peak.machine import measure, thread_counts

    cores = len(os.sched_getaffinity(0))
    counts = sorted(set(threads or thread_counts(cores)))
    if counts[-1] > cores:
        raise InvalidInput(f"there are {cores} cores here, not {counts[-1]}", field="threads", value=counts[-1])
    found = [measure(count, curve=not quick, repeats=QUICK_REPEATS if quick else REPEATS) for count in counts]
    report = build(found)
    print(table(report.columns, report.rows))
    for path in write(report, out, None if quick else lambda axes: draw(axes, found), docs):
        print(f"wrote {path}")


def build(found: Sequence[Limits]) -> Report:
    """The table: per number of threads its arithmetic, each cache level and the memory."""
    rows = [row for limits in found for row in _rows(limits, found[0])]
    summary = (
        "Arithmetic is independent float32 multiply-adds in registers, a multiply-add counted as two operations; of "
        "narrow types, the CPU's instruction for them, where it has one. "
        "Reading sums float32 values repeatedly from a buffer. The buffer fills half of the share that the cores "
        "used have of a cache level; for memory it is four times the last level. `best` is the limit that shares "
        "of the limit on "
        "this page refer to; `median` is what is usually reached."
    )
    return Report("peak", "Limits of the machine", summary, COLUMNS, rows, setup())


def draw(axes: Any, found: Sequence[Limits]) -> None:
    """Bandwidth against the size of the data, a line for each number of threads."""
    for limits in found:
        sizes = list(limits.reads)
        axes.plot(
            [size / 1024 for size in sizes],
            [limits.reads[size].best / 1e9 for size in sizes],
            marker=".",
            label=f"{limits.threads} thread{'s' * (limits.threads > 1)}, {limits.flops.best / 1e9:.0f} GFLOP/s",
        )
    axes.set(xscale="log", yscale="log", xlabel="data, KiB", ylabel="read bandwidth, GB/s", title="Read bandwidth")
    axes.grid(True, alpha=0.3)
    axes.legend()


def _rows(limits: Limits, first: Limits) -> list[tuple[Any, ...]]:
    rows = [_row(limits.threads, "float32 arithmetic", None, limits.flops, "GFLOP/s", first.flops)]
    for precision, rates in limits.narrow.items():
        base = first.narrow[precision]
        rows.append(_row(limits.threads, f"{precision} arithmetic", None, rates, "GFLOP/s", base))
    for level, size in [*sorted(limits.caches.items()), (0, math.inf)]:
        at, rates = limits.level(size)
        base = first.level(first.caches.get(level, 0) if level else math.inf)[1]
        rows.append(_row(limits.threads, f"read L{level}" if level else "read memory", at / 1024, rates, "GB/s", base))
    return rows


def _row(threads: int, what: str, kib: float | None, rates: Rates, unit: str, base: Rates) -> tuple[Any, ...]:
    return threads, what, kib, rates.best / 1e9, rates.median / 1e9, unit, rates.best / base.best
