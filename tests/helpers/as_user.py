"""``python as_user.py USER COMMAND...``: run a command as an ordinary user, who gets to see this Python installation.

Python often lies in root's home, which others may not enter. In a mount namespace of its own the command finds it
below a folder that everybody may enter.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from workers.sandbox.box import namespaces, syscalls


def closed_folder(path: Path) -> Path | None:
    """The topmost folder above ``path`` that others may not enter."""
    return next((each for each in reversed(path.parents) if not each.stat().st_mode & 0o001), None)


def show(path: Path) -> None:
    """Let everybody see ``path`` in this process's mount namespace."""
    closed = closed_folder(path)
    if closed is None:
        return
    aside = tempfile.mkdtemp()
    syscalls.mount(str(path), aside, "", namespaces.BIND)
    syscalls.mount("tmpfs", str(closed), "tmpfs", 0, "mode=755")
    path.mkdir(parents=True)
    syscalls.mount(aside, str(path), "", namespaces.BIND)


def main() -> None:
    """Become the user, then the command."""
    user = int(sys.argv[1])
    if os.geteuid() == 0:
        syscalls.unshare(namespaces.NEWNS)
        syscalls.mount("", "/", "", namespaces.REC | namespaces.PRIVATE)
        os.umask(0o022)
        show(Path(sys.base_prefix).resolve())
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)
    os.execvp(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    main()
