"""One evaluation: compile the model untuned and tuned, run both on the device, compare."""

from __future__ import annotations

import logging
from concurrent.futures import Future, wait
from pathlib import Path

from tunesmith.arithmetic import ROUNDED
from tunesmith.errors import MeasurementFailed
from tunesmith.messages import EvaluateModel, EvaluationReport, Payload, TunedWorkload
from tunesmith.types import FailureKind, Isolation, TensorSpec
from workers.measure.blobs import PayloadCache
from workers.measure.reference_runtimes import Place, Rivals
from workers.protocol import ModelOutcome, ModelRequest, Runner
from workers.sandbox.pool import ChildCrashed, ChildRaised, ChildTimeout, Pool
from workers.settings import Settings
from workers.tvm_backend.build.builder import Compiled

log = logging.getLogger("tunesmith.measure")
TIMING_SHARE = 0.05
"""Share of the message's timeout that the timing may take, within these bounds in seconds."""
TIMING_BOUNDS = (1.0, 6.0)


def evaluate(
    message: EvaluateModel,
    builders: Pool,
    runner: Runner,
    blobs: PayloadCache,
    folder: Path,
    report: EvaluationReport,
    settings: Settings,
) -> EvaluationReport:
    """Compile, run and compare; ``report`` filled in. Nothing that the model does makes this raise.

    Other runtimes, for the reference, are timed before and after, so that a machine that gets busy is so for all.

    Raises:
        MeasurementFailed: the device is gone, or the weights cannot be fetched; the evaluation is to be tried again.
    """
    params = None if message.params is None else blobs.file(message.params)
    records = [_inlined(record, blobs) for record in message.records]
    module = blobs.load(message.module)

    def compiled(log: list[TunedWorkload] | None, name: str) -> Future[Compiled]:
        out = folder / name
        return builders.submit("compile_model", module, params, message.target, log, out, timeout=message.timeout)

    both = [compiled(None, "untuned.so"), compiled(records, "tuned.so")]
    wait(both)
    try:
        untuned, tuned = (future.result() for future in both)
    except ChildTimeout:
        return _failed(report, FailureKind.BUILD_TIMEOUT, f"compiling took more than {message.timeout:g} s")
    except ChildCrashed as error:
        return _failed(report, FailureKind.CRASH, f"while compiling the model, {error}")
    except ChildRaised as error:
        return _failed(report, FailureKind.BUILD_ERROR, str(error))
    try:
        runner.open(message.target)
        rivals = _rivals(message, untuned, runner, blobs, settings)
        if rivals is not None:
            runner.release()
            rivals.time()
        kept = folder / "outputs.npz" if rivals is not None and message.precision in ROUNDED else None
        outcome = runner.compare(_request(message, untuned, tuned, params, kept))
    finally:
        runner.release()
    if rivals is not None and outcome.failure is None:
        rivals.time()
        if kept is not None and kept.exists():
            rivals.hold_against(kept)
        report = report.model_copy(update={"references": rivals.timings()})
    return _filled(report, tuned, outcome)


def _rivals(
    message: EvaluateModel, untuned: Compiled, runner: Runner, blobs: PayloadCache, settings: Settings
) -> Rivals | None:
    """Other runtimes to time; None where no other reads the model, or the device is no CPU of this host."""
    if message.file is None or runner.isolation is Isolation.SHARED:
        return None
    try:
        model = blobs.file(message.file.content)
    except MeasurementFailed as error:  # the check itself can do without
        log.warning("no reference: %s", error)
        return None
    cores = frozenset(int(core) for core in runner.binding.split(",") if core)
    place = Place(runner.threads, cores, runner.isolation)
    narrow = message.precision in ROUNDED
    return Rivals(settings, message.file.source, model, _inputs(message, untuned), message.seed, place, narrow)


def _inputs(message: EvaluateModel, untuned: Compiled) -> tuple[TensorSpec, ...]:
    """The model's inputs, with the values to draw for them where the compiler knows these."""
    known = [each.values for each in untuned.inputs] or [None] * len(message.inputs)
    return tuple(
        TensorSpec(spec.dtype, spec.shape, spec.name, values)
        for spec, values in zip(message.inputs, known, strict=True)
    )


def _request(
    message: EvaluateModel, untuned: Compiled, tuned: Compiled, params: Path | None, outputs: Path | None
) -> ModelRequest:
    low, high = TIMING_BOUNDS
    return ModelRequest(
        untuned=untuned.path,
        tuned=tuned.path,
        params=params,
        inputs=_inputs(message, untuned),
        seed=message.seed,
        seconds=min(high, max(low, TIMING_SHARE * message.timeout)),
        timeout=message.timeout,
        outputs=outputs,
        rounds_otherwise=tuned.alternatives > 0 and message.precision in ROUNDED,
    )


def _filled(report: EvaluationReport, tuned: Compiled, outcome: ModelOutcome) -> EvaluationReport:
    return report.model_copy(
        update={
            "untuned_samples": list(outcome.untuned),
            "tuned_samples": list(outcome.tuned),
            "error": outcome.error,
            "tolerance": outcome.tolerance,
            "signal": outcome.signal,
            "applied": tuned.applied,
            "failure": outcome.failure,
            "message": outcome.message,
        }
    )


def _failed(report: EvaluationReport, kind: FailureKind, message: str) -> EvaluationReport:
    return report.model_copy(update={"failure": kind, "message": message[:2000]})


def lost(report: EvaluationReport, error: MeasurementFailed) -> EvaluationReport:
    """The report of an evaluation whose device, or whose coordinator, went away."""
    return _failed(report, FailureKind.DEVICE_LOST, str(error))


def _inlined(record: TunedWorkload, blobs: PayloadCache) -> TunedWorkload:
    """The record with its payloads at hand: the pool child fetches nothing."""

    def inline(payload: Payload) -> Payload:
        return payload if payload.inline is not None else Payload.pack(blobs.load(payload))

    return record.model_copy(update={"workload_json": inline(record.workload_json), "trace": inline(record.trace)})
