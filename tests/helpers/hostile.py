"""What hostile code tries once it runs, and a service's surroundings for it to reach for."""

from __future__ import annotations

import contextlib
import ctypes
import json
import mmap
import os
import signal
import socket
import struct
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

GIB = 1 << 30
REACHED = "reached"
HARMFUL = frozenset({"ptrace", "namespace", "mount", "become root", "execute", "io_uring"})
_KILLING = 0  # a signal that is none: whether one could be sent


@dataclass(frozen=True)
class Prey:
    """What must stay out of reach: files and a folder of the service, its process, and where it can be called."""

    files: tuple[str, ...]
    folder: str
    pid: int
    ports: tuple[int, ...]
    unix: str
    abstract: str
    outside: str


@contextlib.contextmanager
def prey(folder: Path) -> Iterator[Prey]:
    """A data folder, servers that accept, and this process."""
    data = folder / "data"
    data.mkdir()
    data.chmod(0o755)  # so that the owner's rights alone hide nothing
    names = ("secret_key", "connection.json", "tunesmith.db")
    for name in names:
        (data / name).write_text("secret")
        (data / name).chmod(0o644)
    with contextlib.ExitStack() as stack:
        tcp = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(2)]
        unix, abstract = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
        for sock, name in ((unix, str(data / "s")), (abstract, f"\0tunesmith-{os.getpid()}")):
            stack.enter_context(sock)
            sock.bind(name)
            sock.listen()
        (data / "s").chmod(0o777)
        yield Prey(
            tuple(str(data / name) for name in names),
            str(data),
            os.getpid(),
            tuple(each.getsockname()[1] for each in tcp),
            str(data / "s"),
            f"\0tunesmith-{os.getpid()}",
            str(folder / "written"),
        )


class Hostile:
    """Hosted in a box; what it says is what a model's code could say."""

    def attack(self, prey: dict[str, Any], processes: bool = False) -> dict[str, str]:
        return attack(Prey(**prey), processes)

    def allocate(self, size: int) -> str:
        return attempt(lambda: bytearray(size))

    def share(self, size: int) -> str:
        return attempt(lambda: mmap.mmap(-1, size))

    def spin(self) -> None:
        signal.signal(signal.SIGXCPU, signal.SIG_IGN)
        while True:
            pass

    def stay(self) -> None:
        threading.Event().wait()

    def user(self) -> int:
        return os.getuid()

    def leave(self) -> str:
        Path("note").write_text("made here")
        Path("link").symlink_to("/etc/passwd")
        with contextlib.suppress(OSError):
            os.mkfifo("pipe")
        return str(Path.cwd())

    def fill(self, size: int) -> str:
        def write() -> None:
            with open("big", "wb") as file:
                file.truncate(size)

        return attempt(write)

    def lie(self) -> None:
        """Write an answer past the protocol: a pickle that runs code where it is read."""
        import pickle

        class Evil:
            def __reduce__(self) -> Any:
                return os.system, ("touch /tmp/tunesmith-evil",)

        data = pickle.dumps(("ok", Evil()))
        for descriptor in map(int, os.listdir("/proc/self/fd")):
            with contextlib.suppress(OSError):
                if descriptor > 2:
                    os.write(descriptor, struct.pack("<Q", len(data)) + data)


def _out_of_memory() -> Any:
    from workers.tvm_backend.frontends.boxed_import import told

    return told(lambda: bytearray(1 << 45))


class FakeImporter:
    """Hosted in the importer's place: does what the operator's text says."""

    def __init__(self, torch: bool) -> None:
        self.hold: list[bytearray] = []

    def prepare(self, source: str, operator: str, shapes: object, preparation: object) -> Any:
        deeds: dict[str, Callable[[], Any]] = {
            "spin": Hostile().spin,
            "sleep": Hostile().stay,
            "fill memory": self._fill,
            "crash": lambda: os.kill(os.getpid(), signal.SIGSEGV),
            "killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
            "lie": lambda: {"done": 1, "problem": 2},
            "no files": lambda: {"done": ""},
            "other error": lambda: {"problem": {"code": "unauthorized", "detail": "not one of the model's"}},
            "huge": lambda: {"problem": {"code": "model_rejected", "detail": "x" * 10_000}},
            "link": lambda: {"done": str(Path("module.json").symlink_to("/etc/passwd") or "")},
            "memory error": _out_of_memory,
        }
        return deeds[operator]()

    def _fill(self) -> None:
        with contextlib.suppress(MemoryError):
            while True:
                self.hold.append(bytearray(b"x" * (1 << 20)))
        os.kill(os.getpid(), signal.SIGABRT)


