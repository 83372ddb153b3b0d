"""Landlock: a process gives up its rights to files, networks, signals and sockets of others. No privilege needed."""

from __future__ import annotations

import ctypes
import os
import stat
from pathlib import Path

from workers.sandbox.box import installation, syscalls
from workers.sandbox.box.base import Confinement, Wall, without

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1, 2, 4, 8
MAKE_DIR, MAKE_SOCKET, MAKE_FIFO, MAKE_BLOCK, MAKE_CHARACTER = 1 << 7, 1 << 9, 1 << 10, 1 << 11, 1 << 6
REFER, TRUNCATE, DEVICE_IOCTL = 1 << 13, 1 << 14, 1 << 15
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | DEVICE_IOCTL
NETWORK = 1 | 2
"""To bind and to connect TCP sockets."""
SCOPES = 1 | 2
"""Abstract sockets and signals stay within the box."""
RULE_PATH_BENEATH = 1
_VERSION = 1
_FILE_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1}
"""Rights to files by version; from the fifth on there are those to devices, too."""


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


class Landlock(Wall):
    """Rights to the installation, to the folder and to a few devices; all others are given up."""

    name = "landlock"

    def enter(self, confinement: Confinement) -> None:
        """Give up all other rights; those that this kernel's version does not know are the filter's business."""
        version = syscalls.call("landlock_create_ruleset", 0, 0, _VERSION)
        handled = (1 << 16) - 1 if version >= 5 else _FILE_RIGHTS[min(version, 3)]
        wanted = _Ruleset(handled, NETWORK if version >= 4 else 0, SCOPES if version >= 6 else 0)
        size = 8 if version < 4 else 16 if version < 6 else 24
        ruleset = syscalls.call("landlock_create_ruleset", ctypes.byref(wanted), size, 0)
        try:
            for path, rights in _rights(confinement).items():
                _allow(ruleset, path, rights & handled)
            syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
            syscalls.call("landlock_restrict_self", ruleset, 0)
        finally:
            os.close(ruleset)


def _rights(confinement: Confinement) -> dict[Path, int]:
    look = READ_FILE | READ_DIR | EXECUTE
    rights = {each: look for path in installation.readable() for each in without(path, confinement.hidden)}
    rights |= dict.fromkeys(installation.processes(), READ_FILE | READ_DIR)
    if confinement.devices:
        rights[installation.threads()] = READ_FILE | READ_DIR | WRITE_FILE | TRUNCATE
    rights |= dict.fromkeys((*installation.DEVICES, *confinement.devices), READ_FILE | WRITE_FILE | DEVICE_IOCTL)
    rights[confinement.folder] = ((1 << 15) - 1) & ~(MAKE_SOCKET | MAKE_BLOCK | MAKE_CHARACTER | MAKE_FIFO)
    return rights


def _allow(ruleset: int, path: Path, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:  # not there, or not visible to this process: then it stays out of reach
        return
    try:
        if not stat.S_ISDIR(os.fstat(place).st_mode):
            rights &= OF_FILES
        rule = _PathBeneath(rights, place)
        syscalls.call("landlock_add_rule", ruleset, RULE_PATH_BENEATH, ctypes.byref(rule), 0)
    finally:
        os.close(place)
