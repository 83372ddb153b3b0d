"""Printing: JSON for machines, short text for people."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tunesmith.answers.shown import seconds as seconds
from tunesmith.errors import TunesmithError
from tunesmith.measuring.ratio import Verdict
from tunesmith.terminal import printed

if TYPE_CHECKING:
    from tunesmith.answers.jobs import Latency

INVENTED = "invented by a simulated device, nothing was measured"
WIDE = 200
NOISY = 1.0
"""Noise of as much as the figure itself: its size says nothing more."""
PAGE = 80
"""Columns of text for people."""
INDENT = 11
"""Columns before the text of a row with a name."""


def emit(value: Any, text: str | Table, as_json: bool) -> None:
    """Print a result: ``value`` as JSON on one line, or ``text``."""
    if as_json:
        print(json.dumps(value), flush=True)
    elif isinstance(text, Table):
        # What is piped on has no width: ids that are cut in two cannot be copied.
        Console(width=None if sys.stdout.isatty() else WIDE).print(text)
    else:
        print(text, flush=True)


def lay_out(text: str, indent: int = 0) -> str:
    """Lines that fit 80 columns, or the terminal where it has fewer, whole words, the last column free.

    Args:
        text: lines.
        indent: columns that a line's continuation begins with.
    """
    width = min(PAGE, shutil.get_terminal_size((PAGE, 24)).columns) - 1
    return "\n".join(
        textwrap.fill(
            line,
            width,
            subsequent_indent=" " * indent,
            break_long_words=False,
            break_on_hyphens=False,
            replace_whitespace=False,
            drop_whitespace=True,
        )
        for line in printed(text).split("\n")
    )


def rows(pairs: Iterable[tuple[str, str]]) -> str:
    """Names and texts in two columns."""
    return lay_out("\n".join(f"{name:{INDENT - 1}} {text}" for name, text in pairs), INDENT)


def place(path: str | Path) -> str:
    """A path as it is seen from the working folder, where it is in there."""
    path = Path(path)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def print_problem(error: TunesmithError, as_json: bool) -> None:
    """Print an error: the problem object on stdout, or its detail on stderr."""
    if as_json:
        print(json.dumps(error.problem(), default=str), flush=True)
    else:
        head, text = "error", f"error [{error.code}]: {error.detail}"
        text = lay_out(text) if sys.stderr.isatty() else text
        console = Console(stderr=True, highlight=False)
        console.print(head, style="bold red", end="")
        console.print(text.removeprefix(head), markup=False, soft_wrap=True)
        sys.stderr.flush()


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], give: str = "", whole: Sequence[str] = ()) -> Table:
    """A plain table.

    Args:
        columns: their heads; the first one's cells stay whole.
        rows: texts.
        give: the column whose texts end in dots where a terminal is narrow.
        whole: further columns whose cells stay whole.
    """
    out = Table(box=None, pad_edge=False, header_style="bold")
    for position, column in enumerate(columns):
        gives = column == give
        stays = not gives and (position == 0 or column in whole)
        width = max(map(len, (column, *(row[position] for row in rows)))) if stays else None
        out.add_column(column, overflow="ellipsis" if gives else "fold", no_wrap=gives or stays, min_width=width)
    for row in rows:
        out.add_row(*(escape(cell) for cell in row))
    return out


def duration(value: float | None) -> str:
    """A waiting time as ``m:ss`` or ``h:mm:ss``."""
    if value is None:
        return "-"
    minutes, rest = divmod(round(value), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def times(value: float | None) -> str:
    """A speed-up."""
    if value is None:
        return "-"
    return f"{value:.3g}x" if value < 999.5 else f"{value:.0f}x"


def speed_up(latency: Latency) -> str:
    """A job's speed-up; one that may be none is about 1."""
    return "~1x" if latency.verdict == Verdict.NO_DIFFERENCE.value else times(latency.speedup)


def share(value: float) -> str:
    """A share as a percentage; noise beyond ``NOISY`` is a word."""
    return f"{value:.1%}" if value < NOISY else "too noisy to tell"
