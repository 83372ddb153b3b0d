from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from gemm_batches import LIMITS, Gemm, Mailbox, slow_champion
from onnx import TensorProto, helper
from rpc_device import RpcDevice

from tunesmith.errors import DeviceLost
from tunesmith.messages import (
    BatchReport,
    DefaultSchedule,
    DeviceReport,
    EvaluateModel,
    EvaluationReport,
    ModelFile,
    ModelWeights,
    Payload,
    Spec,
    TunedWorkload,
    WireCandidate,
)
from tunesmith.targets import Target
from tunesmith.types import FailureKind, StopReason
from workers.measure import builds, finals, task_memory
from workers.measure.worker import MeasureWorker
from workers.settings import Settings
from workers.tvm_backend.run.runner import RpcRunner

pytestmark = pytest.mark.servers


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RpcDevice]:
    made = RpcDevice(tmp_path_factory.mktemp("device"))
    yield made
    made.stop()


@pytest.fixture(scope="module")
def mailbox() -> Mailbox:
    return Mailbox()


@pytest.fixture(scope="module")
def worker(device: RpcDevice, mailbox: Mailbox, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MeasureWorker]:
    settings = Settings(
        data_dir=tmp_path_factory.mktemp("data"),
        tracker=device.tracker,
        device_key=device.key,
        lease_file=device.lease,
        queues=("measure",),
    )
    made = MeasureWorker(settings, mailbox.send)
    made.start()
    yield made
    made.close()


@pytest.fixture(scope="module")
def gemm(worker: MeasureWorker) -> Gemm:
    return Gemm.make(Target(worker.identity.target), 4)


def test_device_reports_what_it_is(worker: MeasureWorker, mailbox: Mailbox) -> None:
    report = next(m for m in mailbox.messages if isinstance(m, DeviceReport))
    assert report.target["kind"] == "llvm"
    assert Target(report.target).device_class == report.device_classes[-1]
    assert len(report.device_classes) == report.cores
    assert not report.simulated


def test_batch_is_measured_and_the_winner_carries_its_trace(
    worker: MeasureWorker, mailbox: Mailbox, gemm: Gemm
) -> None:
    worker.measure(gemm.batch(1, incumbent_seconds=1.0))
    results = mailbox.results(1)
    assert sorted(results) == [0, 1, 2, 3, 4]
    assert all(r.failure is None and r.samples and r.build_seconds > 0 and r.stopped for r in results.values())
    assert all(r.device_seconds > 0 and r.run_seconds > 0 for r in results.values() if not r.duplicate)
    confirmed = {i: r.confirmation for i, r in results.items() if r.confirmation}
    own = {i: statistics.median(r.samples) for i, r in results.items() if i and not r.duplicate}
    fastest = sorted(own, key=lambda i: own[i])[:2]
    assert fastest[0] in confirmed
    assert set(confirmed) <= set(fastest), "as many finalists as the limits say, the fastest, and not the default"
    for index, confirmation in confirmed.items():
        assert confirmation.won
        assert confirmation.error is not None
        assert confirmation.error < 1e-5
        assert (confirmation.champion_samples, confirmation.p_value) == ([], None), "there was no champion"
        assert results[index].trace
    assert not any(r.trace for i, r in results.items() if i not in confirmed)
    environment = mailbox.last(BatchReport).environment
    assert environment["threads"] == gemm.target.num_cores
    assert environment["binding"] == ",".join(str(core) for core in sorted(os.sched_getaffinity(0)))
    assert (environment["isolation"], environment["cache"]) == ("exclusive", "warm")


def test_a_first_finalist_stands_beside_a_default_schedule_that_is_not_far_slower(
    worker: MeasureWorker, mailbox: Mailbox, gemm: Gemm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finals, "FAR_RATIO", 1e9)
    worker.measure(gemm.batch(20, job_id="near", incumbent_seconds=1.0))
    confirmed = [r.confirmation for r in mailbox.results(20).values() if r.confirmation]
    assert confirmed
    for confirmation in confirmed:
        assert 5 <= len(confirmation.samples) == len(confirmation.champion_samples)
        assert confirmation.champion is None
        assert confirmation.p_value is not None
        assert confirmation.won == (confirmation.p_value < LIMITS.significance)


