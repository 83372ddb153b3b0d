from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from kernels import LIMITS, build, request
from process_probe import gone
from rpc_device import RpcDevice

from tunesmith.errors import DeviceLost
from tunesmith.types import FailureKind, Isolation, StopReason
from workers.protocol import ConfirmRequest, RunOutcome, RunRequest
from workers.tvm_backend.run.confirm import MIN_PAIRS
from workers.tvm_backend.run.runner import RpcRunner

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
    kinds = ("good", "crash", "hang", "slow", "parallel", "late", "elsewhere")
    return {kind: build(folder, kind) for kind in kinds}


def run(runner: RpcRunner, asked: RunRequest, incumbent: float | None = None) -> RunOutcome:
    (outcome,) = runner.race([asked], incumbent)
    return outcome


def test_contender_has_all_its_repeats(runner: RpcRunner, library: dict[str, Path]) -> None:
    outcome = run(runner, request(library["good"]))
    assert outcome.failure is None
    assert (len(outcome.samples), outcome.stopped) == (4, StopReason.CAPPED)
    assert all(sample > 0 for sample in outcome.samples)
    assert 0.002 < outcome.device_seconds < outcome.seconds


def test_what_a_kernel_updates_is_restored_before_each_run(runner: RpcRunner, library: dict[str, Path]) -> None:
    asked = request(library["late"])
    assert run(runner, asked).failure is FailureKind.CRASH  # it counts its runs in its argument
    updating = replace(asked, updated=(0,))
    outcome = run(runner, updating)
    assert (outcome.failure, len(outcome.samples)) == (None, 4)
    (found,) = runner.confirm(ConfirmRequest((updating,), updating, updating, LIMITS))
    assert (found.failure, found.error, len(found.samples) >= MIN_PAIRS) == (None, 0.0, True)


def test_samples_that_agree_are_enough(runner: RpcRunner, library: dict[str, Path]) -> None:
    outcome = run(runner, request(library["good"], variation=10.0, min_repeats=3))
    assert (len(outcome.samples), outcome.stopped) == (3, StopReason.STABLE)


def test_hopeless_candidate_keeps_one_sample(runner: RpcRunner, library: dict[str, Path]) -> None:
    outcome = run(runner, request(library["slow"]), incumbent=0.001)
    assert (len(outcome.samples), outcome.stopped) == (1, StopReason.RACED)
    assert outcome.device_seconds == outcome.samples[0], "it ran once"
    contender = run(runner, request(library["slow"], max_measure_seconds=10.0), incumbent=1.0)
    assert len(contender.samples) == 4


def test_candidates_of_a_wave_race_each_other(runner: RpcRunner, library: dict[str, Path]) -> None:
    slow, good = runner.race([request(library["slow"]), request(library["good"])], None)
    assert (len(slow.samples), slow.stopped) == (1, StopReason.RACED)
    assert len(good.samples) == 4


def test_the_default_schedule_is_measured_however_slow_it_is(runner: RpcRunner, library: dict[str, Path]) -> None:
    asked = replace(request(library["slow"], max_measure_seconds=10.0), default=True)
    assert len(run(runner, asked, incumbent=0.001).samples) == 4


def test_what_the_champion_takes_now_is_what_counts(runner: RpcRunner, library: dict[str, Path]) -> None:
    champion = replace(request(library["slow"], max_measure_seconds=10.0), champion=True)
    kept, contender = runner.race([champion, request(library["good"])], 1e-9)
    assert (len(kept.samples), len(contender.samples)) == (4, 4)


def test_first_run_that_takes_far_too_long_is_cut_off(runner: RpcRunner, library: dict[str, Path]) -> None:
    outcome = run(runner, request(library["hang"], run_timeout=86_400.0), incumbent=0.001)
    assert outcome.failure is FailureKind.RUN_TIMEOUT


def test_measuring_ends_when_its_time_is_over(runner: RpcRunner, library: dict[str, Path]) -> None:
    outcome = run(runner, request(library["slow"], max_measure_seconds=0.001))
    assert (len(outcome.samples), outcome.stopped) == (1, StopReason.BUDGET)


def test_crash_costs_its_candidate_only(runner: RpcRunner, library: dict[str, Path]) -> None:
    kinds = ["good", "crash", "good", "crash", "good"]
    outcomes = runner.race([request(library[kind]) for kind in kinds], None)
    assert [o.failure for o in outcomes] == [None, FailureKind.CRASH, None, FailureKind.CRASH, None]


def test_those_that_a_crash_interrupts_between_two_samples_have_all_of_theirs(
    runner: RpcRunner, library: dict[str, Path]
) -> None:
    asked = [request(library[kind], cutoff=1e9, margin=1e9) for kind in ("good", "late", "parallel")]
    first, late, last = runner.race(asked, None)
    assert (late.failure, late.samples) == (FailureKind.CRASH, ())
    assert late.device_seconds > 5 * 0.003, "it ran, and was sampled, before it crashed"
    for outcome in (first, last):
        assert (outcome.failure, len(outcome.samples), outcome.stopped) == (None, 4, StopReason.CAPPED)
        assert 0 < outcome.device_seconds < outcome.seconds


