"""What of the service's environment a process gets that runs other people's code: no setting of Tunesmith, no
secret."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

NAMES = frozenset(
    {
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "LANG",
        "LANGUAGE",
        "TZ",
        "TMPDIR",
        "LD_LIBRARY_PATH",
        "LD_PRELOAD",
        "VIRTUAL_ENV",
        "CC",
        "CXX",
        "GLIBC_TUNABLES",
    }
)
PREFIXES = (
    "LC_",
    "PYTHON",
    "TVM_",
    "OMP_",
    "OPENBLAS_",
    "MKL_",
    "GOMP_",
    "KMP_",
    "MALLOC_",
    "CUDA_",
    "NVIDIA_",
    "NVCC_",
    "ZIG_",
)


def scrubbed(environment: Mapping[str, str], *more: str) -> dict[str, str]:
    """The variables that Python, compilers and libraries of mathematics read, and those named in ``more``."""
    return {
        name: value for name, value in environment.items() if name in NAMES or name in more or name.startswith(PREFIXES)
    }


def exposed(*more: str) -> bool:
    """True where this process was started with variables that :func:`scrubbed` would leave out.

    What is deleted later stays readable, in ``/proc`` and in the memory of whatever is forked.
    """
    try:
        given = Path("/proc/self/environ").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return False
    started = dict(each.split("=", 1) for each in given if "=" in each)
    return started != scrubbed(started, *more)
