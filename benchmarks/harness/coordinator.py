"""The real coordinator on a benchmark's database, and how long its routes take."""

from __future__ import annotations

import http.client
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness.processes import Tree, environment
from services.embedded.net import free_port
from tunesmith.errors import StackFailed

START_SECONDS = 120.0
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Server:
    """A coordinator that runs, or another server.

    Attributes:
        port: where it listens, on this host.
    """

    port: int
    _tree: Tree

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    def wait(self, path: str) -> None:
        """Wait until it answers.

        Raises:
            StackFailed: it does not start.
        """
        end = time.monotonic() + START_SECONDS
        while not _answers(self.port, path):
            if self._tree.poll() is not None or time.monotonic() > end:
                raise StackFailed(f"the server does not come up: {self._tree.tail()}")
            time.sleep(0.1)

    def cpu_seconds(self) -> float:
        """Processor time that it has used."""
        return sum(_cpu_ticks(pid) for pid in self._tree.members()) / TICKS


@dataclass(frozen=True)
class Looks:
    """What a route took.

    Attributes:
        first: milliseconds of the first look.
        others: of the others, shortest first.
        size: bytes of an answer.
        cpu: milliseconds of the server's processors, of one look on average.
    """

    first: float
    others: tuple[float, ...]
    size: int
    cpu: float

    def quantile(self, share: float) -> float:
        """Milliseconds within which such a share of the looks was answered."""
        return self.others[min(len(self.others) - 1, int(share * len(self.others)))]


@contextmanager
def serving(url: str, folder: Path, *, dashboard: bool = False, **settings: str) -> Iterator[Server]:
    """Run a coordinator without workers, and without a broker unless one is given; its whole tree ends with the block.

    Args:
        url: of the database.
        folder: for its files.
        dashboard: wait for it, too; without, there is none.
        settings: others of the coordinator, by their names without prefix.

    Raises:
        StackFailed: it does not start.
    """
    port = free_port()
    env = environment() | {
        "TUNESMITH_DATA_DIR": str(folder),
        "TUNESMITH_DATABASE_URL": url,
        "TUNESMITH_PORT": str(port),
        "TUNESMITH_COORDINATOR_URL": f"http://127.0.0.1:{port}",
        "TUNESMITH_DASHBOARD": str(int(dashboard)),
        "TUNESMITH_BROKER_URL": f"redis://127.0.0.1:{free_port()}/0",
        **{f"TUNESMITH_{name.upper()}": value for name, value in settings.items()},
    }
    log = folder / "coordinator.log"
    with Tree([sys.executable, "-m", "services.coordinator"], log=log, folder=folder, env=env) as tree:
        server = Server(port, tree)
        server.wait("/login" if dashboard else "/livez")
        yield server


def look_at(server: Server, route: str, looks: int) -> Looks:
    """Ask for a route once, and then so many times, one after the other over one connection.

    Raises:
        StackFailed: it answers with an error.
    """
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    took, size, began_cpu = [], 0, server.cpu_seconds()
    for _ in range(looks + 1):
        began = time.perf_counter()
        connection.request("GET", route)
        answer = connection.getresponse()
        size = len(answer.read())
        took.append((time.perf_counter() - began) * 1e3)
        if answer.status != 200:
            raise StackFailed(f"{route} was answered with {answer.status}")
        time.sleep(0.01)  # so that the looks meet the planner by chance
    connection.close()
    cpu = (server.cpu_seconds() - began_cpu) * 1e3 / len(took)
    return Looks(took[0], tuple(sorted(took[1:])), size, cpu)


def _answers(port: int, path: str) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _cpu_ticks(pid: int) -> int:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return int(fields[11]) + int(fields[12])