def test_a_slow_default_schedule_is_timed_last_and_compared_with_nevertheless(
    worker: MeasureWorker, mailbox: Mailbox, gemm: Gemm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(builds, "SLOW", 1.0)
    worker.measure(gemm.batch(17, job_id="slow", incumbent_seconds=1.0))
    reports = [m for m in mailbox.messages if isinstance(m, BatchReport) and m.batch_id == 17]
    assert [r.index for report in reports for r in report.results][-1] == 0
    results = mailbox.results(17)
    assert results[0].samples
    confirmed = [r.confirmation for r in results.values() if r.confirmation]
    assert confirmed
    assert all(c.won and c.error is not None and c.error < 1e-5 for c in confirmed)


def test_default_schedules_of_other_tasks_are_timed_roughly_before_a_batch(
    worker: MeasureWorker, mailbox: Mailbox, gemm: Gemm, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Gemm.make(gemm.target, 1, size=48)
    broken = DefaultSchedule(workload="broken", module=Payload.pack(b"no module"))
    asked = [broken, DefaultSchedule(workload=other.task.workload.hash, module=Payload.pack(other.task.module))]
    worker.measure(gemm.batch(18, job_id="rough", chosen=[], defaults=asked))
    report = next(m for m in mailbox.messages if isinstance(m, BatchReport) and m.batch_id == 18 and m.results)
    (found,) = report.defaults
    assert found.workload == other.task.workload.hash
    assert found.seconds > 0
    built: list[str] = []
    real = worker.builders.submit
    monkeypatch.setattr(worker.builders, "submit", lambda *a, **k: built.append(a[0]) or real(*a, **k))
    worker.measure(other.batch(19, job_id="rough", chosen=[]))
    assert mailbox.results(19)[0].samples
    assert built == [], "its library is on the shelf"


def test_finalists_are_measured_in_turn_with_the_champion(
    worker: MeasureWorker, mailbox: Mailbox, gemm: Gemm, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow_champion(monkeypatch)
    _, first, *others = gemm.batch(11).candidates
    champion = first.model_copy(update={"index": -1})
    # That it was confirmed at 1e-9 seconds is long ago: what counts is what it takes now.
    batch = gemm.batch(11, job_id="duel", candidates=others, incumbent_seconds=1e-9, champion=champion)
    worker.measure(batch)
    confirmed = [result for result in mailbox.results(11).values() if result.confirmation]
    assert confirmed
    for result in confirmed:
        confirmation = result.confirmation
        assert confirmation is not None
        assert 5 <= len(confirmation.samples) == len(confirmation.champion_samples) <= batch.limits.confirm_repeats
        assert confirmation.p_value is not None
        assert confirmation.won == (confirmation.p_value < batch.limits.significance)
        assert confirmation.won == (result.trace is not None)


def test_candidates_that_cannot_win_are_not_confirmed(worker: MeasureWorker, mailbox: Mailbox, gemm: Gemm) -> None:
    worker.measure(gemm.batch(12, job_id="hopeless", incumbent_seconds=1e-9))
    results = mailbox.results(12)
    assert all(r.confirmation is None and r.trace is None for r in results.values())
    assert {r.stopped for i, r in results.items() if i} == {StopReason.RACED}
    assert results[0].stopped is not StopReason.RACED, "others are compared with the default schedule"


def test_equal_code_runs_once(worker: MeasureWorker, mailbox: Mailbox, gemm: Gemm) -> None:
    (_, one, *_) = gemm.batch(13).candidates
    worker.measure(gemm.batch(13, job_id="twins", candidates=[one, one.model_copy(update={"index": 2})]))
    worker.measure(gemm.batch(14, job_id="twins", candidates=[one]))
    first, second = (mailbox.results(13)[i] for i in (1, 2))
    third = mailbox.results(14)[1]
    assert [r.duplicate for r in (first, second, third)] == [False, True, True]
    assert first.samples == second.samples == third.samples
    assert (second.device_seconds, third.device_seconds) == (0.0, 0.0)


def test_repeated_message_is_answered_from_memory(worker: MeasureWorker, mailbox: Mailbox, gemm: Gemm) -> None:
    worker.measure(gemm.batch(2))
    worker.measure(gemm.batch(2, attempt=2))
    assert mailbox.results(2, attempt=2) == mailbox.results(2, attempt=1)


def test_invalid_candidate_costs_itself_only(worker: MeasureWorker, mailbox: Mailbox, gemm: Gemm) -> None:
    good = gemm.candidates[0]
    wire = [
        WireCandidate(index=0, sketch=good.sketch, decisions=[]),
        WireCandidate(index=1, sketch=good.sketch, decisions=good.to_json()[1]),
    ]
    worker.measure(gemm.batch(3, candidates=wire))
    results = mailbox.results(3)
    assert results[0].failure is FailureKind.INVALID
    assert results[1].failure is None


def test_build_that_takes_too_long_is_a_build_timeout(
    worker: MeasureWorker, mailbox: Mailbox, gemm: Gemm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_memory, "BUILD_ABORT", 1000.0)  # a new builder on a busy machine is slower than usual
    limits = LIMITS.model_copy(update={"build_timeout": 0.005})
    worker.measure(gemm.batch(4, limits=limits, candidates=gemm.batch(4).candidates[1:3]))
    assert {r.failure for r in mailbox.results(4).values()} == {FailureKind.BUILD_TIMEOUT}
    worker.measure(gemm.batch(5))
    assert all(r.failure is None for r in mailbox.results(5).values())


def test_finalist_whose_device_was_lost_is_confirmed_by_the_next_attempt(
    worker: MeasureWorker, mailbox: Mailbox, gemm: Gemm, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = gemm.batch(15, job_id="unlucky", candidates=gemm.batch(15).candidates[1:2], incumbent_seconds=1.0)
    with monkeypatch.context() as patch:
        patch.setattr(RpcRunner, "confirm", lost)
        worker.measure(batch)
    assert mailbox.results(15, error="gone") == {}
    worker.measure(batch.model_copy(update={"attempt": 2}))
    (result,) = mailbox.results(15, attempt=2).values()
    assert not result.duplicate
    assert result.confirmation is not None


def lost(*_: object) -> None:
    raise DeviceLost("gone")


def test_missing_device_fails_the_batch_and_not_its_candidates(
    mailbox: Mailbox, gemm: Gemm, device: RpcDevice, tmp_path: Path
) -> None:
    settings = Settings(data_dir=tmp_path, tracker=device.tracker, device_key="nobody", lease_file=device.lease)
    lonely = MeasureWorker(settings, mailbox.send, RpcRunner(device.tracker, "nobody", device.lease, wait=0.5))
    try:
        lonely.measure(gemm.batch(6))
    finally:
        lonely.close()
    report = next(m for m in reversed(mailbox.messages) if isinstance(m, BatchReport))
    assert report.final
    assert "nobody" in report.error
    assert mailbox.results(6, error="nobody") == {}


def test_cuda_batch_without_a_compiler_says_what_to_install(
    mailbox: Mailbox, gemm: Gemm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "nvidia").mkdir()
    (tmp_path / "nvidia" / "__init__.py").touch()
    # Hides the packages of NVRTC from the builders.
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *(entry for entry in sys.path if entry)]))
    settings = Settings(
        data_dir=tmp_path, simulate=True, device_classes=("nvidia-nvidia-h100",), lease_file=tmp_path / "lease"
    )
    simulated = MeasureWorker(settings, mailbox.send)
    try:
        assert simulated.identity.target["kind"] == "cuda"
        wire = [WireCandidate(index=0, sketch=None)]
        simulated.measure(gemm.batch(7, target=simulated.identity.target, candidates=wire, sketches={}))
    finally:
        simulated.close()
    (result,) = mailbox.results(7).values()
    assert result.failure is FailureKind.BUILD_ERROR
    assert "nvcc" in result.message
    assert "tunesmith[cuda]" in result.message


def evaluation(gemm: Gemm, evaluation_id: int, trace: str, seconds: float) -> EvaluateModel:
    spec = gemm.task.workload
    record = TunedWorkload(
        workload=spec.hash,
        workload_json=Payload.pack(gemm.task.metaschedule),
        trace=Payload.pack(trace.encode()),
        run_seconds=[seconds],
        args=[Spec(dtype=a.dtype, shape=a.shape) for a in spec.args],
    )
    return EvaluateModel(
        evaluation_id=evaluation_id,
        attempt=1,
        job_id="job",
        target=gemm.target.to_json(),
        module=Payload.pack(gemm.module),
        params=None,
        records=[record],
        timeout=120.0,
        inputs=[Spec(dtype=a.dtype, shape=a.shape) for a in spec.args[:-1]],
    )


def test_model_is_compared_with_itself_untuned(worker: MeasureWorker, mailbox: Mailbox, gemm: Gemm) -> None:
    worker.measure(gemm.batch(8, job_id="evaluated", incumbent_seconds=1.0))
    tuned = min((r for r in mailbox.results(8).values() if r.trace), key=lambda r: min(r.samples))
    worker.evaluate(evaluation(gemm, 1, str(tuned.trace), min(tuned.samples)))
    report = mailbox.last(EvaluationReport)
    assert (report.failure, report.message, report.final) == (None, "", True)
    assert report.applied == 1
    assert report.untuned_samples
    assert report.tuned_samples
    assert report.error is not None
    assert report.error < 1e-4


def test_the_same_model_on_another_runtime_is_the_reference(
    worker: MeasureWorker, mailbox: Mailbox, gemm: Gemm
) -> None:
    """In a box on the cores of the device; one that cannot run the file leaves the evaluation whole."""
    worker.measure(gemm.batch(31, job_id="compared", incumbent_seconds=1.0))
    tuned = min((r for r in mailbox.results(31).values() if r.trace), key=lambda r: min(r.samples))
    plain = evaluation(gemm, 4, str(tuned.trace), min(tuned.samples))
    for number, content in ((4, onnx_product([spec.shape for spec in plain.inputs])), (5, b"no model")):
        file = ModelFile(source="onnx", content=Payload.pack(content))
        worker.evaluate(plain.model_copy(update={"evaluation_id": number, "file": file, "precision": "bf16"}))
        report = mailbox.last(EvaluationReport)
        assert (report.evaluation_id, report.failure, report.error is None) == (number, None, False)
        found = {timing.runtime: timing for timing in report.references}["onnxruntime"]
        assert bool(found.samples) != bool(found.failure)
        assert bool(found.failure) == (found.error is None) == (number == 5), found


def onnx_product(shapes: Sequence[tuple[int, ...]]) -> bytes:
    """A product of two inputs that are called by their numbers."""
    inputs = [helper.make_tensor_value_info(str(i), TensorProto.FLOAT, shape) for i, shape in enumerate(shapes)]
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, [shapes[0][0], shapes[1][1]])
    graph = helper.make_graph([helper.make_node("MatMul", ["0", "1"], ["y"])], "product", inputs, [out])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(model.SerializeToString())


