"""Models that are changed at random are imported or refused by name."""

from __future__ import annotations

import io
import random
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from effort import THOROUGH

from tools.mutants import changes, models, running

pytestmark = pytest.mark.parallel

ROOT = Path(__file__).parents[3]


def test_mutants_are_imported_or_refused_by_name() -> None:
    """In a process of its own, which forks one for each."""
    count = 120 if THOROUGH else 12
    command = [sys.executable, "-m", "tools.mutants", str(count), "--seed", "1", "--import-only"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)
    assert found.returncode == 0, found.stderr
    rows = [row.split("|")[1:-1] for row in found.stdout.splitlines() if row.startswith("| ")]
    counts = dict(zip((each.strip() for each in rows[0]), (each.strip() for each in rows[-1]), strict=True))
    assert sum(int(each) for name, each in counts.items() if name != "model") == count
    assert int(counts[running.IMPORTED])
    assert int(counts["`model_rejected`"])
    assert [counts[each] for each in (running.UNTYPED, running.CRASH, running.TIMEOUT)] == ["0", "0", "0"]


@pytest.mark.parametrize("name", [name for name in models.MODELS if name.endswith(".onnx")])
def test_the_same_seed_makes_the_same_mutant(tmp_path: Path, name: str) -> None:
    models.MODELS[name](tmp_path / name)
    data = (tmp_path / name).read_bytes()
    made = [changes.change(name, data, random.Random("1/2")) for _ in range(2)]
    assert made[0] == made[1]
    assert {changes.change(name, data, random.Random(each)) for each in range(9)} != {data}


def test_a_description_that_loses_all_it_has() -> None:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("net/models/model.json", '{"a": [1]}')
    found = [changes.description_changed(made.getvalue(), random.Random(each)) for each in range(200)]
    assert all(zipfile.is_zipfile(io.BytesIO(each)) for each in found)


def test_an_import_that_does_not_end_and_one_that_crashes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "SECONDS", 0.5)
    monkeypatch.setattr(running, "_import", lambda *_: __import__("threading").Event().wait())
    assert running.outcome_of(tmp_path / "a.onnx", "a.onnx", False)[0] == running.TIMEOUT
    monkeypatch.setattr(running, "SECONDS", 60.0)
    monkeypatch.setattr(running, "_import", lambda *_: __import__("os").abort())
    assert running.outcome_of(tmp_path / "a.onnx", "a.onnx", False) == (running.CRASH, "SIGABRT")
    monkeypatch.setattr(running, "_import", lambda *_: {}["a"])
    assert running.outcome_of(tmp_path / "a.onnx", "a.onnx", False) == (running.UNTYPED, "KeyError: 'a'")
