"""What a report may claim, and what is refused: each of these was once stored, or ended what stored it."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import pytest

from tunesmith.measuring import claims
from tunesmith.measuring.claims import Reason, Refused, Work
from tunesmith.measuring.plausibility import HISTORY, fastest_device, impossible_calibration
from tunesmith.messages import (
    BatchReport,
    Calibration,
    Confirmation,
    DeviceReport,
    EvaluationReport,
    ReferenceTiming,
    WireResult,
)
from tunesmith.types import Candidate, FailureKind, TensorSpec

pytestmark = pytest.mark.parallel

SQUARE = TensorSpec("float32", (256, 256))
FLOPS = 2.0 * 256**3
PEAK = 1e11
CALIBRATION = Calibration(
    peak_flops=PEAK,
    bandwidth=2e10,
    noise_floor=0.02,
    reference_seconds=1e-3,
    latest_seconds=1e-3,
    measured_at="2026-01-01T00:00:00+00:00",
    drift=1.0,
)
SKELETON = [["GetSBlock", [], [], ["b0"]], ["SamplePerfectTile", ["l1"], [2, 64], ["v2", "v3"]]]
TRACE = json.dumps([[*SKELETON, ["EnterPostproc", [], [], []]], [[1, [32, 8]]]])
WORK = Work(
    [Candidate(None), Candidate("s", ((32, 8),))], FLOPS, (SQUARE,) * 3, {"s": SKELETON}, "llvm", 2, CALIBRATION
)
PAIRS = [2e-3 + i * 1e-6 for i in range(10)]
FASTER = [1e-3 + i * 1e-6 for i in range(10)]


def believed(*results: WireResult, work: Work = WORK, **values: Any) -> list[WireResult]:
    return claims.results(BatchReport(batch_id=1, attempt=1, worker="w", results=results, **values), work)


def won(samples: Sequence[float] = FASTER, **values: Any) -> WireResult:
    champion = values.pop("champion_samples", PAIRS)
    confirmation = Confirmation(samples=samples, champion_samples=champion, won=True, **values)
    return WireResult(index=1, samples=[1e-3], confirmation=confirmation, trace=TRACE)


def reason(*results: WireResult, **values: Any) -> Reason:
    with pytest.raises(Refused) as caught:
        believed(*results, **values)
    return caught.value.reason


def test_an_honest_report_is_believed() -> None:
    (failed, winner) = believed(WireResult(index=0, failure=FailureKind.CRASH, message="signal 11"), won())
    assert failed.failure is FailureKind.CRASH
    assert winner.trace == TRACE
    assert winner.confirmation is not None
    assert winner.confirmation.won
    assert winner.confirmation.p_value == pytest.approx(1 / 1024)


@pytest.mark.parametrize(
    ("sample", "why"),
    [
        (math.nan, Reason.NOT_A_NUMBER),
        (math.inf, Reason.NOT_A_NUMBER),
        (-math.inf, Reason.NOT_A_NUMBER),
        (-5.0, Reason.IMPLAUSIBLE),
        (0.0, Reason.IMPLAUSIBLE),
        (1e-12, Reason.IMPLAUSIBLE),
        (1e-6, Reason.IMPLAUSIBLE),
        (1e9, Reason.IMPLAUSIBLE),
    ],
)
def test_times_that_cannot_be(sample: float, why: Reason) -> None:
    assert reason(WireResult(index=1, samples=[sample])) is why
    assert reason(WireResult(index=1, samples=[1e-3, 1e-3, sample, sample, sample])) is why
    assert reason(won([sample] * 10)) is why
    assert reason(won(champion_samples=[sample] * 10)) is why
    assert reason(won([sample] * 10, champion_samples=[])) is why


@pytest.mark.parametrize("field", ["build_seconds", "run_seconds", "device_seconds"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0, 1e300])
def test_seconds_that_cannot_be(field: str, value: float) -> None:
    assert reason(WireResult(index=1, samples=[1e-3], **{field: value})) in (Reason.NOT_A_NUMBER, Reason.IMPLAUSIBLE)


def test_without_a_calibration_physics_is_the_limit() -> None:
    unknown = Work(WORK.candidates, FLOPS, WORK.args, {}, "llvm", 2)
    limit = FLOPS / (2 * fastest_device("llvm", 2).peak_flops)
    assert believed(WireResult(index=1, samples=[limit]), work=unknown)
    assert reason(WireResult(index=1, samples=[limit / 2]), work=unknown) is Reason.IMPLAUSIBLE


@pytest.mark.parametrize("index", [-1, 2, 10**9])
def test_an_index_outside_of_the_batch(index: int) -> None:
    assert reason(WireResult(index=index, samples=[1e-3])) is Reason.NOT_IN_BATCH


def test_more_results_than_candidates() -> None:
    assert reason(*[WireResult(index=0, samples=[1e-3])] * 5) is Reason.NOT_IN_BATCH


@pytest.mark.parametrize(
    "given",
    [
        won(PAIRS, champion_samples=FASTER),  # the champion was faster
        won(FASTER[:4], champion_samples=PAIRS[:4]),  # too few pairs to tell
        won(error=0.5, tolerance=1e-4),
        won(error=1e-6),
        won([], champion_samples=[]),
    ],
)
def test_the_verdict_is_reached_anew(given: WireResult) -> None:
    (found,) = believed(given)
    assert found.confirmation is not None
    assert (found.confirmation.won, found.trace) == (False, None)


def test_samples_that_are_no_pairs() -> None:
    assert reason(won(champion_samples=PAIRS[:9])) is Reason.CONFIRMATION


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("field", ["error", "tolerance", "p_value"])
def test_a_verdict_of_no_numbers(field: str, value: float) -> None:
    assert reason(won(**{field: value})) is Reason.NOT_A_NUMBER


def test_times_of_a_failure_may_be_the_failure() -> None:
    liar = Confirmation(samples=[1e-6] * 10, champion_samples=[], won=True)
    (found,) = believed(WireResult(index=1, failure=FailureKind.IMPLAUSIBLE, confirmation=liar))
    assert found.confirmation is not None
    assert not found.confirmation.won


@pytest.mark.parametrize(
    "trace",
    [
        "",
        "{}",
        "[]",
        "[[], []]",
        "nonsense",
        "[" * 100_000,
        json.dumps([[*SKELETON], [[1, [16, 16]]]]),
        json.dumps([[*SKELETON], []]),
        json.dumps([SKELETON[::-1], [[1, [32, 8]]]]),
        json.dumps([SKELETON, [[1]]]),
        json.dumps([[*SKELETON, ["x\0", [], [], []]], [[1, [32, 8]]]]),
        json.dumps([[*SKELETON, ["x\ud800", [], [], []]], [[1, [32, 8]]]]),
    ],
)
def test_a_trace_of_something_else(trace: str) -> None:
    assert reason(won().model_copy(update={"trace": trace})) in (Reason.TRACE, Reason.UNREADABLE)


def test_a_trace_without_a_confirmation_or_of_the_default_schedule() -> None:
    assert reason(WireResult(index=1, samples=[1e-3], trace=TRACE)) is Reason.TRACE
    assert reason(won().model_copy(update={"index": 0})) is Reason.TRACE


def test_sizes_are_bounded() -> None:
    assert reason(won().model_copy(update={"trace": " " * 2_000_000})) is Reason.TOO_LARGE
    assert reason(won(), environment={"cpu": "x" * 100_000}) is Reason.TOO_LARGE
    for environment in ({"cpu": "\0"}, {"cpu": "\ud800"}, {"cpu": math.nan}):
        assert reason(won(), environment=environment) is Reason.UNREADABLE
    with pytest.raises(ValueError, match="at most 4096 items"):
        BatchReport(batch_id=1, attempt=1, worker="w", results=[WireResult(index=0)] * 5000)
    with pytest.raises(ValueError, match="at most 1000 items"):
        WireResult(index=0, samples=[1.0] * 1001)
    with pytest.raises(ValueError, match="at most 200 characters"):
        BatchReport(batch_id=1, attempt=1, worker="w" * 201)
    with pytest.raises(ValueError, match="at most 1024 items"):
        device(device_classes=[f"c{i}" for i in range(2000)])


def device(**values: Any) -> DeviceReport:
    given = {
        "worker": "w",
        "name": "d",
        "host": "h",
        "device_classes": ["llvm-x-2"],
        "cores": 2,
        "target": {"kind": "llvm", "mcpu": "x", "num-cores": 2},
        "calibration": CALIBRATION,
        **values,
    }
    return DeviceReport(**given)


@pytest.mark.parametrize(
    "changes",
    [
        {"peak_flops": 1e15},
        {"peak_flops": math.nan},
        {"peak_flops": 0.0},
        {"peak_flops": -1.0},
        {"bandwidth": math.inf},
        {"drift": 1e-9},
        {"drift": math.nan},
        {"latest_seconds": 1e-4},
        {"latest_seconds": 1e-12, "reference_seconds": 1e-12},
        {"noise_floor": -3.0},
    ],
)
def test_calibrations_that_no_device_has(changes: dict[str, float]) -> None:
    with pytest.raises(Refused) as caught:
        claims.check_device(device(calibration=CALIBRATION.model_copy(update=changes)), None)
    assert caught.value.reason is Reason.CALIBRATION


def test_a_device_does_not_become_another_one() -> None:
    first = (CALIBRATION.peak_flops, CALIBRATION.bandwidth)
    claims.check_device(device(), first)
    for field in ("peak_flops", "bandwidth"):
        faster = CALIBRATION.model_copy(update={field: getattr(CALIBRATION, field) * HISTORY * 1.1})
        assert impossible_calibration(faster, "llvm", 64) is None
        assert impossible_calibration(faster, "llvm", 64, first) is not None


@pytest.mark.parametrize(
    "changes",
    [
        {"tuned_samples": [1e-9]},
        {"tuned_samples": [math.nan]},
        {"untuned_samples": [-1.0]},
        {"applied": 9},
        {"applied": -1},
        {"tolerance": math.inf},
        {"signal": math.inf},
        *(
            {"references": [ReferenceTiming(runtime="onnxruntime", samples=[0.1, odd])]}
            for odd in (0.0, -1.0, math.nan)
        ),
        *(
            {"references": [ReferenceTiming(runtime="onnxruntime", samples=[0.1], error=0.1, rms=odd)]}
            for odd in (1e9, -1.0, math.nan)
        ),
    ],
)
def test_evaluations_that_cannot_be(changes: dict[str, Any]) -> None:
    given = {"untuned_samples": [0.1], "tuned_samples": [0.01], "applied": 1, "error": math.nan, **changes}
    work = claims.ModelWork(FLOPS, 3, "llvm", 2, CALIBRATION)
    honest = EvaluationReport(evaluation_id=1, attempt=1, worker="w", untuned_samples=[0.1], tuned_samples=[0.01])
    claims.check_evaluation(honest, work)
    with pytest.raises(Refused):
        claims.check_evaluation(EvaluationReport(evaluation_id=1, attempt=1, worker="w", **given), work)
