from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from celery import Celery

from db.blobs import BlobStore
from tunesmith.errors import InvalidInput, MeasurementFailed, MissingDependency
from tunesmith.messages import BatchReport, DeviceReport, MeasureBatch, Message, Payload, WireCandidate, WireResult
from tunesmith.targets import Target
from tunesmith.types import FailureKind, Isolation, TensorSpec
from workers.app import create_app
from workers.measure.blobs import PayloadCache
from workers.measure.device import check_device, identify
from workers.measure.heartbeat import Heartbeat
from workers.measure.library_cache import LibraryCache
from workers.measure.reporting import Reporter
from workers.measure.task_memory import BUILD_ABORT, BUILD_ABORT_SECONDS, FEW_BUILDS, Champion, TaskMemory
from workers.measure.tasks import MeasureTasks
from workers.measure.worker import FOLDER, sweep
from workers.protocol import Built, RunOutcome
from workers.sandbox.pool import ChildTimeout
from workers.settings import Settings
from workers.tvm_backend.arguments import random_array
from workers.tvm_backend.build import cuda_compiler
from workers.tvm_backend.host import Host
from workers.tvm_backend.run.compare_models import output_error
from workers.tvm_backend.run.timing_windows import isolation_of

HOST = Host("box", "Some CPU", "znver4", 4, "0.27.0", "3.11", "Linux")
CONTENT = {"/one": b"1" * 1000, "/two": b"2" * 1000, "/three": b"3" * 1000}


