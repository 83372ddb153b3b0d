"""What every process of a host has to agree on, and what its CPU can do."""

from __future__ import annotations

import contextlib
import ctypes
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from tunesmith.arithmetic import FLAGS

CACHES = Path("/sys/devices/system/cpu")
UNIT = "amx"
"""How the names of a matrix unit's features begin, which only x86 has."""
ARCH_PRCTL, GET_SUPPORTED, TILE_DATA = 158, 0x1021, 18
"""Linux on x86: a system call, its ``ARCH_GET_XCOMP_SUPP``, and the state of tiles among what that tells."""


def default_lease_path() -> Path:
    """``TUNESMITH_LEASE_FILE``, else one file per user in the temporary folder."""
    given = os.environ.get("TUNESMITH_LEASE_FILE")
    return Path(given) if given else Path(tempfile.gettempdir()) / f"tunesmith-{os.getuid()}.lease"


def cpu_lines() -> dict[str, str]:
    """What the kernel says of the first CPU, by its word for it; nothing where it does not say."""
    with contextlib.suppress(OSError):
        first = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").partition("\n\n")[0]
        pairs = (line.partition(":") for line in first.splitlines())
        return {name.strip(): value.strip() for name, _, value in pairs}
    return {}


def cpu_flags() -> frozenset[str]:
    """What the kernel says that this host's CPU can do; nothing where it does not say."""
    lines = cpu_lines()
    return frozenset((lines.get("flags") or lines.get("Features") or "").split())


def cpu_features() -> tuple[str, ...]:
    """What this host's CPU has of all that kernels ask for, by LLVM's names, sorted."""
    flags = cpu_flags()
    found = sorted(feature for feature, flag in FLAGS.items() if flag in flags)
    unit = any(feature.startswith(UNIT) for feature in found) and _gives_unit()
    return tuple(feature for feature in found if unit or not feature.startswith(UNIT))


def _gives_unit() -> bool:
    """Whether Linux lets a process use AMX's tiles: a sandbox may hide that from one that sees the CPU's flags."""
    supported = ctypes.c_uint64(0)
    failed = ctypes.CDLL(None).syscall(ARCH_PRCTL, GET_SUPPORTED, ctypes.byref(supported))
    return not failed and bool(supported.value >> TILE_DATA & 1)


def cache_sizes(cores: Iterable[int] | None = None, root: Path = CACHES) -> dict[int, int]:
    """Bytes of the data caches by level that some cores of this host have; empty where the system does not tell.

    Args:
        cores: their numbers; None: those that this process may run on. A cache that several share counts once.
    """
    cores = os.sched_getaffinity(0) if cores is None else cores
    seen: dict[tuple[int, str], int] = {}
    for folder in (path for core in cores for path in root.glob(f"cpu{core}/cache/index[0-9]*")):
        facts = {name: _read_fact(folder / name) for name in ("level", "type", "size", "shared_cpu_list")}
        size = facts["size"].removesuffix("K")
        if facts["type"] == "Instruction" or not (facts["level"].isdigit() and size.isdigit()):
            continue
        seen[int(facts["level"]), facts["shared_cpu_list"]] = int(size) * 1024
    return {level: sum(size for (at, _), size in seen.items() if at == level) for level, _ in sorted(seen)}


def core_caches(root: Path = CACHES) -> tuple[int, ...]:
    """Bytes of data cache that one core of this host can use, level 1 first; empty where the system does not tell."""
    first = min(os.sched_getaffinity(0))
    return tuple(cache_sizes([first], root).values())


def _read_fact(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return ""
