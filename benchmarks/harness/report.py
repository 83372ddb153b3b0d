"""What a benchmark leaves behind: a table as CSV and Markdown, a plot, and a section of ``docs/benchmarks.md``."""

from __future__ import annotations

import csv
import importlib.metadata
import os
import platform
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tunesmith.errors import InvalidInput, MissingDependency

PACKAGES = ("tunesmith", "numpy", "apache-tvm")
INCHES = (8.0, 4.5)
Draw = Callable[[Any], None]
"""Draws on a matplotlib ``Axes``; may replace it by several on ``axes.figure``."""
Row = Mapping[str, Any]
"""Cells by the heads of their columns."""


@dataclass(frozen=True)
class Report:
    """The outcome of one benchmark.

    Attributes:
        name: stem of the files and of the section, such as ``tuners``.
        title: headline.
        summary: Markdown above the table: what was done, what it shows, what is short.
        columns: heads of the table.
        rows: its cells; None stands for "not known" and is an empty cell of the CSV.
        setup: machine and versions, see :func:`setup`, and the benchmark's own settings.
    """

    name: str
    title: str
    summary: str
    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    setup: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, name: str, title: str, summary: str, rows: Sequence[Row], setup: Mapping[str, str]) -> Report:
        """A report whose heads are those of the first row."""
        return cls(name, title, summary, *tabular(rows), setup)

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z][a-z0-9-]*", self.name):
            raise ValueError(f"{self.name!r} is not a name of a report")
        wrong = next((row for row in self.rows if len(row) != len(self.columns)), None)
        if wrong is not None:
            raise ValueError(f"a row of {len(wrong)} cells in a table of {len(self.columns)} columns: {wrong}")


def tabular(rows: Sequence[Row]) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    """Heads, those of the first row, and the cells of all rows."""
    columns = tuple(rows[0]) if rows else ()
    return columns, [tuple(row[column] for column in columns) for row in rows]


def check(name: str, docs: Path | None) -> None:
    """Whether :func:`write` will be able to plot and to find its section: for benchmarks that take long.

    Raises:
        MissingDependency: without matplotlib.
        InvalidInput: the page cannot be read, or has no such section.
    """
    _figure()
    if docs:
        _section(name, docs)


def sections(names: Sequence[str], docs: Path) -> list[str]:
    """Which of some reports a page has a section for.

    Raises:
        MissingDependency: without matplotlib.
        InvalidInput: the page cannot be read, or has no section for any of them.
    """
    found = [name for name in names if docs.is_file() and f"<!-- bench:{name} -->" in docs.read_text(encoding="utf-8")]
    for name in found or names[:1]:
        check(name, docs)
    return found


def write(report: Report, out: Path, draw: Draw | None = None, docs: Path | None = None) -> list[Path]:
    """Write ``out/<name>.csv``, ``.md`` and, with ``draw``, ``.svg``; returns the files.

    Args:
        report: what to write.
        out: folder, made when missing.
        draw: draws the plot.
        docs: the page whose section between ``<!-- bench:<name> -->`` and ``<!-- /bench:<name> -->`` is replaced; the
            plot is copied to ``images/bench-<name>.svg`` beside it.

    Raises:
        MissingDependency: there is a plot to draw, and no matplotlib. The tables are written before.
        InvalidInput: the page has no such section. The files are written before.
    """
    out.mkdir(parents=True, exist_ok=True)
    paths = [out / f"{report.name}{suffix}" for suffix in (".csv", ".md")]
    write_rows(paths[0], [report.columns, *report.rows])
    plot = out / f"{report.name}.svg" if draw else None
    paths[1].write_text(markdown(report, plot.name if plot else None), encoding="utf-8")
    if plot and draw:
        render(draw, plot)
        paths.append(plot)
    if docs:
        _publish(report, plot, docs)
    return paths


def render(draw: Draw, path: Path) -> None:
    """Draw a plot as an SVG file.

    Raises:
        MissingDependency: without matplotlib.
    """
    matplotlib, figure_class = _figure()
    # Text as text and ids from a fixed salt: small files that only differ where the figures do.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "tunesmith", "font.size": 9}):
        figure = figure_class(figsize=INCHES, layout="constrained")
        draw(figure.subplots())
        figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})


