"""System calls that Python's library lacks."""

from __future__ import annotations

import ctypes
import itertools
import os
import platform

PR_CAPBSET_DROP = 24
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
CAPABILITIES = 64
_CAPABILITY_VERSION_3 = 0x20080522
_NUMBERS = {
    "x86_64": {"capset": 126, "pivot_root": 155, "seccomp": 317},
    "aarch64": {"capset": 91, "pivot_root": 41, "seccomp": 277},
}
_EVERYWHERE = {
    "close_range": 436,
    "mount_setattr": 442,
    "landlock_create_ruleset": 444,
    "landlock_add_rule": 445,
    "landlock_restrict_self": 446,
}
AT_FDCWD = -100
AT_RECURSIVE = 0x8000


def number(name: str) -> int:
    """A system call's number on this machine. Raises OSError on one whose numbers are not known."""
    found = _EVERYWHERE.get(name) or _NUMBERS.get(platform.machine(), {}).get(name)
    if found is None:
        raise OSError(f"system call {name} is not known for {platform.machine()}")
    return found


def call(name: str, *arguments: object) -> int:
    """Make a system call. Raises OSError with the kernel's reason."""
    libc = ctypes.CDLL(None, use_errno=True)
    plain = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    result = int(libc.syscall(ctypes.c_long(number(name)), *plain))
    return _checked(name, result)


def prctl(option: int, *arguments: int) -> int:
    """``prctl``. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    words = [ctypes.c_ulong(each) for each in (*arguments, 0, 0, 0, 0)[:4]]
    return _checked("prctl", int(libc.prctl(ctypes.c_int(option), *words)))


def unshare(flags: int) -> None:
    """``unshare``. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    _checked("unshare", int(libc.unshare(ctypes.c_int(flags))))


def mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    """``mount``. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    texts = [each.encode() if each else None for each in (source, target, kind)]
    given = libc.mount(*texts, ctypes.c_ulong(flags), data.encode() if data else None)
    _checked(f"mount of {source or kind} on {target}", int(given))


def unmount(target: str, flags: int) -> None:
    """``umount2``. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    _checked(f"umount2 of {target}", int(libc.umount2(target.encode(), ctypes.c_int(flags))))


class _MountAttributes(ctypes.Structure):
    _fields_ = (
        ("attr_set", ctypes.c_uint64),
        ("attr_clr", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns_fd", ctypes.c_uint64),
    )


def set_mount(target: str, attributes: int, *, recursive: bool) -> None:
    """Add attributes to a mount: ``mount_setattr``. Raises OSError."""
    given = _MountAttributes(attributes, 0, 0, 0)
    size, flags = ctypes.sizeof(given), AT_RECURSIVE if recursive else 0
    call("mount_setattr", AT_FDCWD, target.encode(), flags, ctypes.byref(given), size)


def drop_capabilities() -> None:
    """Give up every capability for good, and what a program that is executed could get back. Raises OSError."""
    for capability in range(CAPABILITIES):
        try:
            prctl(PR_CAPBSET_DROP, capability)
        except OSError:  # the kernel has no more of them, or we may not: the bits below are what counts
            break
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    call("capset", ctypes.byref(header), ctypes.byref((ctypes.c_uint32 * 6)()))
    prctl(PR_SET_NO_NEW_PRIVS, 1)


def close_others(keep: tuple[int, ...]) -> None:
    """Close every descriptor but standard output, standard error and ``keep``; standard input becomes empty."""
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    edges = [2, *sorted(set(keep) - {0, 1, 2}), 1 << 31]
    for low, high in itertools.pairwise(edges):
        if low + 1 <= high - 1:
            call("close_range", low + 1, high - 1, 0)


def _checked(what: str, result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result
