"""What a report of a measure worker may claim. Pure: whoever stores reports gives the facts that they are held against.

A report comes from another process, perhaps of another owner. What a device cannot have measured, what does not
belong to the work that was handed out, and what is larger than any honest report is refused as a whole.
"""

from __future__ import annotations

import enum
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tunesmith.measuring.checked import MOST_DISTANCE
from tunesmith.measuring.pairs import faster
from tunesmith.measuring.plausibility import LEAST_SECONDS, fastest_device, impossible, impossible_calibration
from tunesmith.messages import (
    BatchReport,
    Calibration,
    Confirmation,
    DeviceReport,
    EvaluationReport,
    MeasureLimits,
    WireResult,
)
from tunesmith.types import Candidate, Decision, TensorSpec

REPORT_BYTES = 4_000_000
"""Most bytes of a whole report as it travels; larger ones are not even parsed."""
TRACE_BYTES = 1_000_000
ENVIRONMENT_BYTES = 64_000
SLACK = 1.25
"""A worker checks its times against its calibration of that moment; the stored one may differ by so much."""
LONGEST_SECONDS = 1e6
"""No single piece of a batch takes eleven days."""
SIGNIFICANCE = MeasureLimits().significance


class Reason(str, enum.Enum):
    """Why a report was refused."""

    UNKNOWN_WORKER = "unknown_worker"  # nobody enrolled it
    REVOKED_WORKER = "revoked_worker"
    SIGNATURE = "signature"  # not that of the worker
    NOT_HOLDER = "not_holder"  # the work was handed to another worker
    TOO_LARGE = "too_large"
    UNREADABLE = "unreadable"  # not the JSON of a report, or a text that no database stores
    NOT_A_NUMBER = "not_a_number"  # infinite or not a number
    NOT_IN_BATCH = "not_in_batch"  # an index or more results than the batch has candidates
    IMPLAUSIBLE = "implausible"  # a time that the device cannot have measured
    CALIBRATION = "calibration"  # one that no such device has
    CONFIRMATION = "confirmation"  # samples that are no pairs
    TRACE = "trace"  # another candidate's trace, or none
    DEVICE = "device"  # not the class, or not the kind, of device that the work is for


