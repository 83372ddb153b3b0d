"""CUDA's runtime, and TVM's library for it, with a driver and without. No GPU is needed: the driver is a stub."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import cuda_stub
import pytest

from workers.sandbox.box import installation
from workers.tvm_backend import cuda_runtime
from workers.tvm_backend.build import cuda_check, cuda_compiler
from workers.tvm_backend.cuda_runtime import Runtime

pytestmark = pytest.mark.parallel

RUNTIME = """
int cudaGetDeviceCount(int* count) { *count = 1; return 0; }
const char* cudaGetErrorString(int code) { return code == 46 ? "busy" : ""; }
int cudaDriverGetVersion(int* version) { *version = 13010; return 0; }
int cudaRuntimeGetVersion(int* version) { *version = 13050; return 0; }
int cudaDeviceGetAttribute(int* value, int attribute, int device) { *value = attribute == 75 ? 9 : 0; return 0; }
"""
LOADED = """
import json
from workers.tvm_backend.warm import warm
warm("c")
import tvm_ffi
maps = [line.split()[-1] for line in open("/proc/self/maps") if "libcudart" in line]
print(json.dumps([tvm_ffi.get_global_func("ffi.Module.create.cuda", allow_missing=True) is not None, sorted({*maps})]))
"""


@pytest.fixture
def driver(tmp_path: Path) -> Path:
    """A folder with a driver that answers nothing."""
    cuda_stub.driver(tmp_path)
    return tmp_path


def run(folder: Path, *command: str) -> Any:
    path = os.pathsep.join(entry for entry in sys.path if entry)
    env = {**os.environ, "LD_LIBRARY_PATH": str(folder), "PYTHONPATH": path, "PATH": str(folder)}
    done = subprocess.run([sys.executable, *command], env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_where_a_driver_is_tvm_loads_with_the_runtime_of_the_extra(driver: Path) -> None:
    there, loaded = run(driver, "-c", LOADED)
    assert there
    assert [Path(path).parent.parent for path in loaded] == [root for root in cuda_runtime.packages() if root.exists()]


def test_a_driver_that_is_too_old_is_told_of(driver: Path) -> None:
    found = run(driver, "-m", "workers.tvm_backend.build.cuda_check")
    assert not found["runtime"]["ok"]
    assert "driver version is insufficient" in found["runtime"]["detail"]
    assert "580" in found["runtime"]["remedy"]


def test_gpus_are_named_with_their_architecture_and_the_versions(driver: Path) -> None:
    cuda_stub.library(driver, "libcudart-stub.so", RUNTIME)
    ask = (
        "import ctypes, dataclasses, json\nfrom workers.tvm_backend import cuda_runtime\n"
        f"found = cuda_runtime.describe(ctypes.CDLL({str(driver / 'libcudart-stub.so')!r}))\n"
        "print(json.dumps(dataclasses.asdict(found)))"
    )
    found = run(driver, "-c", ask)
    assert found["ok"]
    assert [arch for _, arch in found["gpus"]] == ["sm_90"]
    assert "(sm_90)" in found["detail"]
    assert "driver for CUDA 13.1, runtime 13.5" in found["detail"]


@pytest.mark.parametrize(
    ("code", "remedy"), [(46, "another process"), (100, "CUDA_VISIBLE_DEVICES"), (4711, "nvidia-smi")]
)
def test_an_error_of_the_runtime_has_a_remedy(tmp_path: Path, code: int, remedy: str) -> None:
    source = RUNTIME.replace("*count = 1; return 0;", f"return {code};")
    runtime = cuda_stub.library(tmp_path, f"libcudart-{code}.so", source)
    found = cuda_runtime.describe(ctypes.CDLL(str(runtime)))
    assert not found.ok
    assert found.gpus == ()
    assert remedy in found.remedy


@pytest.mark.parametrize(
    ("error", "detail", "remedy"),
    [
        ("libcuda.so.1: cannot open shared object file: No such file", "no NVIDIA driver", "580"),
        ("libcudart.so.13: cannot open shared object file: No such file", "libcudart.so.13 is mi", "tunesmith[cuda]"),
        ("libtvm_runtime_cuda.so: undefined symbol: cuLaunchKernelEx", "undefined symbol: cuLaunchKernelEx", "580"),
    ],
)
def test_what_the_loader_says_is_said_in_plain_words(error: str, detail: str, remedy: str) -> None:
    found = cuda_runtime.explain(error)
    assert not found.ok
    assert detail in found.detail
    assert remedy in found.remedy


@pytest.mark.parametrize("refused", [True, False])
def test_a_runtime_that_fails_in_the_box_of_candidates_alone_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: bool
) -> None:
    outside = tmp_path / "outside"
    outside.touch()
    gpus = (("NVIDIA X", "sm_90"),)

    def load() -> Runtime:
        seen = outside.exists() or not refused
        return Runtime(True, "NVIDIA X", gpus=gpus) if seen else Runtime(False, "no GPU can be used: error 304")

    monkeypatch.setattr(installation, "gpus", lambda: (Path("/dev/tty"),))
    monkeypatch.setattr(cuda_runtime, "load", load)
    found = cuda_check.runtime()
    assert found.gpus[0][0] == "NVIDIA X"
    assert found.ok is not refused
    assert ("error 304, in the box" in found.detail) is refused


def test_the_compiler_is_tried_on_a_kernel_of_tensor_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (cuda_compiler.MODE, cuda_compiler.NVRTC_OPTIONS, "CUDA_PATH"):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert cuda_compiler.choose_compiler() == "nvrtc"
    assert cuda_compiler.try_compiler("nvrtc") == ""
    monkeypatch.setenv("CUDA_PATH", str(tmp_path))
    assert "cuda_fp16.h" in cuda_compiler.try_compiler("nvrtc")


def test_a_compiler_that_is_missing_fails_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "nvcc" in cuda_compiler.try_compiler("nvcc")
    (tmp_path / "nvcc").write_text("#!/bin/sh\necho no host compiler >&2; exit 1\n")
    (tmp_path / "nvcc").chmod(0o755)
    assert cuda_compiler.try_compiler("nvcc") == "no host compiler"
