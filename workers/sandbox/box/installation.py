"""What Python, its packages and the C library read: the part of the file system that a box leaves in sight."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

PACKAGES = ("tunesmith", "costmodels", "db", "workers")
SYSTEM = (
    "/usr",
    "/lib",
    "/lib32",
    "/lib64",
    "/bin",
    "/sbin",
    "/etc/alternatives",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/passwd",
    "/etc/group",
    "/etc/nsswitch.conf",
    "/nix/store",
    "/sys/devices/system",
    "/sys/kernel/mm/transparent_hugepage",
)
GPU = ("/sys/bus/pci", "/sys/class", "/sys/devices", "/sys/module/nvidia", "/sys/module/nvidia_uvm", "/etc/OpenCL")
DEVICES = tuple(Path("/dev") / name for name in ("null", "zero", "full", "random", "urandom"))
_PROCESSES = (
    "cpuinfo",
    "meminfo",
    "stat",
    "version",
    "filesystems",
    "devices",
    "modules",
    "driver",
    "sys/kernel/random",
    "sys/kernel/osrelease",
    "sys/vm/overcommit_memory",
    "sys/vm/mmap_min_addr",
)


def readable() -> list[Path]:
    """Folders and files without symbolic links, none inside another."""
    found = {Path(os.path.realpath(path)) for path in _candidates() if os.path.exists(path)}
    return sorted(path for path in found if not found & set(path.parents) and path != Path("/"))


def links() -> dict[Path, Path]:
    """The names with symbolic links in them by which the installation is known, and where each leads."""
    named = (Path(os.path.abspath(path)) for path in _candidates() if os.path.exists(path))
    return {path: goal for path in named if (goal := Path(os.path.realpath(path))) != path}


def processes() -> list[Path]:
    """What ``/proc`` says of this process and of the machine; nothing of other processes."""
    return [Path("/proc") / str(os.getpid()), *(Path("/proc") / name for name in _PROCESSES)]


def threads() -> Path:
    """What ``/proc`` says of this process's threads. A GPU's driver names its own there, or gives up."""
    return Path("/proc") / str(os.getpid()) / "task"


def gpus() -> tuple[Path, ...]:
    """Device files of the GPUs that this machine has."""
    return tuple(sorted([*Path("/dev").glob("nvidia*"), *Path("/dev/nvidia-caps").glob("*")]))


def _candidates() -> Iterator[str]:
    yield from SYSTEM
    if gpus():
        yield from GPU
        nvcc = shutil.which("nvcc")
        yield from () if nvcc is None else (os.path.dirname(os.path.dirname(os.path.realpath(nvcc))),)
    yield from (value for name, value in sysconfig.get_paths().items() if "lib" in name)
    for prefix in {sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix}:
        yield from (os.path.join(prefix, name) for name in ("bin", "lib", "lib64", "pyvenv.cfg"))
    yield from (path for path in sys.path if os.path.basename(path) in ("site-packages", "dist-packages"))
    yield from (path for path in os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep) if os.path.isabs(path))
    for name in PACKAGES:
        spec = importlib.util.find_spec(name)
        yield from (spec.submodule_search_locations or ()) if spec else ()
