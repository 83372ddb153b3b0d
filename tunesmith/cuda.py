"""What tells TVM how to compile CUDA source: with nvcc of the toolkit, or with NVRTC and headers of Python packages."""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

MAJOR = 13
"""The version of CUDA: TVM's wheel is linked with its runtime, and so NVRTC and its headers are of it, too."""
NVCC, NVRTC = "nvcc", "nvrtc"
MODE = "TVM_CUDA_COMPILE_MODE"
NVRTC_OPTIONS = "TVM_CUDA_NVRTC_EXTRA_OPTS"
TOOLKIT = "CUDA_PATH"
LOADER = "LD_LIBRARY_PATH"
HEADERS = {"cuda_runtime.h": "include", "crt/mma.h": "include", "cuda/std/cstdint": "include/cccl"}
"""What TVM's kernels include, those of tensor cores too, and in which folder below ``nvidia/cu13`` it is."""


def packages() -> list[Path]:
    """Folders in which Python packages keep their part of CUDA."""
    spec = importlib.util.find_spec("nvidia")
    roots = (spec.submodule_search_locations or ()) if spec else ()
    return [Path(root) / f"cu{MAJOR}" for root in roots if root]


def headers() -> list[Path] | None:
    """The folders with headers of NVRTC's own version, that of the runtime first; None when one is not installed."""
    found = []
    for header, folder in HEADERS.items():
        at = next((root / folder for root in packages() if (root / folder / header).is_file()), None)
        if at is None:
            return None
        found.append(at)
    return found


def with_nvrtc(folders: Sequence[Path], environment: Mapping[str, str]) -> dict[str, str]:
    """Settings that have TVM use NVRTC with these headers: those of a toolkit of another version do not compile."""
    given = shlex.split(environment.get(NVRTC_OPTIONS, ""))
    wanted = dict.fromkeys(f"-I{folder}" for folder in folders if folder != folders[0])
    options = shlex.join([*given, *(option for option in wanted if option not in given)])
    return {MODE: NVRTC, TOOLKIT: str(folders[0].parent), NVRTC_OPTIONS: options}


def for_child(environment: Mapping[str, str]) -> dict[str, str]:
    """Settings of a process that compiles with TVM alone, which looks for a toolkit only.

    By them the system's loader finds CUDA's runtime in a package, too: without it TVM leaves the kernels as source.
    What the environment says of the compiler stays.
    """
    libraries = [folder for root in packages() if (folder := root / "lib").is_dir()]
    paths = [*filter(None, environment.get(LOADER, "").split(os.pathsep)), *map(str, libraries)]
    found = {LOADER: os.pathsep.join(paths)} if libraries else {}
    if MODE in environment or TOOLKIT in environment:
        return found
    if shutil.which(NVCC, path=environment.get("PATH")):
        return {**found, MODE: NVCC}
    folders = headers()
    return found if folders is None else {**found, **with_nvrtc(folders, environment)}
