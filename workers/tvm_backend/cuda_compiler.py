"""Compilers of CUDA source: nvcc of the toolkit, or NVRTC from a Python package."""

from __future__ import annotations

import os
import shutil
from typing import Any

from tunesmith.errors import MissingDependency

MODE = "TVM_CUDA_COMPILE_MODE"
FORMATS = {"nvcc": "fatbin", "nvrtc": "cubin"}
REMEDY = "building for CUDA needs nvcc on the PATH (CUDA toolkit), or NVRTC: pip install 'tunesmith[cuda]'"


def choose_compiler() -> str | None:
    """Have TVM use nvcc, else NVRTC; returns which, or None with neither."""
    found = "nvcc" if shutil.which("nvcc") else "nvrtc" if _nvrtc() else None
    if found is not None:
        os.environ[MODE] = found
    return found


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


def _nvrtc() -> bool:
    try:
        from cuda.bindings import nvrtc

        return bool(nvrtc.nvrtcVersion()[0] == nvrtc.nvrtcResult.NVRTC_SUCCESS)
    except (ImportError, RuntimeError, OSError):
        return False
