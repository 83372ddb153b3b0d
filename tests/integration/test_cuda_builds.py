"""Builds for NVIDIA targets where no nvcc is on the PATH. No GPU is needed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import cuda_probe
import pytest

from workers.tvm_backend import cuda_compiler
from workers.tvm_backend.linking import COMPILERS, LINKERS

pytestmark = pytest.mark.pair


def test_nvrtc_builds_with_headers_of_its_own_version(tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in (*LINKERS, *COMPILERS):
        if found := shutil.which(name):
            (tools / name).symlink_to(found)
    env = {**os.environ, "PATH": str(tools), "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    command = [sys.executable, cuda_probe.__file__, str(tmp_path)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr[-2000:]
    answer = json.loads(done.stdout.splitlines()[-1])
    assert answer["compiler"] == "nvrtc"
    assert [item["message"] for item in answer["built"]] == ["", ""]
    assert all(item["size"] > 0 for item in answer["built"])


def test_nvcc_comes_first_and_options_are_added_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (cuda_compiler.MODE, cuda_compiler.NVRTC_OPTIONS, "CUDA_PATH"):
        monkeypatch.setenv(name, "-G" if name == cuda_compiler.NVRTC_OPTIONS else "")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert cuda_compiler.choose_compiler() == "nvrtc"
    assert cuda_compiler.choose_compiler() == "nvrtc"
    options = os.environ[cuda_compiler.NVRTC_OPTIONS].split()
    assert options[0] == "-G"
    assert len(options) == len(cuda_compiler.HEADERS)
    assert (Path(os.environ["CUDA_PATH"]) / "include" / "cuda_runtime.h").is_file()
    (tmp_path / "nvcc").write_text("#!/bin/sh\n")
    (tmp_path / "nvcc").chmod(0o755)
    assert cuda_compiler.choose_compiler() == "nvcc"
    assert os.environ[cuda_compiler.MODE] == "nvcc"