def test_model_that_cannot_be_compiled_is_a_failure(worker: MeasureWorker, mailbox: Mailbox, gemm: Gemm) -> None:
    broken = evaluation(gemm, 2, "[[], []]", 1.0).model_copy(update={"module": Payload.pack(b"not a module")})
    worker.evaluate(broken)
    report = mailbox.last(EvaluationReport)
    assert report.final
    assert report.failure is FailureKind.BUILD_ERROR
    assert report.message


def test_simulated_worker_says_so(mailbox: Mailbox, gemm: Gemm, tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, simulate=True, lease_file=tmp_path / "lease")
    simulated = MeasureWorker(settings, mailbox.send)
    try:
        simulated.measure(gemm.batch(9))
        simulated.measure(gemm.batch(10))
    finally:
        simulated.close()
    first, second = ({i: r.samples for i, r in mailbox.results(n).items()} for n in (9, 10))
    assert first == second
    assert len({tuple(s) for s in first.values()}) > 1
    assert mailbox.last(BatchReport).environment["simulated"]


def test_closing_reports_that_the_device_goes(mailbox: Mailbox, tmp_path: Path) -> None:
    worker = MeasureWorker(Settings(data_dir=tmp_path, simulate=True, lease_file=tmp_path / "lease"), mailbox.send)
    worker.start()
    worker.close()
    assert mailbox.last(DeviceReport).stopping


