"""What the command line prints where there is no Unicode, no width and no terminal."""

from __future__ import annotations

import io
import os
import subprocess
import sys

import pytest
from rich.console import Console

from tunesmith import terminal
from tunesmith.cli import output
from tunesmith.errors import InvalidInput

TEXT = "12 µs → 3×, ≤ 5 – “é” … Straße 漢 \udcff"
ASCII = '12 us -> 3x, <= 5 - "e" ... Strasse \\u6f22 \\udcff'


def ascii_streams(monkeypatch) -> dict[str, io.BytesIO]:
    """Standard output and error without Unicode; not a fixture, because pytest's own streams come after those."""
    found = {}
    for name in ("stdout", "stderr"):
        found[name] = io.BytesIO()
        monkeypatch.setattr(sys, name, io.TextIOWrapper(found[name], encoding="ascii", write_through=True))
    terminal.print_anything()
    return found


def test_what_has_no_character_is_still_readable(monkeypatch):
    streams = ascii_streams(monkeypatch)
    print(TEXT)
    assert streams["stdout"].getvalue().decode("ascii") == ASCII + "\n"


def test_problems_tables_and_latencies_print(monkeypatch):
    streams = ascii_streams(monkeypatch)
    monkeypatch.setenv("COLUMNS", "40")
    output.print_problem(InvalidInput(TEXT), as_json=False)
    output.emit({}, output.table(("name", "latency"), [("Größe", output.seconds(5e-6))]), as_json=False)
    output.emit({"name": TEXT}, TEXT, as_json=True)
    assert "12 us -> 3x" in streams["stderr"].getvalue().decode("ascii")
    said = streams["stdout"].getvalue().decode("ascii")
    assert "Gro" in said
    assert "5 us" in said


def test_a_bar_is_drawn_without_unicode(monkeypatch):
    from rich.progress import BarColumn, Progress

    streams = ascii_streams(monkeypatch)
    with Progress(BarColumn(), console=Console(stderr=True, force_terminal=True), auto_refresh=False) as progress:
        progress.update(progress.add_task("µ", total=2), completed=1, refresh=True)
    assert streams["stderr"].getvalue().decode("ascii")


@pytest.mark.parametrize("arguments", [["--help"], ["tune", "--help"], ["version"], ["tune", "gemm:1x2"], ["jobs"]])
def test_commands_print_under_ascii(tmp_path, arguments):
    env = {"PATH": "/usr/bin:/bin", "PYTHONIOENCODING": "ascii", "LC_ALL": "C", "TERM": "dumb", "COLUMNS": "40"}
    done = subprocess.run(
        [sys.executable, "-m", "tunesmith.cli", *arguments],
        env=env,
        cwd=tmp_path,
        timeout=60,
        capture_output=True,
        check=False,
    )
    assert b"Traceback" not in done.stderr
    assert (done.stdout + done.stderr).decode("ascii").strip()


def test_utf_8_is_left_as_it_is(monkeypatch):
    out = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(out, encoding="utf-8", write_through=True))
    terminal.print_anything()
    print("12 µs → 3×")
    assert out.getvalue().decode() == "12 µs → 3×\n"


def test_rows_are_laid_out_as_they_are_printed(monkeypatch):
    monkeypatch.setattr(output.shutil, "get_terminal_size", lambda fallback: os.terminal_size((60, 24)))
    ascii_streams(monkeypatch)
    words = [f"w\udcc3{number}" for number in range(30)]
    rows = output.lay_out(" ".join(words)).split("\n")
    assert 50 < max(map(len, rows)) < 60
    assert " ".join(rows).split() == [word.replace("\udcc3", "\\udcc3") for word in words]
