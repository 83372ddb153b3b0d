"""Children that die with their parent, also when it is killed with SIGKILL (Linux).

Run as ``python -m workers.sandbox.parent_death [--parent PID] -- command…`` this is a launcher for any program: the
signal survives ``exec``. It belongs to the *thread* that forked, so start children from a thread that lives long.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def die_with_parent(expected: int | None = None) -> None:
    """Ask the kernel for SIGKILL when the parent's thread that started this process ends.

    Args:
        expected: the parent's process id, when the parent passed it on. A parent that died before the request
            took effect is seen by a changed parent id, and this process then ends at once.

    Raises:
        OSError: when the kernel refuses.
    """
    parent = os.getppid() if expected is None else expected
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def main(argv: list[str]) -> int:
    """Set the signal, then become the command."""
    expected = None
    if argv[:1] == ["--parent"] and len(argv) > 1:
        expected, argv = int(argv[1]), argv[2:]
    if argv[:1] != ["--"] or len(argv) < 2:
        print("usage: python -m workers.sandbox.parent_death [--parent PID] -- command [arguments]", file=sys.stderr)
        return 2
    die_with_parent(expected)
    try:
        os.execvp(argv[1], argv[1:])
    except OSError as error:
        print(f"cannot start {argv[1]}: {error.strerror}", file=sys.stderr)
        return 127


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