def test_weights_that_cannot_be_fetched_now_are_no_fault_of_the_model(
    worker: MeasureWorker, mailbox: Mailbox, gemm: Gemm
) -> None:
    """As while the coordinator is restarted: another attempt may find it."""
    away = Payload(sha256="0" * 64, url="http://127.0.0.1:1/v1/blobs/0", size=1)
    worker.evaluate(evaluation(gemm, 3, "[[], []]", 1.0).model_copy(update={"params": away}))
    report = mailbox.last(EvaluationReport)
    assert (report.final, report.failure) == (True, FailureKind.DEVICE_LOST)
    assert "cannot be fetched" in report.message


def test_the_same_number_in_another_database_is_another_batch(
    worker: MeasureWorker, mailbox: Mailbox, gemm: Gemm
) -> None:
    wire = [WireCandidate(index=0, sketch=None)]

    def results(**values: str) -> set[str]:
        """The different results that one delivery brought; a report may say again what an earlier one said."""
        before = len(mailbox.messages)
        worker.measure(gemm.batch(909, candidates=wire, **values))
        reports = [m for m in mailbox.messages[before:] if isinstance(m, BatchReport) and m.batch_id == 909]
        return {result.model_dump_json() for report in reports for result in report.results}

    (first,), (repeated,), (other,) = results(), results(), results(job_id="another")
    assert first == repeated
    assert first != other


def test_a_batch_whose_weights_lie_elsewhere_says_so(worker: MeasureWorker, mailbox: Mailbox, gemm: Gemm) -> None:
    weights = ModelWeights(arguments=(1,), size=1 << 20)
    worker.measure(gemm.batch(40, gemm.candidates[:1], job_id="a model", weights=weights, incumbent_seconds=1.0))
    results = mailbox.results(40)
    assert all(r.failure is None and r.samples for r in results.values())
    assert mailbox.last(BatchReport).environment["cache"] == "streamed"
