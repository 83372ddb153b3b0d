"""What every process of a host has to agree on, and what its CPU can do."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from tunesmith.arithmetic import FLAGS


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
    return tuple(sorted(feature for feature, flag in FLAGS.items() if flag in flags))
