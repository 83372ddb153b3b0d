"""One batch: build every candidate in the pool, run each as soon as it is built, report while it goes."""

from __future__ import annotations

import signal
import statistics
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, as_completed
from pathlib import Path

from tunesmith.messages import MeasureBatch, Payload, WireCandidate, WireResult
from tunesmith.types import Decision, FailureKind
from workers.sandbox.pool import ChildCrashed, ChildRaised, ChildTimeout, Pool
from workers.tvm_backend.measuring import BuildRequest, Built, Runner, RunOutcome, RunRequest

BUILD_SLACK_SECONDS = 60.0
"""Beyond a build's own limit: waiting for the host lease, and TVM's cold start in a new process."""


class BatchMeasurement:
    """Measures the candidates of one batch.

    Args:
        batch: the message.
        builders: pool of ``workers.tvm_backend.builder.Builder``.
        runner: the device.
        load: fetches a payload.
        folder: an empty folder for the libraries.
    """

    def __init__(
        self, batch: MeasureBatch, builders: Pool, runner: Runner, load: Callable[[Payload], bytes], folder: Path
    ) -> None:
        self._batch, self._builders, self._runner, self._folder = batch, builders, runner, folder
        self._module = load(batch.module)
        self._bodies: Mapping[str, bytes] = {name: load(body) for name, body in batch.sketches.items()}
        self._best = batch.incumbent_seconds

    def results(self, skip: set[int]) -> Iterator[WireResult]:
        """One result per candidate whose index is not in ``skip``, as they come.

        Raises:
            DeviceLost: the device is gone; what was not yielded is to be tried again.
        """
        todo = [candidate for candidate in self._batch.candidates if candidate.index not in skip]
        builds = {self._submit(candidate): candidate for candidate in todo}
        try:
            self._runner.open(self._batch.target)
            for future in as_completed(builds):
                yield self._result(builds[future], outcome_of_build(future))
        finally:
            for future in builds:
                future.cancel()
            self._runner.release()

    def _submit(self, candidate: WireCandidate) -> Future[Built]:
        timeout = self._batch.limits.build_timeout
        request = BuildRequest(
            workload=self._batch.workload,
            module=self._module,
            target=self._batch.target,
            body=None if candidate.sketch is None else self._bodies[candidate.sketch],
            decisions=tuple(_decision(value) for value in candidate.decisions),
            out=self._folder / f"{candidate.index}.so",
            timeout=timeout,
        )
        return self._builders.submit("build", request, timeout=timeout + BUILD_SLACK_SECONDS)

    def _result(self, candidate: WireCandidate, built: Built) -> WireResult:
        if built.path is None:
            return WireResult(
                index=candidate.index, failure=built.failure, message=built.message, build_seconds=built.seconds
            )
        # The default schedule is the yardstick: it is measured in full however slow it is.
        incumbent = None if candidate.sketch is None else self._best
        outcome = self._runner.run(
            RunRequest(built.path, built.function, built.args, self._batch.limits, incumbent, built.flops,
                       built.code_hash)
        )  # fmt: skip
        built.path.unlink(missing_ok=True)
        outcome = plausible(outcome)
        latency = statistics.median(outcome.samples) if outcome.samples else None
        record = latency is not None and (self._best is None or latency < self._best)
        if record and candidate.sketch is not None:
            self._best = latency
        return WireResult(
            index=candidate.index,
            samples=list(outcome.samples),
            failure=outcome.failure,
            message=outcome.message,
            build_seconds=built.seconds,
            run_seconds=outcome.seconds,
            trace=built.trace if record else None,
        )


def outcome_of_build(future: Future[Built]) -> Built:
    """The build's outcome, whatever became of its process."""
    try:
        return future.result()
    except ChildTimeout as error:
        return Built(failure=FailureKind.BUILD_TIMEOUT, message=str(error))
    except ChildCrashed as error:
        if error.signal == signal.SIGALRM:
            return Built(failure=FailureKind.BUILD_TIMEOUT, message="the compiler took too long and was killed")
        return Built(failure=FailureKind.CRASH, message=f"while building, {error}")
    except ChildRaised as error:
        return Built(failure=FailureKind.BUILD_ERROR, message=str(error)[:2000])


def plausible(outcome: RunOutcome) -> RunOutcome:
    """The outcome, or a failure when the device's clock says that a kernel took no time."""
    if outcome.failure is None and not all(sample > 0 for sample in outcome.samples):
        return RunOutcome((), FailureKind.IMPLAUSIBLE, "the device measured no time at all", outcome.seconds)
    return outcome


def _decision(value: int | list[int]) -> Decision:
    return tuple(value) if isinstance(value, list) else value