def attempt(deed: Callable[[], object]) -> str:
    """``reached``, or how it was refused."""
    try:
        deed()
    except (OSError, MemoryError, OverflowError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return REACHED


def attack(prey: Prey, processes: bool = False, harmless: bool = False) -> dict[str, str]:
    """Try everything, or what does no harm where it succeeds: what came of it by name."""
    deeds: dict[str, Callable[[], object]] = {f"read {path}": _reader(path) for path in prey.files}
    deeds |= {
        "list": lambda: os.listdir(prey.folder),
        "write": lambda: Path(prey.outside).write_text("x"),
        "overwrite": lambda: Path(prey.files[0]).write_text("x"),
        "link": lambda: os.link(prey.files[0], "linked"),
        "environ": _reader(f"/proc/{prey.pid}/environ"),
        "mem": _reader(f"/proc/{prey.pid}/mem"),
        "maps": _reader(f"/proc/{prey.pid}/maps"),
        "fds": lambda: os.listdir(f"/proc/{prey.pid}/fd"),
        "root": lambda: os.listdir(f"/proc/{prey.pid}/root/{prey.folder}"),
        "cwd": lambda: os.listdir(f"/proc/{prey.pid}/cwd"),
        "own environ": _own_environ,
        "kill": lambda: os.kill(prey.pid, _KILLING),
        "kill parent": lambda: os.kill(os.getppid(), _KILLING),
        "pidfd": lambda: os.pidfd_open(prey.pid),
        "owner": lambda: _owner(prey.pid),
        "ptrace": lambda: _call("ptrace", 16, prey.pid, 0, 0),
        "memory of others": lambda: _call("process_vm_readv", prey.pid, 0, 0, 0, 0, 0),
        "limits": lambda: _call("prlimit", prey.pid, 7, 0, ctypes.create_string_buffer(16)),
        "unix": lambda: _connect(socket.AF_UNIX, prey.unix),
        "packets": lambda: _connect_packets(prey.abstract),
        "pair with oneself": _meet_oneself,
        "abstract": lambda: _connect(socket.AF_UNIX, prey.abstract),
        "udp": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", prey.ports[0])),
        "descriptors": _descriptors,
        "namespace": lambda: _call("unshare", 0x10000000),
        "become root": lambda: _become_root(),
        "mount": lambda: _call("mount", b"proc", b"/proc", b"proc", 0, 0),
        "io_uring": lambda: _call("syscall", 425, 8, ctypes.create_string_buffer(120)),
    }
    deeds |= {f"connect {port}": lambda port=port: _connect(socket.AF_INET, ("127.0.0.1", port)) for port in prey.ports}
    if not processes:
        deeds |= {"fork": _fork, "execute": lambda: os.execv(sys.executable, [sys.executable, "-c", "pass"])}
    return {name: attempt(deed) for name, deed in deeds.items() if not (harmless and name in HARMFUL)}


def drive() -> dict[str, str]:
    """What CUDA's driver (580) does when it starts, and cannot do without: what came of it by name."""
    return {
        "name a thread": attempt(lambda: Path(f"/proc/self/task/{threading.get_native_id()}/comm").write_text("cuda")),
        "listen": attempt(_listen),
        "memory file": attempt(lambda: os.memfd_create("cuda")),
    }


def _listen() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
        sock.bind(f"\0cuda-uvmfd-{os.getpid()}")
        sock.listen()


def _reader(path: str) -> Callable[[], object]:
    def read() -> None:
        with open(path, "rb", buffering=0) as file:
            file.read(1)

    return read


def _own_environ() -> None:
    environment = [*os.environ, *Path("/proc/self/environ").read_text(errors="replace").split("\0")]
    if not any("TUNESMITH" in each for each in environment):
        raise OSError("nothing there")


def _connect(family: int, address: Any) -> None:
    with socket.socket(family, socket.SOCK_STREAM) as sock:
        sock.settimeout(5)
        sock.connect(address)


def _connect_packets(name: str) -> None:
    """Reached where the kernel takes the address and only finds a socket of another kind there."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock, contextlib.suppress(ConnectionError):
        sock.connect(name)


def _meet_oneself() -> None:
    """A client of a socket that the box itself listens on: whoever can be that, can be somebody else's."""
    name = f"\0tunesmith-met-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
        sock.bind(name)
        sock.listen()
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as other:
            other.connect(name)
            sock.accept()


def _descriptors() -> None:
    """Whatever is open beyond the standard ones must be a pipe."""
    found = []
    for descriptor in range(3, 1024):
        with contextlib.suppress(OSError):
            os.fstat(descriptor)
            found.append(os.readlink(f"/proc/self/fd/{descriptor}"))
    if all(each.startswith("pipe:") for each in found):
        raise OSError(f"pipes alone: {found}")


def _owner(pid: int) -> None:
    import fcntl

    read, _ = os.pipe()
    fcntl.fcntl(read, fcntl.F_SETOWN, pid)


def _become_root() -> None:
    os.setuid(0)
    Path("/etc/shadow").read_bytes()


def _fork() -> None:
    if os.fork() == 0:
        os._exit(0)


def _call(name: str, *arguments: Any) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments) == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def main() -> None:
    """``WALLS FOLDER [DEVICE]``: attack from a box of those walls, and do as a driver does; prints what came of it."""
    from workers.sandbox.box.base import Confinement, Limits
    from workers.sandbox.box.entering import enter

    walls, folder = tuple(filter(None, sys.argv[1].split("+"))), Path(sys.argv[2]).resolve()
    devices = tuple(map(Path, sys.argv[3:]))
    (folder / "box").mkdir()
    read, write = os.pipe()
    with prey(folder) as found:
        pid = os.fork()
        if pid == 0:
            try:
                box = Confinement(folder / "box", Limits(memory=GIB), walls, (folder / "data",), devices)
                enter(box, keep=(write,))
                os.write(write, json.dumps({**attack(found, harmless=not walls), **drive()}).encode())
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(0)
        os.close(write)
        with os.fdopen(read) as answer:
            print(answer.read())
        os.waitpid(pid, 0)


def as_json(found: Prey) -> dict[str, Any]:
    """For a box's arguments."""
    return asdict(found)


if __name__ == "__main__":
    main()