def test_hang_costs_its_candidate_only(runner: RpcRunner, library: dict[str, Path]) -> None:
    outcomes = runner.race([request(library[kind], run_timeout=1.0) for kind in ("good", "hang", "good")], None)
    assert [o.failure for o in outcomes] == [None, FailureKind.RUN_TIMEOUT, None]


def test_library_that_does_not_load_is_a_run_error(runner: RpcRunner, library: dict[str, Path], tmp_path: Path) -> None:
    broken = tmp_path / "broken.so"
    broken.write_bytes(b"not a library")
    outcome, good = runner.race([request(broken), request(library["good"])], None)
    assert outcome.failure is FailureKind.RUN_ERROR
    assert outcome.message
    assert good.failure is None


def test_finalists_are_paired_with_the_champion_in_a_session_of_their_own(
    device: RpcDevice, runner: RpcRunner, library: dict[str, Path]
) -> None:
    assert run(runner, request(library["good"])).failure is None
    (before,) = psutil.Process(device.processes["rpc_server"].pid).children()
    asked = ConfirmRequest((request(library["parallel"]),), request(library["good"]), request(library["good"]), LIMITS)
    (found,) = runner.confirm(asked)
    (after,) = psutil.Process(device.processes["rpc_server"].pid).children()
    assert (found.failure, found.error) == (None, 0.0)
    assert 5 <= len(found.samples) == len(found.champion_samples) <= LIMITS.confirm_repeats
    assert before.pid != after.pid


def test_the_default_schedule_is_known_after_its_race_even_when_a_neighbour_hangs(
    runner: RpcRunner, library: dict[str, Path]
) -> None:
    default = replace(request(library["good"]), default=True, code_hash="raced")
    raced, hung = runner.race([default, request(library["hang"], run_timeout=1.0)], None)
    assert (raced.failure, hung.failure) == (None, FailureKind.RUN_TIMEOUT)
    # Its code is not run again on the inputs of the race, or this would not end well: what it put out there counts.
    known = replace(request(library["elsewhere"]), code_hash="raced")
    (found,) = runner.confirm(ConfirmRequest((request(library["parallel"]),), None, known, LIMITS))
    assert (found.failure, found.error) == (None, 0.0)


def test_finalist_that_crashes_when_confirmed_leaves_the_other(runner: RpcRunner, library: dict[str, Path]) -> None:
    finalists = request(library["crash"]), request(library["parallel"])
    crashed, other = runner.confirm(ConfirmRequest(finalists, None, request(library["good"]), LIMITS))
    assert crashed.failure is FailureKind.CRASH
    assert (other.failure, other.error, len(other.samples)) == (None, 0.0, MIN_PAIRS)


def test_two_runners_take_turns_on_one_device(device: RpcDevice, runner: RpcRunner, library: dict[str, Path]) -> None:
    other = RpcRunner(device.tracker, device.key, device.lease, wait=30.0)
    try:
        runner.release()
        other.open(TARGET)
        assert run(other, request(library["good"])).failure is None
        other.release()
        assert run(runner, request(library["good"])).failure is None
    finally:
        other.close()


@pytest.mark.parametrize("cores", [1, 2])
def test_kernels_use_as_many_threads_as_the_target_has_cores(
    device: RpcDevice, shared_runner: RpcRunner, library: dict[str, Path], cores: int
) -> None:
    shared_runner.open({**TARGET, "num-cores": cores})
    assert shared_runner.threads == cores
    assert run(shared_runner, request(library["parallel"])).failure is None
    (session,) = psutil.Process(device.processes["rpc_server"].pid).children()
    assert session.num_threads() == cores
    bound = {tuple(os.sched_getaffinity(thread.id)) for thread in session.threads()}
    assert len(bound) == cores, "each thread has a core of its own"
    assert sorted(core for (core,) in bound) == [int(core) for core in shared_runner.binding.split(",")]
    whole = len(os.sched_getaffinity(0))
    assert shared_runner.isolation is (Isolation.EXCLUSIVE if cores >= whole else Isolation.PINNED)
    shared_runner.release()


def test_server_killed_and_restarted_in_mid_batch(
    device: RpcDevice, runner: RpcRunner, library: dict[str, Path]
) -> None:
    assert run(runner, request(library["good"])).failure is None
    device.kill("rpc_server")
    device.start_server()
    assert run(runner, request(library["good"])).failure is None


def test_tracker_killed_and_restarted(device: RpcDevice, runner: RpcRunner, library: dict[str, Path]) -> None:
    runner.release()
    device.kill("tracker")
    device.start_tracker(device.tracker_port)
    assert run(runner, request(library["good"])).failure is None


def test_strangers_do_not_disturb_the_device(device: RpcDevice, runner: RpcRunner, library: dict[str, Path]) -> None:
    runner.release()
    for data in (b"", b"GET / HTTP/1.1\r\n\r\n", b"\x71\xf2\x0f\x00\x0a\x00\x00\x00client:abc"):
        with socket.create_connection(("127.0.0.1", device.port), 10) as stranger:
            stranger.sendall(data)
    assert run(runner, request(library["good"])).failure is None


def test_session_dies_with_its_server(device: RpcDevice, runner: RpcRunner, library: dict[str, Path]) -> None:
    assert run(runner, request(library["good"])).failure is None
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
