"""The service without its device: replicas of every worker, each a tree of processes that can be killed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.faults.servers import Postgres
from benchmarks.harness.processes import Tree, environment
from db.engine import migrate
from services.embedded.net import free_port, get_json
from tunesmith.client import Client
from tunesmith.errors import StackFailed
from tunesmith.messages import INGEST, RECORD, SEARCH
from tunesmith.safe_path import python
from tunesmith.signing import Signer
from tunesmith.states import JobState
from tunesmith.targets import Target

REPLICAS = 2
START_SECONDS = 180.0
TARGET = Target({"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 2})
OPERATORS = tuple(f"gemm:{m}x{n}x{k}:float32" for m in (128, 192, 256) for n in (256, 512) for k in (128, 384))
"""One job each, none of which comes to an end: a task whose proposal was lost with its worker holds up no other."""
TRIALS = 1_000_000


@dataclass(frozen=True)
class Part:
    """A kind of worker: its command, and what it is told beside the common settings."""

    name: str
    command: tuple[str, ...]


def _worker(queue: str) -> Part:
    return Part(queue, python("tunesmith.cli", "worker", "--queues", queue, "--concurrency", "1"))


COORDINATOR = Part("coordinator", python("services.coordinator"))
PARTS = (COORDINATOR, _worker(RECORD), _worker(SEARCH))


class Cluster:
    """Two replicas of everything on one database and one broker.

    Args:
        postgres: the database's server.
        broker: URL of the Redis.
        folder: for blobs, logs and the host lease.
    """

    def __init__(self, postgres: Postgres, broker: str, folder: Path, stack: ExitStack) -> None:
        self.postgres, self.broker, self.folder = postgres, broker, folder
        self.signer = Signer.fresh()
        """Of the measure worker that the service believes."""
        self._stack = stack
        self._ports = [free_port() for _ in range(REPLICAS)]
        self._trees: dict[tuple[str, int], Tree] = {}

    def start(self, number: int) -> None:
        """Start every part's replica of that number, if it does not run; does not wait for it."""
        for part in PARTS:
            self._start(part, number)

    def kill(self, number: int) -> None:
        """SIGKILL every process of every part's replica of that number."""
        for part in PARTS:
            self._trees.pop((part.name, number)).kill()

    def _start(self, part: Part, number: int) -> Tree:
        key = (part.name, number)
        if key not in self._trees:
            log = self.folder / f"{part.name}-{number}.log"
            tree = Tree(part.command, log=log, folder=self.folder, env=self._environment(number))
            self._trees[key] = self._stack.enter_context(tree)
        return self._trees[key]

    def _environment(self, number: int) -> dict[str, str]:
        url = f"http://127.0.0.1:{self._ports[number]}"
        return environment() | {
            "TUNESMITH_DATA_DIR": str(self.folder),
            "TUNESMITH_DATABASE_URL": self.postgres.url(),
            "TUNESMITH_BROKER_URL": self.broker,
            "TUNESMITH_PORT": str(self._ports[number]),
            "TUNESMITH_COORDINATOR_URL": url,
            "TUNESMITH_LEASE_FILE": str(self.folder / "host.lease"),
            "TUNESMITH_DASHBOARD": "0",
            "TUNESMITH_WORKER_KEYS": self.signer.public_key,
            "OMP_NUM_THREADS": "1",
            "PYTHONUNBUFFERED": "1",
        }

    def submit(self) -> None:
        """Submit the jobs, and wait until all of them run; imports them with a worker that ends then."""
        self._until(lambda: all(get_json(f"{url}/livez") for url in self.urls()), "the coordinators to answer")
        importer = self._start(_worker(INGEST), 0)
        with Client(self.urls()[0]) as client:
            jobs = [
                client.submit(
                    operator=operator,
                    target=dict(TARGET.to_json()),
                    trials=TRIALS,
                    search="random",
                    cost_model="none",
                    allocator="round-robin",
                    seed=seed,
                ).id
                for seed, operator in enumerate(OPERATORS)
            ]
            self._until(lambda: all(client.job(job).state is JobState.RUNNING for job in jobs), "the jobs to run")
        del self._trees[INGEST, 0]
        importer.kill()

    def urls(self) -> Sequence[str]:
        """Addresses of the coordinators."""
        return [f"http://127.0.0.1:{port}" for port in self._ports]

    def _until(self, reached: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + START_SECONDS
        while not reached():
            for (name, number), tree in self._trees.items():
                if tree.poll() is not None:
                    raise StackFailed(f"{name} {number} ended: {tree.tail()}")
            if time.monotonic() > end:
                raise StackFailed(f"not within {START_SECONDS:g} s: {what}")
            time.sleep(0.2)


@contextmanager
def cluster(postgres: Postgres, broker: str, folder: Path) -> Iterator[Cluster]:
    """All replicas, with jobs that run; every process is gone at the end."""
    migrate(postgres.url())  # a worker that finds no schema ends
    with ExitStack() as stack:
        found = Cluster(postgres, broker, folder, stack)
        for number in range(REPLICAS):
            found.start(number)
        found.submit()
        yield found
