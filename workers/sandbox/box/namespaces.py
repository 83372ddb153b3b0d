"""Namespaces: a file system of its own, an empty network, and where the service is root, a user id of its own."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from workers.sandbox.box import installation, syscalls
from workers.sandbox.box.base import Confinement, Wall, without

NEWNS, NEWUTS, NEWIPC, NEWUSER, NEWNET = 0x00020000, 0x04000000, 0x08000000, 0x10000000, 0x40000000
BIND, REC, PRIVATE, DETACH = 0x1000, 0x4000, 1 << 18, 2
READ_ONLY, NO_SETUID, NO_DEVICES, NO_EXECUTE = 1, 2, 4, 8
ROOT_BYTES = 1 << 20
FIRST_USER = 0x60000000
"""User ids from here on belong to nobody; a boxed process takes the one with its process id."""


class Namespaces(Wall):
    """Root takes a user id that nobody else has; anybody else becomes root of a user namespace, without rights."""

    name = "namespaces"

    def enter(self, confinement: Confinement) -> None:
        """Leave the service's namespaces for new ones."""
        own_user = _unshare()
        syscalls.mount("", "/", "", REC | PRIVATE)
        _change_root(confinement)
        if own_user:
            own = FIRST_USER + os.getpid()
            _give(confinement.folder, own)
            os.setgroups([])
            os.setresgid(own, own, own)
            os.setresuid(own, own, own)
        os.chdir(confinement.folder)


def _unshare() -> bool:
    """Leave the namespaces of the service; True where this process may take another user id, too."""
    user, group, parts = os.geteuid(), os.getegid(), NEWNS | NEWNET | NEWIPC | NEWUTS
    if user == 0:
        try:
            syscalls.unshare(parts)
        except PermissionError:  # root of a container, without the right to do this
            pass
        else:
            return True
    syscalls.unshare(parts | NEWUSER)
    _map(user, group)
    return False


def _map(user: int, group: int) -> None:
    """Keep the user id inside a new user namespace."""
    Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1", encoding="ascii")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1", encoding="ascii")


def _change_root(confinement: Confinement) -> None:
    """Make a root that holds only the installation, the folder and a few devices."""
    root = confinement.folder / ".root"
    os.umask(0o022)  # the new user passes through folders that are made here
    root.mkdir()
    syscalls.mount("tmpfs", str(root), "tmpfs", NO_SETUID | NO_DEVICES, f"size={ROOT_BYTES},mode=755")
    for path in installation.readable():
        for part in without(path, confinement.hidden):
            _bind(part, root, READ_ONLY | NO_SETUID | NO_DEVICES)
    for path in installation.processes():
        _bind(path, root, READ_ONLY | NO_SETUID | NO_DEVICES | NO_EXECUTE)
    if confinement.devices:
        _bind(installation.threads(), root, NO_SETUID | NO_DEVICES | NO_EXECUTE)
    (root / "proc" / "self").symlink_to(str(os.getpid()))
    for path in (*installation.DEVICES, *confinement.devices):
        _bind(path, root, NO_SETUID | NO_EXECUTE)
    for path, goal in installation.links().items():
        _link(path, goal, root)
    _bind(confinement.folder, root, NO_SETUID | NO_DEVICES, recursive=False)
    old = root / ".old"
    old.mkdir()
    syscalls.call("pivot_root", str(root).encode(), str(old).encode())
    os.chdir("/")
    syscalls.unmount("/.old", DETACH)
    os.rmdir("/.old")
    syscalls.set_mount("/", READ_ONLY, recursive=False)


def _bind(path: Path, root: Path, attributes: int, *, recursive: bool = True) -> None:
    """Show ``path`` at the same place below ``root``; what is not there, or not visible to this process, stays out of
    sight."""
    target = root / path.relative_to("/")
    if not os.path.exists(path):
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    if os.path.isdir(path):
        target.mkdir(exist_ok=True)
    else:
        target.touch()
    syscalls.mount(str(path), str(target), "", BIND | (REC if recursive else 0))
    syscalls.set_mount(str(target), attributes, recursive=recursive)


def _link(path: Path, goal: Path, root: Path) -> None:
    """A symbolic link by which the system, ``/lib`` for one, or Python's path names what is in sight."""
    target = root / path.relative_to("/")
    if not os.path.lexists(target) and os.path.exists(root / goal.relative_to("/")):
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(goal)


def _give(folder: Path, user: int) -> None:
    """The folder and what lies in it become the new user's."""
    os.chown(folder, user, user)
    for path in folder.iterdir():
        with contextlib.suppress(PermissionError):
            os.chown(path, user, user, follow_symlinks=False)
