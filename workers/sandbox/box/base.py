"""What a boxed process may have, and the contract of the mechanisms that see to it."""

from __future__ import annotations

import abc
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

GIB = 1 << 30


@dataclass(frozen=True)
class Limits:
    """What a boxed process may use up.

    Attributes:
        memory: bytes of data, and of address space where ``devices`` are none; 0: as many as there are.
        cpu_seconds: processor time of all its threads; 0: as much as it likes.
        file_bytes: size of a file that it writes.
        tasks: threads, and processes where it may start any.
        processes: it may start other programs; otherwise the kernel refuses to fork and to execute.
        open_files: descriptors.
    """

    memory: int = 0
    cpu_seconds: int = 0
    file_bytes: int = 8 * GIB
    tasks: int = 256
    processes: bool = False
    open_files: int = 1024


@dataclass(frozen=True)
class Confinement:
    """A box for one process.

    Attributes:
        folder: working folder, the only place where it can write; absolute, without symbolic links.
        limits: what it may use up.
        walls: names of the mechanisms that keep the rest of the system out of its reach; empty: none do, because the
            owner of the service trusts all models.
        hidden: folders that stay out of its reach even where they lie inside the installation.
        devices: device files beyond ``/dev/null`` and its like.
    """

    folder: Path
    limits: Limits
    walls: tuple[str, ...]
    hidden: tuple[Path, ...] = ()
    devices: tuple[Path, ...] = ()


class Wall(abc.ABC):
    """A mechanism of the kernel that puts files and the network out of a process's reach.

    Walls stand behind each other: a process enters all that its system has, in the registry's order. Each keeps the
    contract by itself, given the system call filter, which is entered last:

    - files can be read only in the installation and in the folder, and written only in the folder;
    - no address of any network, and no socket of another process, can be reached.
    """

    name: str

    @abc.abstractmethod
    def enter(self, confinement: Confinement) -> None:
        """Put this process, which has one thread, behind the wall for good.

        Raises:
            OSError: the system does not offer it. The process may be half-way in and must end.
        """


def without(path: Path, hidden: tuple[Path, ...]) -> Iterator[Path]:
    """``path``, or what is in it besides the hidden folders that lie inside. Without symbolic links."""
    inside = [each for each in hidden if each == path or path in each.parents]
    if not inside:
        yield path
    elif path not in inside:
        for child in sorted(path.iterdir()):
            if not child.is_symlink():
                yield from without(child, hidden)
