"""How a process that compiles a tuned model for a GPU finds compilers and headers."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tunesmith import cuda
from tunesmith.sdk import tuned

pytestmark = pytest.mark.parallel


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the extra ``cuda`` installs, without a toolkit next to it."""
    root = tmp_path / "nvidia" / "cu13"
    for header, folder in cuda.HEADERS.items():
        (root / folder / header).parent.mkdir(parents=True)
        (root / folder / header).touch()
    (root / "lib").mkdir()
    monkeypatch.setattr(cuda, "packages", lambda: [root])
    return root


def test_without_a_toolkit_the_headers_and_the_runtime_are_those_of_the_packages(package: Path) -> None:
    assert cuda.for_child({"PATH": "", "LD_LIBRARY_PATH": "/own", cuda.NVRTC_OPTIONS: "-G"}) == {
        "LD_LIBRARY_PATH": f"/own{os.pathsep}{package / 'lib'}",
        "TVM_CUDA_COMPILE_MODE": "nvrtc",
        "CUDA_PATH": str(package),
        "TVM_CUDA_NVRTC_EXTRA_OPTS": f"-G -I{package / 'include' / 'cccl'}",
    }


def test_nvcc_comes_first_and_what_the_user_chose_stays(package: Path, tmp_path: Path) -> None:
    runtime = {"LD_LIBRARY_PATH": str(package / "lib")}
    for chosen in ({"CUDA_PATH": "/toolkit"}, {"TVM_CUDA_COMPILE_MODE": "nvcc"}):
        assert cuda.for_child({"PATH": "", **chosen}) == runtime
    (tmp_path / "nvcc").write_text("#!/bin/sh\n")
    (tmp_path / "nvcc").chmod(0o755)
    assert cuda.for_child({"PATH": str(tmp_path)}) == {**runtime, "TVM_CUDA_COMPILE_MODE": "nvcc"}


def test_without_the_extra_nothing_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "packages", lambda: [])
    assert cuda.for_child({"PATH": ""}) == {}


@pytest.mark.parametrize(("kind", "expected"), [("cuda", True), ("llvm", False)])
def test_only_a_model_for_a_gpu_is_compiled_with_these(
    kind: str, expected: bool, package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[dict[str, Any]] = []

    def run(command: list[str], limit: float, **settings: str) -> subprocess.CompletedProcess[str]:
        given.append(settings)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(tuned, "run_to_end", run)
    result = tmp_path / "result"
    (result / tuned.DATABASE).mkdir(parents=True)
    job: Any = SimpleNamespace(target_json={"kind": kind})
    nothing: Any = None
    model = tuned.TunedModel(result, job, (), nothing, "", nothing)
    assert model.compile().parent.is_dir()
    assert given == [cuda.for_child(os.environ) if expected else {}]
