from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from kernels import build, request
from process_probe import gone
from rpc_device import RpcDevice

from tunesmith.errors import DeviceLost
from tunesmith.types import FailureKind
from workers.tvm_backend.runner import RpcRunner

TARGET = {"kind": "llvm", "mcpu": "x86-64", "num-cores": 1}


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RpcDevice]:
    made = RpcDevice(tmp_path_factory.mktemp("device"))
    yield made
    made.stop()


@pytest.fixture(scope="module")
def shared_runner(device: RpcDevice) -> Iterator[RpcRunner]:
    made = RpcRunner(device.tracker, device.key, device.lease, wait=30.0)
    yield made
    made.close()


@pytest.fixture
def runner(shared_runner: RpcRunner) -> Iterator[RpcRunner]:
    shared_runner.open(TARGET)
    yield shared_runner
    shared_runner.release()


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("kernels")
    kinds = ("good", "crash", "hang", "slow", "parallel")
    return {kind: build(folder, kind) for kind in kinds}


def test_good_candidate_has_all_its_repeats(runner: RpcRunner, library: dict[str, Path]) -> None:
    outcome = runner.run(request(library["good"]))
    assert outcome.failure is None
    assert len(outcome.samples) == 4
    assert all(sample > 0 for sample in outcome.samples)


def test_hopeless_candidate_keeps_one_sample(runner: RpcRunner, library: dict[str, Path]) -> None:
    assert len(runner.run(request(library["slow"], incumbent=0.001)).samples) == 1
    contender = runner.run(request(library["slow"], incumbent=1.0, max_measure_seconds=10.0))
    assert len(contender.samples) == 4


def test_measuring_ends_when_its_time_is_over(runner: RpcRunner, library: dict[str, Path]) -> None:
    assert len(runner.run(request(library["slow"], max_measure_seconds=0.001)).samples) == 1


def test_crash_costs_its_candidate_only(runner: RpcRunner, library: dict[str, Path]) -> None:
    kinds = ["good", "crash", "good", "crash", "good"]
    outcomes = [runner.run(request(library[kind])) for kind in kinds]
    assert [o.failure for o in outcomes] == [None, FailureKind.CRASH, None, FailureKind.CRASH, None]


def test_hang_costs_its_candidate_only(runner: RpcRunner, library: dict[str, Path]) -> None:
    outcomes = [runner.run(request(library[kind], run_timeout=1.0)) for kind in ("hang", "good")]
    assert [o.failure for o in outcomes] == [FailureKind.RUN_TIMEOUT, None]


def test_library_that_does_not_load_is_a_run_error(runner: RpcRunner, tmp_path: Path) -> None:
    broken = tmp_path / "broken.so"
    broken.write_bytes(b"not a library")
    outcome = runner.run(request(broken))
    assert outcome.failure is FailureKind.RUN_ERROR
    assert outcome.message


def test_two_runners_take_turns_on_one_device(
    device: RpcDevice, runner: RpcRunner, library: dict[str, Path]
) -> None:
    other = RpcRunner(device.tracker, device.key, device.lease, wait=30.0)
    try:
        runner.release()
        other.open(TARGET)
        assert other.run(request(library["good"])).failure is None
        other.release()
        assert runner.run(request(library["good"])).failure is None
    finally:
        other.close()


@pytest.mark.parametrize("cores", [1, 2])
def test_kernels_use_as_many_threads_as_the_target_has_cores(
    device: RpcDevice, shared_runner: RpcRunner, library: dict[str, Path], cores: int
) -> None:
    shared_runner.open({**TARGET, "num-cores": cores})
    assert shared_runner.threads == cores
    assert shared_runner.run(request(library["parallel"])).failure is None
    (session,) = psutil.Process(device.processes["rpc_server"].pid).children()
    assert session.num_threads() == cores
    shared_runner.release()


def test_server_killed_and_restarted_in_mid_batch(
    device: RpcDevice, runner: RpcRunner, library: dict[str, Path]
) -> None:
    assert runner.run(request(library["good"])).failure is None
    device.kill("rpc_server")
    device.start_server()
    assert runner.run(request(library["good"])).failure is None


def test_tracker_killed_and_restarted(device: RpcDevice, runner: RpcRunner, library: dict[str, Path]) -> None:
    runner.release()
    device.kill("tracker")
    device.start_tracker(device.tracker_port)
    assert runner.run(request(library["good"])).failure is None


def test_strangers_do_not_disturb_the_device(
    device: RpcDevice, runner: RpcRunner, library: dict[str, Path]
) -> None:
    runner.release()
    for data in (b"", b"GET / HTTP/1.1\r\n\r\n", b"\x71\xf2\x0f\x00\x0a\x00\x00\x00client:abc"):
        with socket.create_connection(("127.0.0.1", device.port), 10) as stranger:
            stranger.sendall(data)
    assert runner.run(request(library["good"])).failure is None


def test_session_dies_with_its_server(device: RpcDevice, runner: RpcRunner, library: dict[str, Path]) -> None:
    assert runner.run(request(library["good"])).failure is None
    (session,) = psutil.Process(device.processes["rpc_server"].pid).children()
    device.kill("rpc_server")
    assert gone(session.pid)
    device.start_server()


def test_no_device_is_said(device: RpcDevice) -> None:
    runner = RpcRunner(device.tracker, "nobody", device.lease, wait=0.5)
    try:
        with pytest.raises(DeviceLost, match="nobody"):
            runner.open(TARGET)
    finally:
        runner.close()
