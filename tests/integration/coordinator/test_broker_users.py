"""What Redis lets a measure worker do, asked of a real server with the worker's own passwords."""

from __future__ import annotations

import base64
import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from celery import Celery
from gemm_batches import Gemm
from redis_process import address, redis_server
from stack_probe import wait_for
from worker_process import worker_process

from services.coordinator.broker import CeleryPublisher
from tunesmith import broker_users, core_workers
from tunesmith.core_workers import KEPT_REPORTS, CoreReport, report_key
from tunesmith.errors import InvalidInput
from tunesmith.messages import CORE_QUEUES, RECORD, BatchReport, DeviceReport, MeasureBatch, measure_queue
from tunesmith.signing import ensure_key
from tunesmith.targets import Target
from tunesmith.worker_logs import KEPT_LINES, KEPT_LOGS, KEPT_SECONDS, LogLine
from workers.core_heartbeat import CoreHeartbeat, PoolProcesses
from workers.log_store import LogStore

pytestmark = pytest.mark.servers
CLASS = "llvm-confined-1"
OWN, OTHERS = measure_queue(CLASS), measure_queue(f"{CLASS}6")
PREFIX = broker_users.KEY_PREFIX
CORE = broker_users.core()
READS, REPORTS = broker_users.measuring("board", [CLASS])
TESTER = "user tester on >only-for-tests ~* &* +@all"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[redis.Redis]:
    lines = [broker_users.OFF, TESTER, *(user.line for user in (CORE, READS, REPORTS))]
    with redis_server(tmp_path_factory.mktemp("redis"), lines) as url:
        with redis.Redis.from_url(f"redis://tester:only-for-tests@{address(url)}") as client:
            yield client


def as_user(user: broker_users.BrokerUser, server: redis.Redis) -> redis.Redis:
    return redis.Redis.from_url(url_of(user, server), driver_info=None, protocol=2)


def url_of(user: broker_users.BrokerUser, server: redis.Redis) -> str:
    return user.url(f"127.0.0.1:{server.connection_pool.connection_kwargs['port']}")


def refused(client: redis.Redis, *command: Any) -> bool:
    """True when Redis says that this user may not; anything else that it says is no refusal."""
    try:
        client.execute_command(*command)
    except (redis.exceptions.NoPermissionError, redis.exceptions.ResponseError) as error:
        return "permission" in str(error).lower()
    return False


KEYS = (*CORE_QUEUES, OTHERS, "measure", "unacked", "unacked_index", "_kombu.binding.x", "core", report_key("x"))
FOREIGN = [PREFIX + key for key in KEYS]
ADMIN: list[tuple[Any, ...]] = [
    ("FLUSHALL",),
    ("FLUSHDB",),
    ("CONFIG", "GET", "*"),
    ("KEYS", "*"),
    ("SCAN", 0),
    ("EVAL", "return 1", 0),
    ("EVALSHA", "0" * 40, 0),
    ("SCRIPT", "LOAD", "return 1"),
    ("DEBUG", "SLEEP", "0"),
    ("SHUTDOWN", "NOSAVE"),
    ("CLIENT", "LIST"),
    ("CLIENT", "KILL", "TYPE", "normal"),
    ("ACL", "LIST"),
    ("ACL", "SETUSER", "x"),
    ("MONITOR",),
    ("REPLICAOF", "evil.example", "6379"),
    ("SAVE",),
    ("MODULE", "LIST"),
    ("INFO",),
]
"""What nobody needs."""
UNNEEDED: list[tuple[Any, ...]] = [
    ("SELECT", 1),
    ("SUBSCRIBE", "anything"),
    ("PSUBSCRIBE", "*"),
    ("PUBLISH", broker_users.CONTROL, "{}"),
    ("PUBSUB", "CHANNELS"),
    ("RANDOMKEY",),
    ("DBSIZE",),
    ("MULTI",),
    ("SWAPDB", 0, 1),
]


