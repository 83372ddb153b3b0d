"""What ``--help`` says: examples that parse, whole words, and what is not installed; version and completion."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tools import reference
from tunesmith import __version__, extras
from tunesmith.cli import main, plugins
from tunesmith.cli.examples import EXAMPLES

COMMANDS = dict(reference._commands(reference._root(), "tunesmith"))


def helped(capsys, *words):
    assert main.run_command_line([*words, "--help"]) == 0
    return capsys.readouterr().out


def test_every_command_has_an_example_and_nothing_else_has():
    assert {f"tunesmith {words}" for words in EXAMPLES} == set(COMMANDS)
    assert all(line.startswith("tunesmith ") for lines in EXAMPLES.values() for line in lines)


@pytest.mark.parametrize("words", EXAMPLES)
def test_examples_parse_and_stand_at_the_end_of_the_help(capsys, monkeypatch, words):
    monkeypatch.setenv("COLUMNS", "72")
    shown = helped(capsys, *words.split())
    assert max(map(len, shown.splitlines())) <= 72
    assert "…" not in shown
    assert "..." not in shown.replace("[ARGS]...", "")
    lines = [line.strip() for line in shown.splitlines()]
    assert lines[-len(EXAMPLES[words]) :] == list(EXAMPLES[words])
    for line in EXAMPLES[words]:
        command, rest = COMMANDS[f"tunesmith {words}"], line.removeprefix(f"tunesmith {words}")
        assert rest != line
        command.make_context(words, rest.split())


@pytest.mark.parametrize("words", [(), ("jobs",), ("bench",), ("worker",)])
def test_lists_of_commands_cut_no_word(capsys, monkeypatch, words):
    monkeypatch.setenv("COLUMNS", "72")
    shown = helped(capsys, *words)
    assert "..." not in shown.replace("[ARGS]...", "")
    assert max(map(len, shown.splitlines())) <= 72


def test_the_version_is_an_option_too(capsys):
    assert main.run_command_line(["--version"]) == 0
    assert capsys.readouterr().out == f"{__version__}\n"


@pytest.mark.parametrize(
    ("typed", "offered"), [("tunesmith jo", {"jobs"}), ("tunesmith tune --search q", {"q-learning"})]
)
def test_a_shell_completes_commands_and_choices(typed, offered):
    env = {
        **os.environ,
        "_TUNESMITH_COMPLETE": "complete_bash",
        "COMP_WORDS": typed,
        "COMP_CWORD": str(len(typed.split()) - 1),
    }
    done = subprocess.run(
        [sys.executable, "-m", "tunesmith.cli"], env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert set(done.stdout.split()) == offered, done.stderr


def test_a_missing_extra_is_marked_in_the_help_and_named_when_the_command_runs(capsys, monkeypatch):
    monkeypatch.setattr(extras, "here", lambda module: module not in ("tvm", "matplotlib"))
    shown = " ".join(helped(capsys).split())
    assert "Compile a model with its tuned schedules. (not installed: extra worker)" in shown
    assert "Run the benchmarks. (not installed: extra worker, bench)" in shown
    assert "Remove old jobs, events and unused blobs. (" not in shown
    assert main.run_command_line(["up", "--port", "0"]) == 1
    error = capsys.readouterr().err
    assert "missing_dependency" in error
    assert "pip install -e .[server,worker]" in error
    with pytest.raises(plugins.MissingDependency, match="without the extra 'worker'"):
        plugins.server_command("compare")


def test_extras_that_choices_need_are_marked(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "1000")
    monkeypatch.setenv("TERMINAL_WIDTH", "1000")
    shown = " ".join(helped(capsys, "tune").split())
    for name, (extra, _) in extras.CHOICES.items():
        assert f"{name}*" in shown
        assert f"* needs the extra '{extra}'" in shown
