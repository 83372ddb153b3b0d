"""Shared libraries in the place of a GPU's driver, made by the C compiler of this machine."""

from __future__ import annotations

import subprocess
from pathlib import Path

from workers.tvm_backend.build.linking import user_command
from workers.tvm_backend.cuda_runtime import DRIVER

FUNCTIONS = (
    "cuDeviceGetName",
    "cuFuncSetAttribute",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuLaunchKernelEx",
    "cuModuleGetFunction",
    "cuModuleLoadData",
    "cuModuleUnload",
    "cuTensorMapEncodeTiled",
)
"""What TVM's library wants of a driver."""
NO_DEVICE = 100


def library(folder: Path, name: str, source: str) -> Path:
    """Compile C to a shared library."""
    path = folder / name
    code = path.with_suffix(".c")
    code.write_text(source)
    options = ["-x", "c", "-shared", "-fPIC", f"-Wl,-soname,{name}"]
    subprocess.run([*user_command(), *options, "-o", path, code], check=True)
    return path


def driver(folder: Path) -> Path:
    """A driver without a device: TVM's library for CUDA loads with it, and nothing runs."""
    return library(folder, DRIVER, "".join(f"int {name}(void) {{ return {NO_DEVICE}; }}\n" for name in FUNCTIONS))
