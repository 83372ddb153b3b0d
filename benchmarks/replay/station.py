"""Builds and times candidates in turn: first a batch is built on every core, then it is timed while nothing builds."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tunesmith.targets import Target
from tunesmith.types import Decision, FailureKind
from workers.protocol import BuildRequest, Built
from workers.sandbox.pool import Actor, ChildCrashed, ChildError, ChildTimeout, Pool
from workers.tvm_backend.design_space.sketch import SketchBody
from workers.tvm_backend.host import describe
from workers.tvm_backend.passes.extract_tasks import Extracted

BUILD_SECONDS = 10.0
RUN_SECONDS = 5.0
SLACK_SECONDS = 30.0


@dataclass(frozen=True)
class Timing:
    """Median and relative standard deviation of the samples, or a failure; ``cost``: seconds of building and timing."""

    seconds: float = float("inf")
    spread: float = 0.0
    failure: str = ""
    cost: float = 0.0


class Station:
    """Builders on all cores and one timing process, for this host's CPU. Close it.

    Args:
        scratch: folder for libraries.
    """

    def __init__(self, scratch: Path) -> None:
        self.host = describe()
        self.target = Target(self.host.target)
        self._scratch, self._names = scratch, itertools.count()
        self._builders = Pool(
            Actor("workers.tvm_backend.build.builder:Builder", (str(scratch / "host.lease"),)), self.host.cores
        )
        self._timer = Pool(Actor("benchmarks.replay.timing:Timer", (), {"TVM_NUM_THREADS": str(self.host.cores)}), 1)

    def build(self, task: Extracted, points: Sequence[tuple[SketchBody | None, tuple[Decision, ...]]]) -> list[Built]:
        """Build candidates of one workload, in order; ``None`` for the body stands for the default schedule."""
        futures: list[Future[Any]] = []
        for body, decisions in points:
            request = BuildRequest(
                task.workload.hash,
                task.module,
                self.target.to_json(),
                body.to_json() if body else None,
                decisions,
                self._scratch / f"candidate{next(self._names)}.so",
                BUILD_SECONDS,
            )
            futures.append(self._builders.submit("build", request, timeout=BUILD_SECONDS + SLACK_SECONDS))
        return [_built(future) for future in futures]

    def time(self, built: Sequence[Built], ceiling: float) -> list[Timing]:
        """Time what was built, in order. Equal code is timed once.

        Args:
            ceiling: latency in seconds above which one sample is enough.
        """
        known: dict[str, Timing] = {}
        out = []
        for each in built:
            if each.failure is not None:
                out.append(Timing(failure=each.failure.value, cost=each.seconds))
                continue
            if each.code_hash not in known:
                known[each.code_hash] = self._time(each, ceiling)
            out.append(known[each.code_hash])
        return out

    @staticmethod
    def discard(built: Sequence[Built]) -> None:
        """Remove the libraries."""
        for each in built:
            if each.path is not None:
                each.path.unlink(missing_ok=True)

    def _time(self, built: Built, ceiling: float) -> Timing:
        call = ("time", str(built.path), built.function, built.args, ceiling)
        try:
            samples: tuple[float, ...] = self._timer.call(*call, timeout=RUN_SECONDS)
        except ChildTimeout:
            return Timing(failure=FailureKind.RUN_TIMEOUT.value, cost=built.seconds + RUN_SECONDS)
        except ChildCrashed:
            return Timing(failure=FailureKind.CRASH.value, cost=built.seconds)
        except ChildError:
            return Timing(failure=FailureKind.RUN_ERROR.value, cost=built.seconds)
        median = statistics.median(samples)
        # The deviation of normal samples, without the say of a disturbed one among them.
        spread = 1.4826 * statistics.median(abs(s - median) for s in samples) / median
        return Timing(median, spread, "", built.seconds + sum(samples))

    def close(self) -> None:
        """End all processes."""
        self._builders.close()
        self._timer.close()


def _built(future: Future[Any]) -> Built:
    try:
        built: Built = future.result()
    except ChildCrashed as error:
        # A build that exceeds its limit ends its own process by SIGALRM.
        kind = FailureKind.BUILD_TIMEOUT if error.signal == 14 else FailureKind.BUILD_ERROR
        return Built(failure=kind, message=str(error))
    except ChildError as error:
        return Built(failure=FailureKind.BUILD_ERROR, message=str(error))
    return built
