"""``tunesmith tune`` in terminals of several widths, against a recorded stack."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from effort import THOROUGH
from pseudo_terminal import BAR, bar_faults, run_in_terminal, words_of
from replayed_tune import LONG_WAIT, PROCESSES

HELPERS = Path(__file__).parents[2] / "helpers"
PHASES = [
    "starting",
    "importing",
    "preparing",
    "tuning",
    "waiting",
    "paused",
    "tuning",
    "checking",
    "saving",
    "stopping",
    "done",
]


@pytest.mark.parametrize("columns", [72, 80, 120] if THOROUGH else [72, 120])
def test_a_run_fits_the_terminal_from_the_first_second_to_the_last(tmp_path, columns):
    path = os.pathsep.join([str(HELPERS), *(entry for entry in sys.path if entry)])
    command = [sys.executable, "-m", "replayed_tune", "--data-dir", "data"]
    session = run_in_terminal(command, columns, {**os.environ, "PYTHONPATH": path}, within=60.0, cwd=tmp_path)
    last = session.screens()[-1]
    assert session.status == 0, last
    assert bar_faults(session) == []
    seen = [row.split()[0] for screen in session.screens() for row in screen if "━" in row]
    assert list(dict.fromkeys(seen)) == list(dict.fromkeys(PHASES))
    text = words_of(last)
    assert "(efficientnet_lite4_quantized.onnx, 1234 trials), left by a stack that was killed" in text
    assert f"NVIDIA H100 80GB has rested: {LONG_WAIT['reason']}" in text
    assert text.count("done") == 1
    rows = [row for screen in session.screens() for row in screen if row.startswith("tuning")]
    bars = {sum(each in BAR for each in row) for row in rows}  # its ends may be halves
    assert max(bars) < columns
    assert min(bars) >= 8
    assert any(name in row for screen in session.screens() for row in screen for name in PROCESSES)
