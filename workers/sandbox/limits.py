"""What a process that builds or runs candidates may use of the host's memory, and how its end is recognised (Linux)."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
from pathlib import Path

MIB = 1 << 20
ROOM = 256 * MIB
"""A process gets at least this much beyond what it has already."""
EXHAUSTED_SHARE = 0.8
"""A process that died with this much of its memory in use died for want of more."""
OOM_SCORE = 500
"""Added to its badness: should the host run out of memory all the same, the kernel ends such a process first."""
STDERR_TAIL_BYTES = 2000
"""How much of what a process said at its end is looked at."""
OUT_OF_MEMORY_TEXTS = ("bad_alloc", "memoryerror", "out of memory", "cannot allocate memory", "std::length_error")

NOISE = ("File ", "!!!!", "<")
"""How lines of TVM's native backtraces begin."""


def host_memory() -> int:
    """Bytes of memory that this host, or the container that this process is in, has."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([total, *_container_limits()])


def allowance(share: float) -> int:
    """``share`` of the host's memory in bytes; 0: no limit."""
    return int(share * host_memory())


def restrict(size: int) -> int:
    """Let this process, and those that it starts, use no more than ``size`` bytes of data each; 0: as they like.

    A process that crashes writes no core file, whatever the size.

    ``RLIMIT_DATA`` counts private writable memory, touched or not. It leaves out libraries, mapped files and the
    address space that allocators and GPU drivers reserve but do not use, which ``RLIMIT_AS`` would count.

    Returns:
        The limit that was set: more than ``size`` when the process uses almost as much already; 0 when there is none.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if size <= 0:
        return 0
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(str(OOM_SCORE), encoding="ascii")
    size = max(size, _data_size() + ROOM)
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if hard != resource.RLIM_INFINITY:
        size = min(size, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (size, hard))
    return size


def exit_reason(code: int, peak: int, limit: int, said: str = "") -> str:
    """How a process ended: ``was ended by SIGSEGV, out of memory: …``.

    Args:
        code: exit code, negative for a signal, as ``subprocess`` has it.
        peak: bytes that it had in memory at most.
        limit: what it was restricted to, 0: nothing.
        said: the end of its standard error.
    """
    text = f"was ended by {signal_name(-code)}" if code < 0 else f"ended with exit code {code}"
    if code == -signal.SIGFPE:
        return f"{text}: it divided a whole number by zero"
    if code and limit and peak >= EXHAUSTED_SHARE * limit:
        return f"{text}, out of memory: it used {peak // MIB} MiB and may have {limit // MIB} MiB"
    lines = [line.strip() for line in said.splitlines() if line.strip() and not line.lstrip().startswith(NOISE)]
    return f"{text}, {about_memory(': '.join(lines[-2:]))}" if code and lines else text


def signal_name(number: int) -> str:
    """``SIGSEGV`` for 11; the number where it has no name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def about_memory(message: str) -> str:
    """The message of an error, which names what was lacking when that was memory."""
    lower = message.lower()
    if any(words in lower for words in OUT_OF_MEMORY_TEXTS) and "out of memory" not in lower:
        return f"out of memory: {message}"
    return message


def address_space() -> int:
    """Bytes of this process that ``RLIMIT_AS`` counts."""
    return _size("VmSize:")


def _data_size() -> int:
    """Bytes of this process that ``RLIMIT_DATA`` counts."""
    return _size("VmData:")


def _size(name: str) -> int:
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith(name):
                return int(line.split()[1]) * 1024
    return 0


def _container_limits() -> list[int]:
    """Bytes that the control groups of this process allow, as far as they do; versions 2 and 1."""
    found = []
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
            number, controllers, name = line.split(":", 2)
            if number == "0":
                root, file = Path("/sys/fs/cgroup"), "memory.max"
            elif "memory" in controllers.split(","):
                root, file = Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes"
            else:
                continue
            # Inside a container the path is the host's, and the group's own files lie at the root.
            for folder in {root, root / name.lstrip("/")}:
                with contextlib.suppress(OSError, ValueError):
                    found.append(int((folder / file).read_text(encoding="ascii")))
    return found
