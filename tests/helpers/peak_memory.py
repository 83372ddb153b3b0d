"""How far this process grows during a piece of work, whatever it held before."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PROCESS = Path("/proc/self")


def _now(figure: str) -> int:
    """A figure of the process's status, in bytes."""
    found = re.search(rf"^{figure}:\s+(\d+) kB$", (PROCESS / "status").read_text(), re.MULTILINE)
    assert found is not None, figure
    return 1024 * int(found[1])


@contextmanager
def grows_by_less_than(most: int) -> Iterator[None]:
    """The most that it holds meanwhile is less than ``most`` bytes above what it holds now."""
    (PROCESS / "clear_refs").write_text("5")  # the peak begins anew: proc_pid_clear_refs(5)
    before = _now("VmRSS")
    yield
    assert _now("VmHWM") - before < most
