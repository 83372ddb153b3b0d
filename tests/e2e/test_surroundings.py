"""``tunesmith doctor`` in strange surroundings, in which other files start whole stacks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from surroundings import hostile, sprung, without_unicode

pytestmark = pytest.mark.timeout(400)


def test_the_doctor_works_in_a_hostile_folder(tmp_path: Path, stack_env: dict[str, str]) -> None:
    folder = hostile(tmp_path)
    (folder / "tunesmith.py").unlink()  # `python -m` finds that one before any code of ours runs
    done = subprocess.run(
        [sys.executable, "-m", "tunesmith.cli", "doctor"],
        cwd=folder,
        env=without_unicode(stack_env),
        capture_output=True,
        timeout=200,
        check=False,
    )
    assert b"Traceback" not in done.stderr
    done.stderr.decode("ascii")
    lines = [line for line in done.stdout.decode("ascii").splitlines() if line.startswith(("ok ", "note ", "FAIL "))]
    checks = {line[5:23].strip(): line[24:] for line in lines}
    assert done.returncode == 0, lines
    assert checks["tvm"] == "compiles, links and runs"
    assert checks["box"].startswith(("namespaces", "landlock"))
    assert {"linker", "redis", "threads", "peak", "bandwidth", "bf16", "int8", "noise floor", "host"} <= checks.keys()
    assert sprung(folder) == ""