def of_lists(key: str) -> list[tuple[Any, ...]]:
    return [
        ("BRPOP", key, 1),
        ("RPOP", key),
        ("LPOP", key),
        ("LRANGE", key, 0, -1),
        ("LPUSH", key, "x"),
        ("RPUSH", key, "x"),
        ("DEL", key),
        ("LLEN", key),
        ("RENAME", key, f"{PREFIX}y"),
        ("RPOPLPUSH", key, PREFIX + RECORD),
        ("RPOPLPUSH", PREFIX + OWN, key),
        ("EXPIRE", key, 1),
        ("TYPE", key),
    ]


def test_a_measure_worker_may_take_from_its_queues_and_push_to_record_and_nothing_else(server: redis.Redis) -> None:
    for key in (*FOREIGN, PREFIX + OWN):
        server.lpush(key, "kept")
    with as_user(READS, server) as reads, as_user(REPORTS, server) as reports:
        allowed = {(id(reports), "LPUSH", PREFIX + RECORD), (id(reads), "BRPOP", PREFIX + OWN)}
        for client in (reads, reports):
            commands = ADMIN + UNNEEDED + [c for key in (*FOREIGN, PREFIX + OWN) for c in of_lists(key)]
            for command in commands:
                if (id(client), *command[:2]) not in allowed:
                    assert refused(client, *command), command
        assert reports.lpush(PREFIX + RECORD, "report") == 2
        assert reads.brpop(PREFIX + OWN, 1)[1] == b"kept"
        assert reads.ping()
        assert reports.ping()
    with as_user(CORE, server) as core:
        for command in ADMIN:
            assert command[0] == "SCAN" or refused(core, *command), command
        assert refused(core, "GET", "another:key")
        assert not refused(core, "PUBLISH", broker_users.CONTROL, "{}")
    for user in (CORE, READS):
        with as_user(user, server) as listener, listener.pubsub() as channel:
            channel.psubscribe(broker_users.CONTROL)
            assert channel.get_message(timeout=10.0)["type"] == "psubscribe"
    with as_user(CORE, server) as core:
        assert all(core.llen(key) >= 1 for key in FOREIGN)
    with redis.Redis(port=server.connection_pool.connection_kwargs["port"]) as nobody:
        with pytest.raises(redis.exceptions.AuthenticationError):
            nobody.ping()
    server.flushall()


@pytest.fixture
def worker(server: redis.Redis, tmp_path: Path) -> Iterator[subprocess.Popen]:
    ensure_key(tmp_path)
    server.execute_command("ACL", "LOG", "RESET")
    command = ("tunesmith.cli", "worker", "--queues", "measure")
    settings = {"reports_url": url_of(REPORTS, server), "simulate": "1", "device_classes": CLASS}
    with worker_process(tmp_path, url_of(READS, server), *command, **settings) as process:
        yield process


def reported(server: redis.Redis, kind: type[Any]) -> Callable[[], Any]:
    """Finds what the worker said of this kind in the queue, taking nothing from it."""

    def look() -> list[Any]:
        items = [json.loads(item) for item in server.lrange(PREFIX + RECORD, 0, -1)]
        bodies = [json.loads(base64.b64decode(i["body"])) for i in items if i["headers"]["task"] == kind.task]
        return [json.loads(args[0]["body"]) for args, *_ in bodies]

    return look


