"""The runtime library of CUDA, and TVM's own that is linked with it. Imports no TVM."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tunesmith.cuda import MAJOR, packages

LIBRARY = f"libcudart.so.{MAJOR}"
DRIVER = "libcuda.so.1"
NEWER = "install NVIDIA's driver 580 or later, which CUDA 13 needs"
GUIDE = "https://docs.nvidia.com/cuda/cuda-runtime-api says more of the error; 'nvidia-smi' shows what the driver sees"
NO_DRIVER = 35
REMEDIES: Mapping[int, str] = {
    NO_DRIVER: NEWER,
    46: "another process has the GPU for itself: end it, or set the compute mode to 'default' with nvidia-smi",
    100: "CUDA_VISIBLE_DEVICES may hide the GPU, and a container must be given it (docker run --gpus all)",
    803: "the driver was updated while it ran: restart the machine",
    804: f"this GPU has no forward compatibility: {NEWER}",
}
"""What helps against an error of the runtime, by its number."""
MAJOR_ATTRIBUTE, MINOR_ATTRIBUTE = 75, 76


@dataclass(frozen=True)
class Runtime:
    """What came of loading TVM's library for CUDA.

    Attributes:
        ok: GPUs can be used.
        detail: what there is, or what is wrong, in plain words.
        remedy: what to do about that.
        gpus: name and architecture (``sm_90``) of each.
    """

    ok: bool
    detail: str
    remedy: str = ""
    gpus: tuple[tuple[str, str], ...] = ()


def preload() -> None:
    """Load CUDA's runtime from the extra ``cuda``, where it is installed.

    The system's loader does not look into Python packages, but knows what is loaded already by its name: TVM's
    library for CUDA, which TVM leaves out silently when it does not load, finds it this way. Call it before TVM is
    imported.
    """
    path = next((found for root in packages() if (found := root / "lib" / LIBRARY).is_file()), None)
    if path is not None:
        with contextlib.suppress(OSError):  # `tunesmith doctor` reports it
            ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)


def load() -> Runtime:
    """Load TVM's library for CUDA into this process, and ask the runtime for its GPUs."""
    preload()
    ffi, library = _part_of("tvm_ffi", "libtvm_ffi.so"), _part_of("tvm", "libtvm_runtime_cuda.so")
    if ffi is None or library is None:
        return Runtime(False, "this TVM was built without CUDA", "pip install apache-tvm, whose wheel has it")
    try:
        ctypes.CDLL(str(ffi), mode=ctypes.RTLD_GLOBAL)
        ctypes.CDLL(str(library))
        return describe(ctypes.CDLL(LIBRARY))
    except OSError as error:
        return explain(str(error))


def explain(error: str) -> Runtime:
    """What the loader's message means."""
    if DRIVER in error and "cannot open" in error:
        return Runtime(
            False,
            f"no NVIDIA driver here ({DRIVER} is missing): nothing runs on a GPU",
            f"on the host of a GPU {NEWER}; a container must be given the GPU (docker run --gpus all)",
        )
    if LIBRARY in error and "cannot open" in error:
        return Runtime(False, f"{LIBRARY} is missing, which TVM needs", "pip install 'tunesmith[cuda]'")
    return Runtime(False, f"TVM's library for CUDA does not load: {error}", NEWER)


def _part_of(package: str, name: str) -> Path | None:
    spec = importlib.util.find_spec(package)
    folders = (spec.submodule_search_locations or ()) if spec else ()
    return next((path for folder in folders if (path := Path(folder) / "lib" / name).is_file()), None)


def describe(runtime: ctypes.CDLL) -> Runtime:
    """What a runtime says that was loaded."""
    runtime.cudaGetErrorString.restype = ctypes.c_char_p
    count = ctypes.c_int()
    code = int(runtime.cudaGetDeviceCount(ctypes.byref(count)))
    versions = f"driver for CUDA {_version(runtime, 'Driver')}, runtime {_version(runtime, 'Runtime')}"
    if code != 0:
        what = runtime.cudaGetErrorString(code).decode(errors="replace")
        return Runtime(False, f"no GPU can be used: {what} ({versions})", REMEDIES.get(code, GUIDE))
    gpus = tuple(_gpu(runtime, index) for index in range(count.value))
    return Runtime(True, ", ".join(f"{name} ({arch})" for name, arch in gpus) + f"; {versions}", gpus=gpus)


def _version(runtime: ctypes.CDLL, kind: str) -> str:
    found = ctypes.c_int()
    code = getattr(runtime, f"cuda{kind}GetVersion")(ctypes.byref(found))
    return "unknown" if code or not found.value else f"{found.value // 1000}.{found.value % 1000 // 10}"


def _gpu(runtime: ctypes.CDLL, index: int) -> tuple[str, str]:
    name, version = ctypes.create_string_buffer(256), []
    ctypes.CDLL(DRIVER).cuDeviceGetName(name, len(name), index)
    for attribute in (MAJOR_ATTRIBUTE, MINOR_ATTRIBUTE):
        value = ctypes.c_int()
        runtime.cudaDeviceGetAttribute(ctypes.byref(value), attribute, index)
        version.append(value.value)
    return name.value.decode(errors="replace"), "sm_{}{}".format(*version)