class Blobs(BaseHTTPRequestHandler):
    """Serves ``CONTENT``."""

    def do_GET(self) -> None:
        data = CONTENT.get(self.path.partition("?")[0])
        self.send_response(200 if data else 404)
        self.send_header("Content-Length", str(len(data or b"")))
        self.end_headers()
        self.wfile.write(data or b"")

    def log_message(self, *_: object) -> None:
        """Silence."""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Blobs) as made:
        thread = threading.Thread(target=made.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{made.server_address[1]}"
        made.shutdown()
        thread.join(10)


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[PayloadCache]:
    made = PayloadCache(tmp_path / "cache", limit=2500)
    yield made
    made.close()


def blob(server: str, path: str) -> Payload:
    return Payload(sha256=hashlib.sha256(CONTENT[path]).hexdigest(), url=f"{server}{path}?signature=x", size=1000)


def test_inline_payload_needs_no_network(cache: PayloadCache) -> None:
    payload = Payload.pack(b"data")
    assert cache.load(payload) == b"data"
    assert cache.file(payload).read_bytes() == b"data"


def test_blob_is_fetched_once(cache: PayloadCache, server: str) -> None:
    payload = blob(server, "/one")
    path = cache.file(payload)
    assert path.read_bytes() == CONTENT["/one"]
    assert cache.load(payload.model_copy(update={"url": "http://127.0.0.1:1/gone"})) == CONTENT["/one"]


def test_cache_forgets_what_was_not_used(cache: PayloadCache, server: str) -> None:
    one, two = cache.file(blob(server, "/one")), cache.file(blob(server, "/two"))
    os.utime(one, (1, 1))
    os.utime(two, (2, 2))
    cache.file(blob(server, "/one"))
    assert cache.file(blob(server, "/three")).exists()
    assert one.exists()
    assert not two.exists()


def test_blob_of_a_store_at_hand_is_neither_fetched_nor_copied(server: str, tmp_path: Path) -> None:
    store = BlobStore(tmp_path / "blobs")
    sha = store.put_bytes(b"weights")
    made = PayloadCache(tmp_path / "cache", store=store.directory)
    assert made.file(Payload(sha256=sha, url="http://127.0.0.1:1/gone", size=7)) == store.path(sha)
    assert not (tmp_path / "cache").exists()
    assert made.load(blob(server, "/one")) == CONTENT["/one"]  # another coordinator's
    made.close()


def test_blob_with_another_content_is_refused(cache: PayloadCache, server: str, tmp_path: Path) -> None:
    wrong = blob(server, "/one").model_copy(update={"sha256": "0" * 64})
    with pytest.raises(MeasurementFailed, match="another content"):
        cache.file(wrong)
    assert list((tmp_path / "cache").iterdir()) == []


def test_blob_that_cannot_be_fetched_says_so(cache: PayloadCache, server: str) -> None:
    gone = Payload(sha256="0" * 64, url=f"{server}/nothing?signature=x", size=1)
    with pytest.raises(MeasurementFailed, match=r"cannot be fetched: status 404$"):
        cache.load(gone)
    with pytest.raises(MeasurementFailed, match="neither inline nor"):
        cache.load(Payload())


def compose(results: list[WireResult], final: bool, error: str) -> BatchReport:
    return BatchReport(batch_id=1, attempt=1, worker="w", results=list(results), final=final, error=error)


def result(index: int) -> WireResult:
    return WireResult(index=index, failure=FailureKind.CRASH)


def test_results_are_kept_while_the_broker_is_away() -> None:
    sent: list[BatchReport] = []
    answers = [False, True]

    def send(message: Message) -> bool:
        assert isinstance(message, BatchReport)
        if answers and not answers.pop(0):
            return False
        sent.append(message)
        return True

    with Reporter(send, compose) as report:
        report.add(*(result(i) for i in range(8)))
        report.add(result(8))
        report.finish()
    indices = [r.index for message in sent for r in message.results]
    assert indices == list(range(9))
    assert [m.final for m in sent] == [False] * (len(sent) - 1) + [True]


def test_last_report_is_tried_again() -> None:
    answers = [False, True]
    with Reporter(lambda message: answers.pop(0), compose) as report:
        assert report.finish("why")
    assert answers == []


def test_presence_reports_while_it_lives_and_says_goodbye() -> None:
    sent: list[DeviceReport] = []
    several = threading.Event()

    def send(message: Message) -> bool:
        assert isinstance(message, DeviceReport)
        sent.append(message)
        if len(sent) >= 3:
            several.set()
        return True

    report = DeviceReport(worker="w", name="n", host="h", device_classes=[], target={}, cores=1, busy=True)
    heartbeat = Heartbeat(send, lambda: report, interval=0.01)
    heartbeat.start()
    assert several.wait(30)
    heartbeat.stop()
    assert not any(m.stopping for m in sent[:-1])
    assert sent[-1].stopping
    assert not sent[-1].busy


def test_a_heartbeat_that_could_not_be_sent_gives_back_what_is_said_once() -> None:
    report = DeviceReport(worker="w", name="n", host="h", device_classes=[], target={}, cores=1)
    answers, returned = [False, True], []
    heartbeat = Heartbeat(lambda _: answers.pop(0), lambda: report, returned.append)
    heartbeat.beat()
    heartbeat.beat()
    assert returned == [report]


def test_host_serves_one_to_all_of_its_cores() -> None:
    made = identify(Settings(device_key="desk"), HOST)
    assert made.classes == tuple(f"llvm-znver4-{n}" for n in (1, 2, 3, 4))
    assert made.name == "box/desk"
    assert Target(made.target).device_class == made.classes[-1]


@pytest.mark.parametrize("name", ["nvidia-nvidia-h100", "cuda-sm_90a", "llvm-skylake-avx512-8"])
def test_given_classes_say_the_target(name: str) -> None:
    made = identify(Settings(device_classes=(name,), simulate=True), HOST)
    assert made.classes == (name,)
    assert Target(made.target).device_class == name


def test_a_simulated_device_is_not_the_hosts_own() -> None:
    made = identify(Settings(device_classes=("nvidia-nvidia-h100",), simulate=True), HOST)
    assert made.name.endswith("-simulated-nvidia-nvidia-h100")
    assert made.key != identify(Settings(), HOST).key
    with pytest.raises(InvalidInput, match="TUNESMITH_DEVICE_CLASSES"):
        check_device(Settings(queues="measure", simulate=True))


@pytest.mark.parametrize("queues", ["measure", "record,measure.cuda-sm_90a"])
def test_a_worker_that_cannot_build_for_its_class_refuses_it(
    queues: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(cuda_compiler, "_nvrtc", lambda: False)
    named = () if "cuda" in queues else ("llvm-znver4-2", "nvidia-nvidia-h100")
    with pytest.raises(MissingDependency, match=r"nvcc.*tunesmith\[cuda\]"):
        create_app(Settings(queues=queues, device_classes=named))
    check_device(Settings(queues="measure", device_classes=("llvm-znver4-2",)))


def test_unknown_class_is_refused() -> None:
    with pytest.raises(InvalidInput, match="nonsense"):
        identify(Settings(device_classes=("nonsense",)), HOST)


@pytest.mark.parametrize(
    ("dtype", "kind"), [("float32", "f"), ("float16", "f"), ("int64", "i"), ("uint8", "u"), ("bool", "b")]
)
def test_arguments_suit_their_type(dtype: str, kind: str) -> None:
    array = random_array(TensorSpec(dtype, (33, 5)), seed=1)
    assert (array.dtype.kind, array.shape) == (kind, (33, 5))
    assert len(np.unique(array)) > 1
    assert float(array.astype("float64").min()) >= (-1.0 if kind == "f" else 0.0)
    assert (array == random_array(TensorSpec(dtype, (33, 5)), seed=1)).all()


def test_arguments_of_any_size() -> None:
    assert random_array(TensorSpec("float32", ()), 0).shape == ()
    assert random_array(TensorSpec("float32", (0, 3)), 0).shape == (0, 3)
    assert random_array(TensorSpec("bfloat16", (3,)), 0).dtype.name == "bfloat16"
    assert random_array(TensorSpec("float32", (1100, 1000)), 0).shape == (1100, 1000)


def test_output_error_is_seen_against_the_signal() -> None:
    base = np.full(4, 1000.0)
    x, other = base, base + np.array([0, 1, 0, -2])
    assert output_error([x + 0.02], [x], [other]) == pytest.approx(0.01)
    assert output_error([x, x], [x, x + 0.02], [other, other]) == pytest.approx(0.01, rel=0.02)
    assert output_error([x], [x], [x]) == 0.0
    assert output_error([x + 10], [x], [x]) == pytest.approx(10.0), "a thousandth of the outputs is their signal"


def test_folders_of_killed_workers_are_removed(tmp_path: Path) -> None:
    mine, dead, other = (tmp_path / name for name in (f"{FOLDER}{os.getpid()}-a", f"{FOLDER}99999999-b", "other"))
    for folder in (mine, dead, other):
        folder.mkdir()
    sweep(tmp_path)
    assert (mine.exists(), dead.exists(), other.exists()) == (True, False, True)


def built(folder: Path, name: str) -> Built:
    path = folder / name
    path.write_text(name)
    return Built(path=path, function="main", code_hash=name)


def test_the_shelf_keeps_what_was_used_last(tmp_path: Path) -> None:
    libraries = LibraryCache(tmp_path / "shelf", kept=2)
    for name in ("a", "b"):
        libraries.put(name, built(tmp_path, name))
    assert libraries.get("a") is not None
    libraries.put("c", built(tmp_path, "c"))
    kept = [libraries.get(name) for name in ("a", "b", "c")]
    assert [None if one is None or one.path is None else one.path.read_text() for one in kept] == ["a", None, "c"]
    assert len(list((tmp_path / "shelf").iterdir())) == 2
    libraries.put("a", built(tmp_path, "new"))
    assert len(list((tmp_path / "shelf").iterdir())) == 2
    with pytest.raises(ValueError, match="failed"):
        libraries.put("d", Built(failure=FailureKind.CRASH))


def batch(incumbent: float | None = None, champion: WireCandidate | None = None, job: str = "job") -> MeasureBatch:
    return MeasureBatch(
        batch_id=1,
        attempt=1,
        job_id=job,
        target={},
        workload="w",
        module=Payload(),
        sketches={},
        candidates=[],
        incumbent_seconds=incumbent,
        champion=champion,
    )


def test_the_better_champion_is_the_one_to_beat() -> None:
    memory = TaskMemory()
    said = WireCandidate(index=-1, sketch="s", decisions=[1])
    assert memory.champion(batch(2.0)) == Champion(None, 2.0)
    memory.promote(batch(2.0), WireCandidate(index=5, sketch="s", decisions=[7]), 1.0)
    mine = memory.champion(batch(2.0, said))  # composed before the winner was known
    assert mine == Champion(WireCandidate(index=-1, sketch="s", decisions=[7]), 1.0)
    assert memory.champion(batch(0.5, said)) == Champion(said, 0.5)
    assert memory.champion(batch(2.0, said, job="another")) == Champion(said, 2.0)


def test_a_build_may_take_some_times_what_builds_usually_take() -> None:
    memory, limit = TaskMemory(), batch().limits.build_timeout
    assert memory.build_timeout(batch()) == limit
    for _ in range(FEW_BUILDS):
        memory.built(batch(), 0.5)
    assert memory.build_timeout(batch()) == BUILD_ABORT * 0.5
    for _ in range(100):
        memory.built(batch(), 0.01)
    assert memory.build_timeout(batch()) == BUILD_ABORT_SECONDS
    for _ in range(100):
        memory.built(batch(), 60.0)
    assert memory.build_timeout(batch()) == limit


def test_equal_code_is_known_within_a_task() -> None:
    memory, outcome = TaskMemory(), RunOutcome((1.0,))
    memory.remember(batch(), "code", outcome)
    assert memory.measured(batch(), "code") == outcome
    assert memory.measured(batch(), "other") is None
    assert memory.measured(batch(job="another"), "code") is None
    assert memory.measured(batch(), "") is None


@pytest.mark.parametrize(
    ("kind", "threads", "local", "isolation"),
    [
        ("llvm", 4, True, Isolation.EXCLUSIVE),
        ("llvm", 2, True, Isolation.PINNED),
        ("llvm", 4, False, Isolation.SHARED),
        ("cuda", 4, True, Isolation.SHARED),
    ],
)
def test_isolation_follows_from_where_the_kernel_runs(
    kind: str, threads: int, local: bool, isolation: Isolation
) -> None:
    assert isolation_of(kind, threads, 4, local) is isolation


def test_a_worker_that_cannot_start_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ChildTimeout("no answer within 120 s")

    monkeypatch.setattr("workers.measure.tasks.MeasureWorker", broken)
    app = Celery("test", set_as_current=False)
    with pytest.raises(SystemExit):
        MeasureTasks(app, Settings()).begin()
