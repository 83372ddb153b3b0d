"""Builds for NVIDIA targets where no nvcc is on the PATH. No GPU is needed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import cuda_probe
import cuda_stub
import pytest

from workers.tvm_backend import cuda_runtime
from workers.tvm_backend.build import cuda_compiler
from workers.tvm_backend.build.linking import COMPILERS, LINKERS

pytestmark = pytest.mark.servers


TAGS = ("nvidia/nvidia-a100", "nvidia/nvidia-h100")


@pytest.fixture(scope="module")
def answer(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the extra ``cuda`` alone builds: neither a toolkit nor its headers are in sight."""
    return probed(tmp_path_factory.mktemp("cuda"), {}, str(len(cuda_probe.PRODUCTS)), *TAGS)


def probed(folder: Path, more: dict[str, str], *arguments: str) -> dict[str, Any]:
    env = {name: value for name, value in os.environ.items() if not name.startswith(("CUDA", "TVM_"))}
    env.update(PATH=str(tools(folder)), PYTHONPATH=os.pathsep.join(entry for entry in sys.path if entry), **more)
    command = [sys.executable, cuda_probe.__file__, str(folder), *arguments]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def tools(folder: Path) -> Path:
    """A folder for the PATH with what links libraries, and nothing else."""
    made = folder / "bin"
    made.mkdir()
    for name in (*LINKERS, *COMPILERS):
        if found := shutil.which(name):
            (made / name).symlink_to(found)
    return made


def test_nvrtc_compiles_with_headers_of_its_own_version(answer: dict[str, Any]) -> None:
    assert answer["compiler"] == "nvrtc"
    assert Path(answer["headers"]) in cuda_runtime.packages()


@pytest.mark.parametrize(
    ("operands", "sums", "arch"),
    [(*case[:2], arch) for case in cuda_probe.PRODUCTS for arch in cuda_probe.gpus_of(case, ("sm_80", "sm_90a"))],
)
def test_candidates_are_built_without_a_toolkit(answer: dict[str, Any], operands: str, sums: str, arch: str) -> None:
    wanted = (operands, sums, arch)
    built = [item for item in answer["built"] if (item["operands"], item["sums"], item["arch"]) == wanted]
    assert [item["message"] for item in built if item["failure"]] == []
    assert "candidate" in {item["schedule"] for item in built if item["built"]}


def test_models_are_compiled_with_what_was_tuned(answer: dict[str, Any]) -> None:
    assert [model["applied"] for model in answer["models"]] == [1] * len(cuda_probe.PRODUCTS)


def test_on_the_host_of_a_gpu_libraries_hold_machine_code(tmp_path: Path) -> None:
    cuda_stub.driver(tmp_path)
    found = probed(tmp_path, {"LD_LIBRARY_PATH": str(tmp_path)}, "1", TAGS[0])
    assert [item["message"] for item in found["built"]] == ["", ""]
    assert found["models"][0]["applied"] == 1
    assert [item["cubins"] for item in (*found["built"], *found["models"])] == [["sm_80"]] * 3


def test_nvcc_comes_first_and_options_are_added_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (cuda_compiler.MODE, cuda_compiler.NVRTC_OPTIONS, "CUDA_PATH"):
        monkeypatch.setenv(name, "-G" if name == cuda_compiler.NVRTC_OPTIONS else "")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert cuda_compiler.choose_compiler() == "nvrtc"
    assert cuda_compiler.choose_compiler() == "nvrtc"
    options = os.environ[cuda_compiler.NVRTC_OPTIONS].split()
    assert options[0] == "-G"
    assert len(options) == 2, "the headers of the runtime and of tensor cores are found by CUDA_PATH"
    assert (Path(os.environ["CUDA_PATH"]) / "include" / "cuda_runtime.h").is_file()
    (tmp_path / "nvcc").write_text("#!/bin/sh\n")
    (tmp_path / "nvcc").chmod(0o755)
    assert cuda_compiler.choose_compiler() == "nvcc"
    assert os.environ[cuda_compiler.MODE] == "nvcc"
