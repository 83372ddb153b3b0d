"""Compilers of CUDA source: nvcc of the toolkit, or NVRTC from Python packages. Imports no TVM."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from tunesmith.cuda import MAJOR, MODE, NVCC, NVRTC, NVRTC_OPTIONS, TOOLKIT, headers, with_nvrtc
from tunesmith.errors import MissingDependency

FORMATS = {NVCC: "fatbin", NVRTC: "cubin"}
TRIAL = """
#include <cuda_fp16.h>
#include <mma.h>
extern "C" __global__ void trial(__half* out) {
  nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, __half> tile;
  nvcuda::wmma::fill_fragment(tile, __half(0));
  nvcuda::wmma::store_matrix_sync(out, tile, 16, nvcuda::wmma::mem_row_major);
}
"""
TRIAL_ARCH = "sm_80"
"""Every version of CUDA that TVM's kernels compile with knows it."""
TRIAL_SECONDS = 60.0
REMEDY = "building for CUDA needs nvcc on the PATH (CUDA toolkit), or NVRTC: pip install 'tunesmith[cuda]'"


def choose_compiler() -> str | None:
    """Have TVM use nvcc, else NVRTC with its headers; returns which, or None with neither."""
    if shutil.which(NVCC):
        os.environ[MODE] = NVCC
        return NVCC
    folders = headers()
    if folders is None or not _nvrtc():
        return None
    os.environ.update(with_nvrtc(folders, os.environ))
    return NVRTC


def require_compiler(kind: str) -> None:
    """Choose a compiler when ``kind`` is a target kind that needs one.

    Raises:
        MissingDependency: there is none; the detail names both remedies.
    """
    if kind == "cuda" and choose_compiler() is None:
        raise MissingDependency(REMEDY)


def check(library: Any) -> None:
    """Compile the CUDA source in ``library`` where TVM has not done so, within the target's scope.

    Without a CUDA driver TVM leaves the source as it is, for the device to compile when it loads the library. Whether
    the kernel compiles at all is part of a build.

    Raises:
        RuntimeError: the compiler's messages.
    """
    import tvm_ffi

    if tvm_ffi.get_global_func("ffi.Module.create.cuda", allow_missing=True) is not None:
        return
    for module in library.imports:
        if module.kind == "cuda":
            from tvm.support import nvcc

            mode = os.environ[MODE]
            nvcc.compile_cuda(module.inspect_source(), target_format=FORMATS[mode], compiler=mode)


def try_compiler(name: str) -> str:
    """Compile a kernel of tensor cores with the compiler that was chosen; its message, empty when that works.

    Headers of another version than the compiler's, or a nvcc without a C++ compiler, show here.
    """
    return _try_nvcc() if name == NVCC else _try_nvrtc()


def _try_nvcc() -> str:
    with tempfile.TemporaryDirectory(prefix="tunesmith-cuda-") as folder:
        source = Path(folder) / "trial.cu"
        source.write_text(TRIAL)
        command = ["nvcc", "-cubin", f"-arch={TRIAL_ARCH}", "-o", str(source.with_suffix(".cubin")), str(source)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=TRIAL_SECONDS)
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
    return "" if done.returncode == 0 else (done.stderr + done.stdout).strip() or f"exit status {done.returncode}"


def _try_nvrtc() -> str:
    from cuda.bindings import nvrtc

    _, program = nvrtc.nvrtcCreateProgram(f"#include <cuda/std/cstdint>\n{TRIAL}".encode(), b"trial.cu", 0, None, None)
    given = [f"--gpu-architecture={TRIAL_ARCH}", f"-I{os.environ[TOOLKIT]}/include"]
    options = [option.encode() for option in [*given, *shlex.split(os.environ[NVRTC_OPTIONS])]]
    (result,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    if result == nvrtc.nvrtcResult.NVRTC_SUCCESS:
        return ""
    _, size = nvrtc.nvrtcGetProgramLogSize(program)
    log = bytearray(size)
    nvrtc.nvrtcGetProgramLog(program, log)
    return log.rstrip(b"\0\n").decode(errors="replace") or str(result)


def _nvrtc() -> bool:
    try:
        from cuda.bindings import nvrtc

        result, major, _ = nvrtc.nvrtcVersion()
        return bool(result == nvrtc.nvrtcResult.NVRTC_SUCCESS and major == MAJOR)
    except (ImportError, RuntimeError, OSError):
        return False
