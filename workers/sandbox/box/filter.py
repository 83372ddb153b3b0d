"""The system call filter: what no boxed process needs, and what would reach other processes or a network.

A filter costs kernels under measurement nothing: they make no system call but ``futex``, which the kernel lets pass
without running the filter, and the filter leaves the processor's speculation as it is.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Iterable, Iterator, Mapping

from workers.sandbox.box import syscalls
from workers.sandbox.box.base import Confinement

ARCHITECTURES: Mapping[str, int] = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
NEVER: Mapping[str, tuple[int, int]] = {
    # sockets: an inherited one can be used, but none can be made, and none led elsewhere
    "socket": (41, 198),
    "connect": (42, 203),
    "accept": (43, 202),
    "accept4": (288, 242),
    "bind": (49, 200),
    "listen": (50, 201),
    "sendmsg": (46, 211),
    "sendmmsg": (307, 269),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    # other processes
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kcmp": (312, 272),
    "tkill": (200, 130),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "pidfd_send_signal": (424, 424),
    "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438),
    "process_madvise": (440, 440),
    "process_mrelease": (448, 448),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    "setpriority": (141, 140),
    "ioprio_set": (251, 30),
    "setsid": (112, 157),
    "setpgid": (109, 154),
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "semget": (64, 190),
    "msgget": (68, 186),
    "mq_open": (240, 180),
    # namespaces, file systems, keys and the kernel itself
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "fanotify_init": (300, 262),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "syslog": (103, 116),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
}
"""Refused system calls with their numbers on x86-64 and AArch64."""
X86_ONLY: Mapping[str, int] = {"iopl": 172, "ioperm": 173, "modify_ldt": 154}
LISTENING = ("socket", "bind", "listen")
"""What CUDA's driver does when it starts, with a local socket that nobody connects to: it gives up where it cannot."""
LOCAL, PACKETS, KINDS = 1, 5, 0xF
"""``AF_UNIX``, ``SOCK_SEQPACKET``, and the bits of a socket's type that say its kind."""
MEMORY_FILES = (319, 279)
"""``memfd_create``: memory that no limit counts. GPU drivers use it."""
EXECUTE = ((59, 322), (221, 281))
FORK_X86 = (57, 58)
CLONE, CLONE3 = (56, 220), 435
KILL, TGKILL, SENDTO, FCNTL, IOCTL, PRLIMIT = (62, 129), (234, 131), (44, 206), (72, 25), (16, 29), (302, 261)
CLONE_THREAD, CLONE_NEW = 0x10000, 0x7E020080
OWNERS = (8, 15)
"""``fcntl`` that chooses whom a descriptor's signals go to."""
OWNING_IOCTLS = (0x8901, 0x8902, 0x5412)
"""The same of ``ioctl``, and typing for a terminal's user."""
_X32 = 0x40000000
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000
_SET_MODE_FILTER, _KEEP_SPECULATION = 1, 1 << 2

Program = list[tuple[int, int, int, int]]


def enter(confinement: Confinement) -> None:
    """Filter the system calls of this process, for good. It must not be privileged, or have given that up.

    Raises:
        OSError: the kernel has no filters, or this machine's system calls are not known.
    """
    machine = platform.machine()
    if machine not in ARCHITECTURES:
        raise OSError(f"no system call filter for {machine}")
    words = b"".join(struct.pack("<HBBI", *each) for each in program(confinement, machine, os.getpid()))
    code = ctypes.create_string_buffer(words, len(words))
    given = struct.pack("<HxxxxxxQ", len(words) // 8, ctypes.addressof(code))
    syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
    syscalls.call("seccomp", _SET_MODE_FILTER, _KEEP_SPECULATION, ctypes.create_string_buffer(given, len(given)))


def program(confinement: Confinement, machine: str, pid: int) -> Program:
    """The filter as instructions ``(code, jump if true, jump if false, constant)``."""
    side = list(ARCHITECTURES).index(machine)
    listening = LISTENING if confinement.devices else ()
    never = [numbers[side] for name, numbers in NEVER.items() if name not in listening]
    if not confinement.limits.processes:
        never += EXECUTE[side]
    if not confinement.devices:
        never.append(MEMORY_FILES[side])
    if machine == "x86_64":
        never += [*X86_ONLY.values(), *(() if confinement.limits.processes else FORK_X86)]
    made: Program = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, ARCHITECTURES[machine]), _error(errno.EPERM), (_LOAD, 0, 0, 0)]
    if machine == "x86_64":
        made += [(_AT_LEAST, 0, 1, _X32), _error(errno.EPERM)]
    for number in sorted(set(never)):
        made += [(_EQUAL, 0, 1, number), _error(errno.EPERM)]
    made += [(_EQUAL, 0, 1, CLONE3), _error(errno.ENOSYS)]  # flags are out of sight; the C library uses clone then
    if listening:
        made += _when(NEVER["socket"][side], _socket())
    made += _when(CLONE[side], _clone(confinement.limits.processes))
    for number in (KILL[side], TGKILL[side]):
        made += _when(number, _unless(0, (pid,)))
    made += _when(PRLIMIT[side], _unless(0, (0, pid)))
    made += _when(
        SENDTO[side], [(_LOAD, 0, 0, 48), (_EQUAL, 0, 2, 0), (_LOAD, 0, 0, 52), (_EQUAL, 1, 0, 0), _error(errno.EPERM)]
    )
    made += _when(FCNTL[side], _if(1, OWNERS))
    made += _when(IOCTL[side], _if(1, OWNING_IOCTLS))
    return [*made, (_RETURN, 0, 0, _ALLOW)]


def _error(number: int) -> tuple[int, int, int, int]:
    return _RETURN, 0, 0, _ERROR | number


def _when(number: int, block: Program) -> Iterator[tuple[int, int, int, int]]:
    """``block`` for one system call; what does not return in it is allowed."""
    yield _EQUAL, 0, len(block) + 1, number
    yield from block
    yield _RETURN, 0, 0, _ALLOW


def _unless(argument: int, values: Iterable[int]) -> Program:
    """Refuse where the low word of an argument is none of ``values``."""
    listed = list(values)
    tests = [(_EQUAL, len(listed) - i, 0, value) for i, value in enumerate(listed)]
    return [(_LOAD, 0, 0, 16 + 8 * argument), *tests, _error(errno.EPERM)]


def _if(argument: int, values: Iterable[int]) -> Program:
    """Refuse where the low word of an argument is one of ``values``."""
    made: Program = [(_LOAD, 0, 0, 16 + 8 * argument)]
    for value in values:
        made += [(_EQUAL, 0, 1, value), _error(errno.EPERM)]
    return made


def _socket() -> Program:
    """Local sockets of packets alone. Nobody can be connected to or accepted with them, nor anything sent."""
    return [*_unless(0, (LOCAL,)), (_LOAD, 0, 0, 24), (_AND, 0, 0, KINDS), (_EQUAL, 1, 0, PACKETS), _error(errno.EPERM)]


def _clone(processes: bool) -> Program:
    """Threads, and processes where they are allowed; never a namespace."""
    made: Program = [(_LOAD, 0, 0, 16), (_ANY_BIT, 0, 1, CLONE_NEW), _error(errno.EPERM)]
    return made if processes else [*made, (_ANY_BIT, 1, 0, CLONE_THREAD), _error(errno.EPERM)]