def markdown(report: Report, plot: str | None = None) -> str:
    """The report as a section of a page; ``plot`` is the image's address."""
    parts = [f"## {report.title}", report.summary.strip(), table(report.columns, report.rows)]
    if plot:
        parts.append(f"![{report.title}]({plot})")
    if report.setup:
        parts.append("*" + "; ".join(f"{key}: {value}" for key, value in report.setup.items()) + "*")
    return "\n\n".join(part for part in parts if part) + "\n"


def write_rows(path: Path, rows: Iterable[Sequence[Any]]) -> Path:
    """Write a CSV file; its folder is made when missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)
    return path


def table(columns: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    """A Markdown table; columns of numbers are right-aligned."""
    numeric = [all(isinstance(row[i], int | float | None) for row in rows) for i in range(len(columns))]
    lines = [_line(columns), "|" + "|".join("---:" if right else "---" for right in numeric) + "|"]
    return "\n".join([*lines, *(_line(row) for row in rows)])


def cell(value: Any) -> str:
    """A value for people: three significant digits, ``–`` for None."""
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.0f}" if 1000 <= abs(value) < 1e7 else f"{value:.3g}"
    return str(value).replace("|", "\\|").replace("\n", " ")


def setup(*packages: str) -> dict[str, str]:
    """The machine and the versions, without names of hosts and paths.

    Args:
        *packages: distributions to name beside Tunesmith, NumPy and TVM; those not installed are left out.
    """
    cores = len(os.sched_getaffinity(0))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    system = platform.freedesktop_os_release().get("PRETTY_NAME", "") if Path("/etc/os-release").exists() else ""
    found = {
        "CPU": processor(),
        "cores": str(cores),
        "memory": f"{memory:.0f} GiB",
        "OS": f"{system or platform.system()}, kernel {platform.release()}",
        "python": platform.python_version(),
    }
    for name in (*PACKAGES, *packages):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def processor(info: Path = Path("/proc/cpuinfo")) -> str:
    """What the processor calls itself, and its model: guests are often told no more than a maker's brand."""
    first = info.read_text("utf-8", errors="replace").partition("\n\n")[0] if info.exists() else ""
    fields = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in first.splitlines())}
    numbers = [f"{key.removeprefix('cpu ')} {fields[key]}" for key in ("cpu family", "model") if key in fields]
    name = fields.get("model name", platform.machine())
    return f"{name} ({', '.join(numbers)})" if numbers else name


def _line(cells: tuple[Any, ...]) -> str:
    return "| " + " | ".join(cell(value) for value in cells) + " |"


def _figure() -> tuple[Any, Any]:
    """matplotlib and its class of figures, which need no display."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise MissingDependency(
            "plots need matplotlib; install it with: pip install -e '.[bench]'", extra="bench"
        ) from error
    return matplotlib, Figure


def _section(name: str, docs: Path) -> tuple[str, str]:
    """What stands before the section's content and after it, marks included."""
    first, last = f"<!-- bench:{name} -->", f"<!-- /bench:{name} -->"
    try:
        page = docs.read_text("utf-8")
    except OSError as error:
        raise InvalidInput(f"{docs.name} cannot be read: {error.strerror}", field="docs", value=docs.name) from error
    head, found, rest = page.partition(first)
    _, closed, tail = rest.partition(last)
    if not found or not closed:
        raise InvalidInput(f"{docs.name} has no section {first} … {last}", field="docs", value=docs.name)
    return head + first, last + tail


def _publish(report: Report, plot: Path | None, docs: Path) -> None:
    before, after = _section(report.name, docs)
    image = None
    if plot:
        image = f"images/bench-{report.name}.svg"
        (docs.parent / "images").mkdir(exist_ok=True)
        (docs.parent / image).write_bytes(plot.read_bytes())
    docs.write_text(f"{before}\n{markdown(report, image)}{after}", encoding="utf-8")
