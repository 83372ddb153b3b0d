from __future__ import annotations

import builtins
import csv
import platform
import sys

import pytest

from benchmarks import commands
from benchmarks.harness.report import Report, check, markdown, processor, sections, setup, write
from tunesmith.cli import main
from tunesmith.errors import InvalidInput, MissingDependency

PAGE = "# Benchmarks\n\n<!-- bench:demo -->\nold\n<!-- /bench:demo -->\n\nafter\n"


def report(**changes):
    values = {
        "name": "demo",
        "title": "A demo",
        "summary": "What it shows.",
        "columns": ("operator", "per minute", "note"),
        "rows": [("gemm", 312.4567, None), ("a|b", 1234.5, "x")],
        "setup": {"CPU": "one", "cores": "2"},
    }
    return Report(**{**values, **changes})


def draw(axes):
    axes.plot([1, 2], [3, 4])
    axes.set_title("two points")


def test_a_report_is_csv_markdown_and_a_plot(tmp_path):
    paths = write(report(), tmp_path / "deep" / "out", draw)
    assert [path.name for path in paths] == ["demo.csv", "demo.md", "demo.svg"]
    with paths[0].open(newline="") as file:
        assert list(csv.reader(file)) == [
            ["operator", "per minute", "note"],
            ["gemm", "312.4567", ""],
            ["a|b", "1234.5", "x"],
        ]
    text = paths[1].read_text()
    assert "| gemm | 312 | – |" in text
    assert "| a\\|b | 1234 | x |" in text
    assert "|---|---:|---|" in text
    assert "![A demo](demo.svg)" in text
    assert "CPU: one; cores: 2" in text
    assert "two points" in paths[2].read_text()


def test_the_same_figures_give_the_same_files(tmp_path):
    for folder in ("a", "b"):
        write(report(), tmp_path / folder, draw)
    for name in ("demo.csv", "demo.md", "demo.svg"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_a_section_of_a_page_is_replaced_and_nothing_else(tmp_path):
    page = tmp_path / "docs" / "benchmarks.md"
    page.parent.mkdir()
    page.write_text(PAGE)
    for _ in range(2):
        write(report(), tmp_path, draw, page)
        text = page.read_text()
        assert text.startswith("# Benchmarks\n\n<!-- bench:demo -->\n## A demo\n")
        assert text.endswith("<!-- /bench:demo -->\n\nafter\n")
        assert "old" not in text
    assert "![A demo](images/bench-demo.svg)" in text
    assert (page.parent / "images" / "bench-demo.svg").read_text() == (tmp_path / "demo.svg").read_text()


def test_the_sections_that_a_page_has_are_told_before_the_work(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("<!-- bench:other --><!-- /bench:other -->")
    assert sections(("demo", "other"), page) == ["other"]
    for missing in (page, tmp_path / "none.md"):
        with pytest.raises(InvalidInput, match=r"demo|none\.md"):
            sections(("demo",), missing)


@pytest.mark.parametrize("text", ["", "<!-- bench:demo -->", "<!-- bench:other --><!-- /bench:other -->"])
def test_a_page_without_the_section_is_refused_after_the_files_are_there(tmp_path, text):
    page = tmp_path / "page.md"
    page.write_text(text)
    with pytest.raises(InvalidInput, match="bench:demo"):
        write(report(), tmp_path, docs=page)
    assert (tmp_path / "demo.csv").exists()
    assert page.read_text() == text


def test_without_matplotlib_the_tables_are_there_and_the_extra_is_named(tmp_path, monkeypatch):
    real = builtins.__import__

    def absent(name, *rest):
        if name.split(".")[0] == "matplotlib":
            raise ModuleNotFoundError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(MissingDependency, match=r"\[bench\]") as caught:
        write(report(), tmp_path, draw)
    assert caught.value.extra == {"extra": "bench"}
    assert (tmp_path / "demo.md").exists()
    assert len(write(report(), tmp_path)) == 2


def test_what_would_fail_at_the_end_can_be_asked_at_the_start(tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    with pytest.raises(InvalidInput, match="cannot be read"):
        check("demo", page)
    page.write_text(PAGE)
    check("demo", page)
    check("other", None)
    with pytest.raises(InvalidInput, match="bench:other"):
        check("other", page)
    assert page.read_text() == PAGE
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingDependency):
        check("demo", None)


def test_rows_have_as_many_cells_as_there_are_columns():
    with pytest.raises(ValueError, match="2 cells"):
        report(rows=[("gemm", 1.0)])
    with pytest.raises(ValueError, match="not a name"):
        report(name="../x")


def test_an_empty_report_is_a_table_without_rows():
    assert "| operator | per minute | note |" in markdown(report(rows=[], setup={}))


def test_the_setup_names_the_machine_and_not_its_owner():
    import os
    import socket

    found = setup("pytest", "no-such-distribution")
    assert {"CPU", "cores", "memory", "OS", "python", "tunesmith", "numpy", "pytest"} <= set(found)
    text = " ".join(found.values())
    assert socket.gethostname() not in text
    assert os.path.expanduser("~") not in text


def test_the_processor_is_told_from_others_of_its_brand(tmp_path):
    info = tmp_path / "cpuinfo"
    one = "processor\t: 0\ncpu family\t: 25\nmodel\t\t: 17\nmodel name\t: AMD EPYC\nflags\t\t: fpu"
    info.write_text(f"{one}\n\n{one.replace('25', '26')}\n")
    assert processor(info) == "AMD EPYC (family 25, model 17)"
    info.write_text("processor\t: 0\nBogoMIPS\t: 50.00\n")  # as on aarch64
    assert processor(info) == processor(tmp_path / "missing") == platform.machine()


def test_help_lists_the_benchmarks(capsys):
    assert main.run_command_line(["bench", "--help"]) == 0
    out = capsys.readouterr().out
    here = [name for name in commands.BENCHMARKS if (commands.FOLDER / name / "command.py").is_file()]
    assert all(name in out for name in here)
    assert main.run_command_line(["bench", "no-such-benchmark"]) == 2
