"""Builds of one batch in the pool: requests, outcomes, and the champions and default schedules next to them."""

from __future__ import annotations

import logging
import signal
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path

from tunesmith.messages import MeasureBatch, WireCandidate
from tunesmith.types import Decision, FailureKind
from workers.measure.library_cache import LibraryCache
from workers.protocol import BuildRequest, Built
from workers.sandbox.pool import ChildCrashed, ChildError, ChildTimeout, Pool

log = logging.getLogger("tunesmith.measure")
DEFAULT = WireCandidate(index=-2, sketch=None)
"""The default schedule, next to those of the batch."""
REFERENCE = "reference"
"""Kept program in a quicker order."""
SLOW = 5e8
"""FLOPs from which on a CPU's default schedule is not waited for. Where its innermost loop goes through memory in large
steps it has been seen to take six seconds for 2e9."""
BUILD_SLACK_SECONDS = 60.0
"""Beyond a build's own limit: waiting for the host lease, and TVM's cold start in a new process."""


class Builds:
    """Builds candidates of one batch.

    Args:
        batch: the message.
        module: the workload, JSON.
        bodies: sketches by hash, JSON.
        pool: pool of ``workers.tvm_backend.build.builder.Builder``.
        libraries: where champions and default schedules stay between batches.
        folder: an empty folder for the libraries.
    """

    def __init__(
        self,
        batch: MeasureBatch,
        module: bytes,
        bodies: Mapping[str, bytes],
        pool: Pool,
        libraries: LibraryCache,
        folder: Path,
    ) -> None:
        self._batch, self._module, self._bodies = batch, module, bodies
        self._pool, self._libraries, self._folder = pool, libraries, folder

    def submit(self, candidate: WireCandidate, timeout: float | None = None, *, quicker: bool = False) -> Future[Built]:
        """Begin a build, which may take ``timeout`` seconds, by default what the batch's limits say.

        :func:`outcome_of` gives the outcome. ``quicker``: see ``BuildRequest``. A default schedule that is in the
        cache is there at once.
        """
        found = self._libraries.get(self._key(candidate)) if candidate.sketch is None and not quicker else None
        if found is not None:
            done: Future[Built] = Future()
            done.set_result(found)
            return done
        timeout = timeout or self._batch.limits.build_timeout
        name = f"{candidate.index}.so" if candidate.index >= 0 else f"kept{-candidate.index}.so"
        request = BuildRequest(
            workload=self._batch.workload,
            module=self._module,
            target=self._batch.target,
            body=None if candidate.sketch is None else self._bodies[candidate.sketch],
            decisions=tuple(_decision(value) for value in candidate.decisions),
            out=self._folder / name,
            timeout=timeout,
            quicker=quicker,
        )
        return self._pool.submit("build", request, timeout=timeout + BUILD_SLACK_SECONDS)

    def kept(self, candidate: WireCandidate) -> Built | None:
        """A champion's or the default schedule's library, from the cache or built now; None when that fails."""
        found = self._libraries.get(self._key(candidate))
        if found is not None:
            return found
        if candidate.sketch is not None and candidate.sketch not in self._bodies:
            return None
        built = outcome_of(self.submit(candidate))
        return None if built.path is None else self.keep(candidate, built)

    def slow(self, candidate: WireCandidate, built: Built) -> bool:
        """True for a default schedule that may well take seconds."""
        cpu = str(self._batch.target.get("kind", "llvm")) == "llvm"
        return candidate.sketch is None and cpu and built.flops >= SLOW

    def reference(self, built: Built) -> Built | None:
        """What the outputs of ``built`` are compared with: the default schedule or, where that may take seconds, the
        same sums in a quicker order. None where neither is to be had."""
        if not self.slow(DEFAULT, built):
            return self.kept(DEFAULT)
        key = (*self._key(DEFAULT), REFERENCE)
        found = self._libraries.get(key)
        if found is None:
            made = outcome_of(self.submit(DEFAULT, quicker=True))
            if made.path is None:
                log.warning(
                    "workload %s: outputs are compared with the slow default schedule: %s",
                    self._batch.workload,
                    made.message,
                )
            else:
                found = self._libraries.put(key, made)
        return found or self.kept(DEFAULT)

    def keep(self, candidate: WireCandidate, built: Built) -> Built:
        """Keep a library."""
        return self._libraries.put(self._key(candidate), built)

    def _key(self, candidate: WireCandidate) -> tuple[str, str, str | None, tuple[Decision, ...]]:
        target = str(sorted(self._batch.target.items()))
        return self._batch.workload, target, candidate.sketch, tuple(_decision(v) for v in candidate.decisions)


def outcome_of(future: Future[Built]) -> Built:
    """The build's outcome, whatever became of its process."""
    try:
        return future.result()
    except ChildTimeout as error:
        return Built(failure=FailureKind.BUILD_TIMEOUT, message=str(error))
    except ChildCrashed as error:
        if error.signal == signal.SIGALRM:
            return Built(failure=FailureKind.BUILD_TIMEOUT, message="the compiler took too long and was killed")
        return Built(failure=FailureKind.CRASH, message=f"while building, {error}")
    except ChildError as error:
        return Built(failure=FailureKind.BUILD_ERROR, message=str(error)[:2000])


def _decision(value: int | list[int]) -> Decision:
    return tuple(value) if isinstance(value, list) else value
