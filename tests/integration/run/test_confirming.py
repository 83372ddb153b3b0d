"""Finalists beside the champion on a real device: right ones, slow ones, and each way of being wrong."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rpc_device import RpcDevice

from tunesmith.messages import MeasureLimits, ModelWeights
from tunesmith.types import FailureKind, TensorSpec, Values
from workers.protocol import Confirmed, ConfirmRequest, RunRequest
from workers.tvm_backend.build import linking
from workers.tvm_backend.run.confirm import MIN_PAIRS, Interrupted, confirm, rest, settled
from workers.tvm_backend.run.references import References

SHAPE = (64, 64)
ARGS = (TensorSpec("float32", SHAPE), TensorSpec("float32", SHAPE))
BYTES = 4 * SHAPE[0] * SHAPE[1]
LIMITS = MeasureLimits(run_timeout=2.0, confirm_repeats=6, min_repeat_seconds=0.001)
KINDS = (
    "copy",
    "nearly",
    "off",
    "idle",
    "short",
    "spoils",
    "nan",
    "slow",
    "crash",
    "hang",
    "steps",
    "other steps",
    "wrong steps",
    "keeps numbers",
)


def build(folder: Path, kind: str) -> Path:
    """A kernel that copies its input, or that should."""
    import tvm
    from tvm import te, tirx

    a = te.placeholder(SHAPE, name="a", dtype="float32")
    formulas = {
        "copy": lambda x: x,
        "nearly": lambda x: x * 1.00001,
        "off": lambda x: x * 1.01,
        "nan": lambda x: tirx.if_then_else(x > 0.999, tirx.const(float("nan"), "float32"), x),
        "keeps numbers": lambda x: tirx.if_then_else(tirx.isnan(x), tirx.const(0.0, "float32"), x),
        "steps": lambda x: tirx.round(x * 64.0),
        "other steps": lambda x: tirx.round(x * 64.0006),
        "wrong steps": lambda x: tirx.round(x * 64.6),
    }

    def calls(ins: list[Any], outs: list[Any]) -> Any:
        source, target = ins[0].access_ptr("r"), outs[0].access_ptr("w")
        name, *arguments = {
            "idle": ("abs", 0),
            "short": ("memcpy", target, source, BYTES - 4),
            "slow": ("usleep", 3000),
            "spoils": ("memset", ins[0].access_ptr("w"), 0, 4),
            "crash": ("abort",),
            "hang": ("pause",),
        }[kind]
        return tirx.call_extern("int32", name, *arguments)

    if kind in formulas:
        b = te.compute(SHAPE, lambda i, j: formulas[kind](a[i, j]), name="b")
    else:
        b = te.extern(SHAPE, [a], calls, name="b", dtype="float32")
    path = folder / f"{kind}.so"
    library = tvm.compile(te.create_prim_func([a, b]), target={"kind": "llvm"}).mod
    library.write_to_file(f"{path}.o")
    linking.link([f"{path}.o"], str(path))
    return path


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RpcDevice]:
    made = RpcDevice(tmp_path_factory.mktemp("device"))
    yield made
    made.stop()


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, RunRequest]:
    folder = tmp_path_factory.mktemp("kernels")
    return {kind: RunRequest(build(folder, kind), "main", ARGS, LIMITS, code_hash=kind) for kind in KINDS}


def request(kernels: dict[str, RunRequest], *finalists: str, champion: str | None = None) -> ConfirmRequest:
    found = tuple(kernels[kind] for kind in finalists)
    return ConfirmRequest(found, kernels[champion] if champion else None, kernels["copy"], LIMITS)


def ask(device: RpcDevice, wanted: ConfirmRequest, references: References | None = None) -> list[Confirmed]:
    """In a session of its own."""
    from tvm import rpc

    session = rpc.connect_tracker("127.0.0.1", device.tracker_port).request(device.key, session_timeout=60)
    alarm = session.get_function("tunesmith.rpc.alarm")
    try:
        return confirm(session, session.cpu(0), wanted, contextlib.nullcontext, alarm, references)
    finally:
        with contextlib.suppress(Exception):  # it may have died
            session.get_function("CloseRPCConnection")()


def test_a_right_finalist_has_as_many_samples_as_the_champion(
    device: RpcDevice, kernels: dict[str, RunRequest]
) -> None:
    (found,) = ask(device, request(kernels, "nearly", champion="copy"))
    assert (found.failure, found.message) == (None, "")
    assert MIN_PAIRS <= len(found.samples) == len(found.champion_samples) <= LIMITS.confirm_repeats
    assert all(sample > 0 for sample in found.samples + found.champion_samples)
    assert found.error == pytest.approx(1e-5, rel=0.1)
    assert found.device_seconds >= 2 * MIN_PAIRS * LIMITS.min_repeat_seconds / 10
    assert found.seconds >= found.device_seconds


def test_without_a_champion_there_are_samples_only(device: RpcDevice, kernels: dict[str, RunRequest]) -> None:
    (found,) = ask(device, request(kernels, "copy"))
    assert (len(found.samples), found.champion_samples, found.error) == (MIN_PAIRS, (), 0.0)


@pytest.mark.parametrize(("kind", "error"), [("off", 0.01), ("idle", 77.0), ("short", 77.0), ("spoils", 77.0)])
def test_wrong_numbers_show(device: RpcDevice, kernels: dict[str, RunRequest], kind: str, error: float) -> None:
    (found,) = ask(device, request(kernels, kind))
    assert found.error is not None
    assert found.error == pytest.approx(error, rel=0.05)


def test_an_input_that_changed_is_wrong_as_well(device: RpcDevice, kernels: dict[str, RunRequest]) -> None:
    reference = kernels["idle"]  # it writes nothing: only the input can differ
    (found,) = ask(device, ConfirmRequest((kernels["spoils"],), None, reference, LIMITS))
    assert found.error is not None
    assert 0 < found.error < 1


def test_not_a_number_where_a_number_should_be(device: RpcDevice, kernels: dict[str, RunRequest]) -> None:
    found = ask(device, request(kernels, "nan", "copy"))
    assert [(one.failure, one.error) for one in found] == [(FailureKind.WRONG_RESULT, None), (None, 0.0)]


@pytest.mark.parametrize(("kind", "right"), [("other steps", True), ("wrong steps", False)])
def test_who_rounds_may_fall_on_the_other_side_where_the_default_schedule_might(
    device: RpcDevice, kernels: dict[str, RunRequest], kind: str, right: bool
) -> None:
    wanted = ConfirmRequest((kernels[kind],), None, kernels["steps"], LIMITS, tolerance=1e-4)
    (found,) = ask(device, wanted)
    assert found.error == pytest.approx(1 / 64)
    assert found.unsteady == (2 * found.error if right else 0.0)


def test_slow_samples_are_few(device: RpcDevice, kernels: dict[str, RunRequest], monkeypatch: Any) -> None:
    monkeypatch.setattr("workers.tvm_backend.run.confirm.PAIRS_SECONDS", 0.001)
    (found,) = ask(device, request(kernels, "slow", champion="copy"))
    assert len(found.samples) == MIN_PAIRS
    assert min(found.samples) > max(found.champion_samples)


def test_who_falls_behind_or_leads_by_far_needs_no_more_pairs() -> None:
    even = [1.0, 1.1, 0.9, 1.0, 1.05]
    assert not settled([even])  # without a champion all samples are for the latency
    assert not settled([[0.98 * x for x in even], even])
    assert settled([[1.01 * x for x in even], even])
    assert not settled([[1.01 * x for x in even[:4]], even[:4]])
    assert settled([[0.7 * x for x in even], even])
    assert not settled([[0.7 * x for x in even[:4]] + [0.9], even])


def test_a_library_that_does_not_load_costs_its_finalist_only(
    device: RpcDevice, kernels: dict[str, RunRequest], tmp_path: Path
) -> None:
    broken = tmp_path / "broken.so"
    broken.write_bytes(b"not a library")
    bad = RunRequest(broken, "main", ARGS, LIMITS)
    wanted = ConfirmRequest((bad, kernels["copy"]), None, kernels["copy"], LIMITS)
    first, second = ask(device, wanted)
    assert (first.failure, second.failure) == (FailureKind.RUN_ERROR, None)
    assert first.message
    (found,) = ask(device, ConfirmRequest((kernels["copy"],), bad, bad, LIMITS))
    assert (found.failure, found.error, found.champion_samples) == (None, None, ())
    assert found.message  # why there is nothing to compare with


@pytest.mark.parametrize("kind", ["crash", "hang"])
def test_whoever_ends_the_session_is_named(device: RpcDevice, kernels: dict[str, RunRequest], kind: str) -> None:
    wanted = request(kernels, "copy", kind, "nearly", champion="copy")
    with pytest.raises(Interrupted) as caught:
        ask(device, wanted)
    assert caught.value.part == "finalist"
    assert [one.failure for one in caught.value.done] == [None]
    left = rest(wanted, caught.value, FailureKind.CRASH, "it died")
    assert left.finalists == (kernels["nearly"],)
    assert [one.failure for one in ask(device, left)] == [None]


def test_a_reference_or_a_champion_that_crashes_is_done_without(
    device: RpcDevice, kernels: dict[str, RunRequest]
) -> None:
    wanted = ConfirmRequest((kernels["copy"],), kernels["crash"], kernels["crash"], LIMITS)
    for part in ("reference", "champion"):
        with pytest.raises(Interrupted) as caught:
            ask(device, wanted)
        assert (caught.value.part, caught.value.done) == (part, ())
        wanted = rest(wanted, caught.value, FailureKind.CRASH, "it died")
    problem = "the default schedule fails (crash): it died"
    assert wanted == ConfirmRequest((kernels["copy"],), None, None, LIMITS, problem=problem)
    assert [(one.error, one.message) for one in ask(device, wanted)] == [(None, problem)]


def test_the_references_outputs_are_kept(device: RpcDevice, kernels: dict[str, RunRequest]) -> None:
    kept = References()
    wanted = request(kernels, "off")
    first = ask(device, wanted, kept)
    assert kept.size == 2 * BYTES  # outputs of two sets of inputs, which are as they were
    reference = RunRequest(Path("/gone.so"), "main", ARGS, LIMITS, code_hash="copy")
    repeated = ask(device, ConfirmRequest(wanted.finalists, None, reference, LIMITS), kept)
    assert first[0].error == repeated[0].error
    other = ConfirmRequest(wanted.finalists, None, reference, LIMITS, seed=1)
    assert ask(device, other, kept)[0].error is None  # other inputs, other outputs


def test_who_loses_a_nan_is_wrong(device: RpcDevice, kernels: dict[str, RunRequest]) -> None:
    args = (replace(ARGS[0], values=Values(-1.0, 1.0, special=True)), ARGS[1])
    named = {kind: replace(kernels[kind], args=args) for kind in ("copy", "nearly", "keeps numbers")}
    wanted = ConfirmRequest((named["nearly"], named["keeps numbers"]), None, named["copy"], LIMITS)
    right, wrong = ask(device, wanted)
    assert (right.failure, right.error) == (None, pytest.approx(1e-5, rel=0.1))
    assert wrong.failure is FailureKind.WRONG_RESULT
    assert "not finite where they should be" in wrong.message


def test_a_kernel_may_find_its_weights_far_away(device: RpcDevice, kernels: dict[str, RunRequest]) -> None:
    weights = ModelWeights(arguments=(0,), size=64 * BYTES)
    ours, theirs = (replace(kernels[kind], weights=weights) for kind in ("copy", "nearly"))
    limits = LIMITS.model_copy(update={"confirm_repeats": 5})
    (found,) = ask(device, ConfirmRequest((ours,), theirs, kernels["copy"], limits))
    assert (len(found.samples), found.failure, found.error) == (5, None, 0.0)
    assert len(found.champion_samples) == 5
    assert all(sample > 0 for sample in found.samples + found.champion_samples)