def test_a_measure_worker_with_these_rights_does_its_work(
    server: redis.Redis, worker: subprocess.Popen, tmp_path: Path
) -> None:
    publisher, log = CeleryPublisher(url_of(CORE, server)), tmp_path / "worker.log"

    def reached(look: Callable[[], Any], what: str) -> Any:
        def alive_and_reached() -> Any:
            assert worker.poll() is None, "the worker ended"
            return look()

        return wait_for(alive_and_reached, what, 120.0)

    reached(lambda: any(told["log"] for told in reported(server, DeviceReport)()), "the device's report and its log")
    batch = Gemm.make(Target({"kind": "llvm", "num-cores": 1}), 1).batch(7)
    publisher.revoke(["another"])
    broker = f"redis://tester:only-for-tests@{address(url_of(CORE, server))}"
    with Celery("asking", broker=broker, set_as_current=False) as asking:
        assert asking.control.ping(timeout=1.0) == [], "a measure worker may not answer"
    wait_for(lambda: b"Tasks flagged as revoked: another" in log.read_bytes(), "the revocation", 30.0)
    assert publisher.send(batch, queue=OWN, task_id=f"{MeasureBatch.task}-{time.monotonic_ns()}")
    reached(reported(server, BatchReport), "the report")
    worker.terminate()
    assert worker.wait(timeout=30) == 0
    assert [entry for entry in server.acl_log() if entry["username"] in (READS.name, REPORTS.name)] == []
    assert sorted(key.decode() for key in server.keys("*") if b"binding" not in key) == [PREFIX + RECORD]
    publisher.close()


def test_logs_at_the_broker_stay_small(server: redis.Redis) -> None:
    store, publisher = LogStore(url_of(CORE, server)), CeleryPublisher(url_of(CORE, server))
    line = LogLine(at=1.0, level="info", logger="here", process=1, text="0")
    most = sum(KEPT_LINES.values())
    lines = [line.model_copy(update={"at": float(i), "text": str(i)}) for i in range(2 * most)]
    warning = line.model_copy(update={"level": "warning", "text": "careful"})
    assert store.add("first", [warning])
    assert store.add("first", lines)
    found = publisher.log("first")
    assert len(found) == KEPT_LINES["told"] + 1, "what is told all the time pushes no warning out"
    assert [found[0].text, found[-1].text] == [str(2 * most - 1), "careful"]
    server.lpush(f"{PREFIX}log.told.first", "no line")
    assert len(publisher.log("first")) == len(found) - 1, "it is in the place of the oldest line"
    assert all(0 < server.ttl(key) <= KEPT_SECONDS for key in server.keys(f"{PREFIX}log*"))
    for number in range(KEPT_LOGS):
        assert store.add(f"more {number}", [line])
    assert publisher.log("first") == []
    assert len(server.keys(f"{PREFIX}log*")) == KEPT_LOGS + 1
    server.flushall()
    publisher.close()


def test_reports_of_core_workers_at_the_broker_stay_few(server: redis.Redis) -> None:
    url, processes = url_of(CORE, server), PoolProcesses()
    publisher = CeleryPublisher(url)
    processes.note(1, 70_000)
    processes.note(0, 8)

    def reported(name: str) -> CoreHeartbeat:
        heartbeat = CoreHeartbeat(url, CoreReport(name=name, host="h", queues=("train",)), processes)
        heartbeat.beat()
        return heartbeat

    first = reported("first")
    (node,) = publisher.nodes(60.0)
    assert node.report == CoreReport(name="first", host="h", queues=("train",), processes=(8, 70_000))
    assert publisher.nodes(-1.0) == [], "all of them have an age"
    later = {**node.report.model_dump(), "version": "9.0.0", "more": {"of": "later"}}
    server.set(PREFIX + report_key("first"), json.dumps(later))
    assert [node.report.version for node in publisher.nodes(60.0)] == ["9.0.0"]
    server.set(PREFIX + report_key("first"), json.dumps({**later, "host": "x" * 301}))
    assert publisher.nodes(60.0) == []
    first.beat()
    for number in range(KEPT_REPORTS):
        reported(f"more {number:03}")
    assert [node.name for node in publisher.nodes(60.0)] == [f"more {number:03}" for number in range(KEPT_REPORTS)]
    assert all(0 < server.ttl(key) <= core_workers.KEPT_SECONDS for key in server.keys(f"{PREFIX}core*"))
    server.flushall()
    publisher.close()


def test_a_name_that_would_be_a_rule_is_refused() -> None:
    for name, classes in (("x +@all", ()), ("", ()), ("x", ["a ~*"]), ("x", ["*"])):
        with pytest.raises(InvalidInput):
            broker_users.measuring(name, classes)
