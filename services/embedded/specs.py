"""Which processes the embedded stack consists of, and with which settings."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from services.embedded import redis_server
from services.embedded.child import ChildSpec
from services.embedded.environment import (
    DATABASE,
    for_coordinator,
    for_device,
    for_service,
    for_tracker,
    for_worker,
)
from services.embedded.net import accepts, free_port, get_json
from tunesmith import broker_users
from tunesmith.child_process import THREADS
from tunesmith.extras import unavailable
from tunesmith.host import default_lease_path
from tunesmith.messages import INGEST, RECORD, SEARCH, TRAIN
from tunesmith.safe_path import python
from tunesmith.signing import ensure_key


@dataclass(frozen=True)
class StackOptions:
    """What the user chose. ``workers``: processes that propose, half of them, and as many as are left for each of
    imports and trainings; there are two importers at least."""

    data_dir: Path
    host: str = "127.0.0.1"
    port: int = 8700
    workers: int = 2
    env: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))

    @property
    def url(self) -> str:
        """The coordinator's address as seen from this machine."""
        host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(self.host, self.host)
        return f"http://{f'[{host}]' if ':' in host and host[0] != '[' else host}:{self.port}"


def children(options: StackOptions, temporary: Path) -> list[ChildSpec]:
    """Every process of the stack, in starting order; ``temporary`` is their temporary folder.

    Raises:
        MissingDependency: when no Redis server is found.
    """
    redis_port, tracker_port = free_port(), free_port()
    serves, (reads, reports) = broker_users.core(), broker_users.measuring()
    broker = f"127.0.0.1:{redis_port}"
    env = _environment(options, serves.url(broker), tracker_port)
    env["TMPDIR"] = str(temporary)
    measure = for_worker(env, without=DATABASE)
    measure.update(TUNESMITH_BROKER_URL=reads.url(broker), TUNESMITH_REPORTS_URL=reports.url(broker))
    users = [broker_users.OFF, *(user.line for user in (serves, reads, reports))]

    redis_up, tracker_up = partial(accepts, redis_port), partial(accepts, tracker_port)

    def coordinator_up() -> bool:
        return redis_up() and get_json(f"{options.url}/livez") is not None

    worker = for_worker(env)
    searchers = max(1, options.workers // 2)
    others = max(1, options.workers - searchers)
    device = {key: value for key, value in for_device(env).items() if key not in THREADS}
    return [
        ChildSpec(
            "redis",
            (redis_server.find_server(), "-"),
            for_service(env),
            stdin=redis_server.config(redis_port, users, options.data_dir),
            wave=2,
        ),
        ChildSpec("coordinator", python("services.coordinator"), for_coordinator(env), may_start=redis_up, wave=1),
        ChildSpec(
            "tracker", python("workers.tvm_backend.run.tracker", "--port", str(tracker_port)), for_tracker(env), wave=2
        ),
        ChildSpec(
            "device",
            python(
                "workers.tvm_backend.run.rpc_server",
                "--key",
                env["TUNESMITH_DEVICE_KEY"],
                "--tracker",
                env["TUNESMITH_TRACKER"],
            ),
            device,
            may_start=tracker_up,
            wave=1,
        ),
        ChildSpec("measure", _worker("measure"), measure, may_start=redis_up),
        # Results must never wait behind a long import or training: `record` has a process of its own.
        ChildSpec("record", _worker(RECORD), worker, may_start=coordinator_up),
        # A search remembers the points that it looked at: its processes are few, and do nothing else.
        ChildSpec("search", _worker(SEARCH, searchers), worker, may_start=coordinator_up),
        # A user has one import under way (`imports_per_user`), so that the second importer is there for the others.
        ChildSpec("ingest", _worker(INGEST, max(2, others)), worker, may_start=coordinator_up),
        ChildSpec("train", _worker(TRAIN, others), worker, may_start=coordinator_up),
    ]


def _worker(queues: str, concurrency: int = 1) -> tuple[str, ...]:
    return python("tunesmith.cli", "worker", "--queues", queues, "--concurrency", str(concurrency))


def _environment(options: StackOptions, broker_url: str, tracker_port: int) -> dict[str, str]:
    env = {name: value for name, value in options.env.items() if name != "TUNESMITH_REPORTS_URL"}
    env.update(dict.fromkeys(THREADS, "1"))
    env.update(
        PYTHONUNBUFFERED="1",
        TUNESMITH_DATA_DIR=str(options.data_dir),
        TUNESMITH_BROKER_URL=broker_url,
        TUNESMITH_COORDINATOR_URL=options.url,
        TUNESMITH_WORKER_KEYS=ensure_key(options.data_dir),  # the private half is in the data folder
        TUNESMITH_UNAVAILABLE=",".join(unavailable()),
        TUNESMITH_HOST=options.host,
        TUNESMITH_PORT=str(options.port),
        TUNESMITH_LEASE_FILE=str(default_lease_path()),  # the host's, not the stack's
        TUNESMITH_TRACKER=f"127.0.0.1:{tracker_port}",
        TUNESMITH_DEVICE_KEY=f"{socket.gethostname()}-cpu",
    )
    return env
