"""Compiler libraries do not write to the terminal."""

from __future__ import annotations

import os
import sys

import pytest

from tunesmith.errors import InvalidInput
from workers.quiet import libraries_are_quiet

WARNING = "[10:00:00] apply_custom_rule.cc:64: Warning: Unknown schedule rule"


def library_warns(error=None):
    os.write(2, f"{WARNING}\n".encode())
    if error is not None:
        raise error


def test_warnings_of_libraries_stay_away_and_words_of_python_arrive(capfd, monkeypatch):
    monkeypatch.setattr(sys, "stderr", os.fdopen(os.dup(2), "w"))
    with sys.stderr, libraries_are_quiet():
        library_warns()
        print("compiling", file=sys.stderr)
    library_warns()
    assert capfd.readouterr().err.splitlines() == ["compiling", WARNING]


@pytest.mark.parametrize(
    ("error", "shown"), [(InvalidInput("no"), False), (KeyboardInterrupt(), False), (SystemError("what"), True)]
)
def test_what_was_kept_away_is_shown_after_an_error_that_nobody_foresaw(capfd, monkeypatch, error, shown):
    monkeypatch.setattr(sys, "stderr", os.fdopen(os.dup(2), "w"))
    with sys.stderr:
        with pytest.raises(type(error)), libraries_are_quiet():
            library_warns(error)
    assert (WARNING in capfd.readouterr().err) is shown
