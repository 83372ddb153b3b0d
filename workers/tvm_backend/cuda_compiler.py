"""Compilers of CUDA source: nvcc of the toolkit, or NVRTC from Python packages. Imports no TVM."""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
from pathlib import Path
from typing import Any

from tunesmith.errors import MissingDependency

MODE = "TVM_CUDA_COMPILE_MODE"
NVRTC_OPTIONS = "TVM_CUDA_NVRTC_EXTRA_OPTS"
FORMATS = {"nvcc": "fatbin", "nvrtc": "cubin"}
HEADERS = {"cuda_runtime": "cuda_runtime.h", "cuda_cccl": "cuda/std/cstdint"}
"""Packages below ``nvidia`` with the headers of TVM's kernels, and a header that each of them has."""
REMEDY = "building for CUDA needs nvcc on the PATH (CUDA toolkit), or NVRTC: pip install 'tunesmith[cuda]'"


def choose_compiler() -> str | None:
    """Have TVM use nvcc, else NVRTC with its headers; returns which, or None with neither."""
    if shutil.which("nvcc"):
        os.environ[MODE] = "nvcc"
        return "nvcc"
    headers = _headers()
    if headers is None or not _nvrtc():
        return None
    os.environ[MODE] = "nvrtc"
    _use(headers)
    return "nvrtc"


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


def _headers() -> list[Path] | None:
    """The header folders of the packages that belong to NVRTC's; None when one is not installed."""
    spec = importlib.util.find_spec("nvidia")
    roots = [Path(root) for root in (spec.submodule_search_locations or ()) if root] if spec else []
    found = []
    for package, header in HEADERS.items():
        folders = [root / package / "include" for root in roots]
        folder = next((folder for folder in folders if (folder / header).is_file()), None)
        if folder is None:
            return None
        found.append(folder)
    return found


def _use(headers: list[Path]) -> None:
    """Point TVM at the headers of NVRTC's own version: those of a toolkit of another version do not compile."""
    os.environ["CUDA_PATH"] = str(headers[0].parent)
    given = shlex.split(os.environ.get(NVRTC_OPTIONS, ""))
    wanted = [f"-I{folder}" for folder in headers[1:]]
    os.environ[NVRTC_OPTIONS] = shlex.join([*given, *(option for option in wanted if option not in given)])