class Refused(Exception):
    """A report is not believed, and nothing of it is stored."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(detail)
        self.reason, self.detail = reason, detail[:500]


@dataclass(frozen=True)
class Work:
    """What a batch's results are held against.

    Attributes:
        candidates: the batch's candidates, by index.
        skeletons: instructions of a sketch's trace, by the sketch's hash, as far as they are known.
        kind, cores: the target's kind and number of cores.
        calibration: calibration of the device that measured; None if unknown.
    """

    candidates: Sequence[Candidate]
    flops: float
    args: Sequence[TensorSpec]
    skeletons: Mapping[str, Sequence[Any]]
    kind: str
    cores: int
    calibration: Calibration | None = None


def results(report: BatchReport, work: Work) -> list[WireResult]:
    """The report's results with their verdicts reached anew.

    Raises:
        Refused: one of them cannot be true; see :class:`Reason`.
    """
    storable(report.environment, "environment")
    if len(report.results) > 2 * len(work.candidates):
        raise Refused(Reason.NOT_IN_BATCH, f"{len(report.results)} results for {len(work.candidates)} candidates")
    return [_result(result, work) for result in report.results]


def check_defaults(report: BatchReport, tasks: Mapping[str, Work]) -> None:
    """Refuse latencies of default schedules that cannot be true.

    Args:
        tasks: the job's tasks, by workload.

    Raises:
        Refused: see :class:`Reason`.
    """
    for item in report.defaults:
        if item.workload not in tasks:
            raise Refused(Reason.NOT_IN_BATCH, f"the job has no workload {item.workload}")
        _timed([item.seconds], tasks[item.workload], f"the default schedule of {item.workload}")


def _result(result: WireResult, work: Work) -> WireResult:
    if not 0 <= result.index < len(work.candidates):
        raise Refused(Reason.NOT_IN_BATCH, f"the batch has no candidate {result.index}")
    name = f"result {result.index}"
    for field in ("build_seconds", "run_seconds", "device_seconds"):
        _seconds(getattr(result, field), f"{name}: {field}")
    if result.failure is None:
        _timed(result.samples, work, name)
    confirmation = result.confirmation
    if confirmation is None:
        if result.trace is not None:
            raise Refused(Reason.TRACE, f"{name} has a trace and was not confirmed")
        return result
    decided = _confirmation(confirmation, result, work, name)
    if not decided.won:
        return result.model_copy(update={"confirmation": decided, "trace": None})
    if result.trace is not None:
        check_trace(result.trace, work.candidates[result.index], work.skeletons)
    return result.model_copy(update={"confirmation": decided})


def _confirmation(confirmation: Confirmation, result: WireResult, work: Work, name: str) -> Confirmation:
    """With the test of its pairs done anew: ``won`` is a claim."""
    for field in ("p_value", "error", "tolerance"):
        value = getattr(confirmation, field)
        if value is not None:
            _finite(value, f"{name}: {field}")
    ours, theirs = confirmation.samples, confirmation.champion_samples
    for value in (*ours, *theirs):
        _seconds(value, f"{name}, confirmed: a sample")
    if result.failure is not None:  # the times may be the failure
        return confirmation.model_copy(update={"won": False, "p_value": None})
    _timed(ours, work, f"{name}, confirmed")
    _timed(theirs, work, f"the champion beside {name}")
    if theirs and len(ours) != len(theirs):
        raise Refused(Reason.CONFIRMATION, f"{name}: its samples and the champion's are no pairs")
    p_value = faster(ours, theirs)
    error, allowed = confirmation.error, confirmation.tolerance
    right = error is None or (allowed is not None and error <= allowed)
    won = confirmation.won and right and bool(ours) and (p_value is None or p_value < SIGNIFICANCE)
    return confirmation.model_copy(update={"won": won, "p_value": p_value})


def _timed(samples: Sequence[float], work: Work, name: str) -> None:
    """Refuse samples that the device cannot have measured."""
    for value in samples:
        _seconds(value, f"{name}: a sample")
        if value < LEAST_SECONDS:
            raise Refused(Reason.IMPLAUSIBLE, f"{name}: a sample of {value:g} s")
    if not samples:
        return
    calibration = work.calibration or fastest_device(work.kind, work.cores)
    slower = [SLACK * value for value in samples]
    why = impossible(slower, work.flops, work.args, calibration)
    if why is not None:
        raise Refused(Reason.IMPLAUSIBLE, f"{name}: {why}")


def check_trace(text: str, candidate: Candidate, skeletons: Mapping[str, Sequence[Any]]) -> None:
    """Refuse what is not the trace of a candidate: its sketch's instructions first, with its decisions.

    Args:
        text: JSON ``[instructions, decisions]``; an instruction is ``[kind, inputs, attributes, outputs]``, a decision
            ``[number of the instruction, decision]``.
        skeletons: instructions by sketch.
    """
    if len(text) > TRACE_BYTES:
        raise Refused(Reason.TOO_LARGE, f"a trace of {len(text)} bytes")
    try:
        instructions, decided = json.loads(text)
        kinds = [entry[0] for entry in instructions]
        found = [_decision(value) for _, value in decided]
    except (ValueError, TypeError, KeyError, IndexError, RecursionError) as error:
        raise Refused(Reason.TRACE, f"not the JSON of a trace: {error}") from error
    storable([instructions, decided], "trace", TRACE_BYTES)
    if candidate.sketch is None:
        raise Refused(Reason.TRACE, "the default schedule has no trace")
    if candidate.sketch not in skeletons:
        return
    expected = [entry[0] for entry in skeletons[candidate.sketch]]
    if kinds[: len(expected)] != expected:
        raise Refused(Reason.TRACE, "the trace does not begin with the instructions of the candidate's sketch")
    if tuple(found[: len(candidate.decisions)]) != candidate.decisions:
        raise Refused(Reason.TRACE, "the trace's decisions are not the candidate's")


def _decision(value: Any) -> Decision:
    return tuple(int(part) for part in value) if isinstance(value, list) else int(value)


@dataclass(frozen=True)
class ModelWork:
    """What an evaluation is held against: what one run of the model computes at least, and how many tasks it has.

    ``flops``: FLOPs of float32 that take as long; those of faster types are fewer.
    """

    flops: float
    tasks: int
    kind: str
    cores: int
    calibration: Calibration | None = None


def check_evaluation(report: EvaluationReport, work: ModelWork) -> None:
    """Refuse an evaluation whose times cannot be true.

    An error that is not a number is no refusal: it is a wrong output.

    Raises:
        Refused: see :class:`Reason`.
    """
    storable(report.environment, "environment")
    if report.tolerance is not None:
        _finite(report.tolerance, "tolerance")
    if report.signal is not None:
        _finite(report.signal, "signal")
    if not 0 <= report.applied <= work.tasks:
        raise Refused(Reason.NOT_IN_BATCH, f"{report.applied} schedules applied to {work.tasks} tasks")
    model = Work((), work.flops, (), {}, work.kind, work.cores, work.calibration)
    for reference in report.references:
        for name, apart in (("error", reference.error), ("rms", reference.rms)):
            if apart is not None and not 0.0 <= apart <= MOST_DISTANCE:
                raise Refused(Reason.NOT_A_NUMBER, f"{reference.runtime}: {name} is {apart}")
        for value in reference.samples:  # any algorithm and precision may be used: no number of FLOPs bounds the times
            _seconds(value, f"{reference.runtime}: a sample")
            if value < LEAST_SECONDS:
                raise Refused(Reason.IMPLAUSIBLE, f"{reference.runtime}: a sample of {value:g} s")
    _timed(report.untuned_samples, model, "untuned")
    _timed(report.tuned_samples, model, "tuned")


def check_device(report: DeviceReport, first: tuple[float, float] | None) -> None:
    """Refuse a heartbeat that describes no such device.

    Args:
        first: FLOP/s and bytes/s of the first calibration for the same class; None: there was none.

    Raises:
        Refused: see :class:`Reason`.
    """
    storable(report.environment, "environment")
    storable(report.target, "target")
    if report.calibration is not None:
        kind = str(report.target.get("kind", ""))
        why = impossible_calibration(report.calibration, kind, report.cores, first)
        if why is not None:
            raise Refused(Reason.CALIBRATION, why)


def storable(value: Any, name: str, limit: int = ENVIRONMENT_BYTES) -> None:
    """Refuse what no database stores, or more of it than is honest."""
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False)
        size = len(text.encode())
    except (ValueError, TypeError, RecursionError) as error:
        raise Refused(Reason.UNREADABLE, f"{name}: {error}") from error
    if "\\u0000" in text:
        raise Refused(Reason.UNREADABLE, f"{name}: a zero byte")
    if size > limit:
        raise Refused(Reason.TOO_LARGE, f"{name} of {size} bytes")


def _finite(value: float, name: str) -> None:
    if not math.isfinite(value):
        raise Refused(Reason.NOT_A_NUMBER, f"{name} is {value}")


def _seconds(value: float, name: str) -> None:
    _finite(value, name)
    if not 0 <= value <= LONGEST_SECONDS:
        raise Refused(Reason.IMPLAUSIBLE, f"{name} is {value:g} s")
