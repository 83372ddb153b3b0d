"""The live line: it fits every terminal, and what matters less goes first."""

from __future__ import annotations

import io
import re

import pytest
from cli_jobs import job
from rich.console import Console

from tunesmith.cli import line, progress
from tunesmith.cli.output import INDENT, lay_out


def drawn(width, colours="truecolor", encoding="utf-8", **values):
    """The live line of a job in a terminal of some width."""
    out = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    console = Console(file=out, force_terminal=True, color_system=colours, width=width, no_color=colours is None)
    display = progress._LiveLine(console, "starting", clock=lambda: 0.0)
    display.job(job(**values))
    with console.capture() as captured:
        console.print(display, end="")
    return re.sub(r"\x1b\[[0-9;]*m", "", captured.get())


TUNING = {"trials": 128, "measured": 23, "current": 0.0024, "eta": 83.0}


@pytest.mark.parametrize("width", [32, 40, 72, 80, 120, 200])
def test_the_live_line_fits_and_fills_the_terminal(width):
    text = drawn(width, **TUNING)
    assert text.startswith("tuning     ━━")
    assert text.endswith("left 1:23")
    assert len(text) == width - 1


def test_what_matters_less_goes_first():
    texts = ("faster than untuned", "time 2:08", "trials", "83.3x", "2.4 ms", "128/400")
    shown = {width: [text for text in texts if text in drawn(width, **TUNING)] for width in range(32, 130)}
    assert all(found == list(texts[len(texts) - len(found) :]) for found in shown.values())
    assert shown[120] == list(texts)
    assert shown[80] == list(texts[1:])
    assert shown[72] == list(texts[2:])
    assert shown[32] == []


def test_the_latency_is_told_against_another_runtime_where_one_was_timed():
    timed = TUNING | {"reference": {"runtime": "onnxruntime", "seconds": 0.0032, "ratio": 0.761}}
    assert "2.4 ms  0.761 of onnxruntime's latency  time" in drawn(120, **timed)
    assert "2.4 ms  0.761 of onnxruntime  left" in drawn(72, **timed)
    failed = TUNING | {"reference": {"runtime": "onnxruntime", "failure": "no kernel"}}
    assert "83.3x  left" in drawn(72, **failed)


def test_the_line_counts_on_between_two_answers():
    now = [0.0]
    display = progress._LiveLine(Console(file=io.StringIO()), "starting", clock=lambda: now[0])
    display.phase("starting", "redis")
    now[0] = 65.0
    assert [piece.text for piece in display.__rich__().pieces] == ["redis", "time 1:05"]
    display.phase("starting", "coordinator")  # the phase goes on
    assert display.__rich__().pieces[1].text == "time 1:05"
    display.job(job(**TUNING))
    now[0] += 3.0
    assert [piece.text for piece in display.__rich__().pieces][-2:] == ["time 2:11", "left 1:20"]
    display.job(job(waiting_for={"device_class": "x"}, **TUNING))
    now[0] += 3.0
    assert "time 2:08" in [piece.text for piece in display.__rich__().pieces]


def test_a_bar_is_there_without_colours_and_without_unicode():
    assert "━╸·······" in drawn(72, colours=None, **TUNING | {"trials": 40})
    assert drawn(72, encoding="ascii", **TUNING).startswith("tuning     --")
    assert drawn(72, encoding="ascii", colours=None, **TUNING | {"trials": 0}).startswith("tuning     .....")


def test_a_bar_moves_where_nobody_knows_how_long_it_takes():
    shares = {state: progress.share(job(state=state, trials=100)) for state in ("preparing", "running", "finishing")}
    assert shares == {"preparing": None, "running": 0.25, "finishing": None}
    assert progress.share(job(state="succeeded")) == 1.0
    timed = job().model_copy(update={"progress": job(trials=100).progress.model_copy(update={"seconds_budget": 125.0})})
    assert progress.share(timed) == 0.8


def test_pieces_are_shown_whole_or_not_at_all():
    given = [line.Piece("keep"), line.Piece("second", 2), line.Piece("first", 5), line.Piece("")]
    assert [piece.text for piece in line.fitting(given, 40)] == ["keep", "second", "first"]
    assert [piece.text for piece in line.fitting(given, 14)] == ["keep", "second"]
    assert [piece.text for piece in line.fitting(given, 1)] == ["keep"]


@pytest.mark.parametrize("columns", [40, 72, 80, 200])
def test_text_is_laid_out_in_whole_words(monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    report = "\n".join(f"{name:{INDENT - 1}} {'some words and a few more ' * 6}" for name in ("latency", "effort"))
    rows = lay_out(report, INDENT).splitlines()
    assert max(map(len, rows)) < min(columns, 80)
    assert " ".join(" ".join(rows).split()) == " ".join(report.split())
    assert all(row[0] != " " or row.startswith(" " * INDENT) for row in rows)
    assert lay_out(f"log        {'/long' * 40}", INDENT).split() == ["log", "/long" * 40]


def test_a_checked_job_is_held_against_the_fastest_runtime():
    reference = {"runtime": "onnxruntime", "seconds": 0.0032, "ratio": 0.75, "interval": [0.7, 0.8]}
    assert "2.4 ms  0.75 of onnxruntime's" in drawn(120, **TUNING, reference=reference)
    found = job(**TUNING)
    same = found.model_copy(update={"latency": found.latency.model_copy(update={"verdict": "no_difference"})})
    assert [piece.text for piece in progress.against(same)] == ["as fast as untuned"]
    assert "speed-up    ~1x" in progress.model_latency(same)
