"""A measure worker's engine without the service: builders, an RPC device and its runner, for one target here."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.harness.operators import Operator
from tunesmith.errors import MeasurementFailed, StackFailed
from tunesmith.messages import Calibration, MeasureLimits
from tunesmith.safe_path import python
from tunesmith.targets import Target
from tunesmith.types import Candidate
from workers.measure.builds import outcome_of
from workers.measure.calibration import Calibrator
from workers.measure.drift import Rules
from workers.protocol import BuildRequest, Built, Runner, RunOutcome, RunRequest
from workers.sandbox.pool import Actor, Pool
from workers.tvm_backend.host import Host
from workers.tvm_backend.run.runner import RpcRunner

START_SECONDS = 120.0
BUILD_SECONDS = MeasureLimits().build_timeout
KEY = "bench"


class LocalMeasurer:
    """Builders and a device of this machine; nothing else builds or runs here while it measures.

    Attributes:
        host: this machine.
        target: all cores of this CPU.
        folder: for libraries; gone with the measurer.
    """

    def __init__(self, builders: Pool, runner: Runner, folder: Path) -> None:
        self.host: Host = builders.call("describe", timeout=START_SECONDS)
        self.target, self.folder = Target(self.host.target), folder
        self._builders, self._runner, self._numbers = builders, runner, itertools.count()
        self._calibrator = Calibrator(builders, runner, folder / "calibration", rules=Rules(early=0.0))

    def calibration(self) -> Calibration:
        """Calibrate the device, or look at it again: the first times always, later when that is due.

        Call it between sessions.

        Raises:
            MeasurementFailed: the device cannot be calibrated.
        """
        target = self.target.to_json()
        self._calibrator.refresh(target)
        found = self._calibrator.calibration(target)
        if found is None:
            raise MeasurementFailed("the device could not be calibrated, so that its noise floor is not known")
        return found

    def build(self, operator: Operator, candidates: Sequence[Candidate]) -> list[Built]:
        """Build candidates on all cores, in order; what goes wrong with one is an outcome."""
        requests = [self._request(operator, candidate) for candidate in candidates]
        limit = BUILD_SECONDS + START_SECONDS
        futures = [self._builders.submit("build", request, timeout=limit) for request in requests]
        return [outcome_of(future) for future in futures]

    def _request(self, operator: Operator, candidate: Candidate) -> BuildRequest:
        return BuildRequest(
            workload=operator.task.workload.hash,
            module=operator.task.module,
            target=self.target.to_json(),
            body=None if candidate.sketch is None else operator.bodies[candidate.sketch].to_json(),
            decisions=candidate.decisions,
            out=self.folder / f"{next(self._numbers)}.so",
            timeout=BUILD_SECONDS,
        )

    @contextmanager
    def device(self) -> Iterator[Runner]:
        """The device, in a session of its own.

        Raises:
            DeviceLost: it does not answer.
        """
        self._runner.open(self.target.to_json())
        try:
            yield self._runner
        finally:
            self._runner.release()


def race(runner: Runner, built: Sequence[Built], limits: MeasureLimits, incumbent: float | None) -> list[RunOutcome]:
    """Time what was built in one race, in order; what was not built is its failure, and equal code runs once.

    Args:
        runner: in a session, see :meth:`LocalMeasurer.device`.
        built: candidates of one workload.
        limits: of each of them.
        incumbent: latency to beat in seconds.
    """
    own: dict[str, RunRequest] = {}
    for each in built:
        if each.path is not None and each.code_hash not in own:
            request = each.to_run(limits)
            own[each.code_hash] = request
    known = dict(zip(own, runner.race(list(own.values()), incumbent), strict=True))
    return [
        known[each.code_hash] if each.path is not None else RunOutcome(failure=each.failure, message=each.message)
        for each in built
    ]


def discard(built: Sequence[Built]) -> None:
    """Remove the libraries."""
    for each in built:
        if each.path is not None:
            each.path.unlink(missing_ok=True)


@contextmanager
def open_measurer() -> Iterator[LocalMeasurer]:
    """Start a tracker, a device and builders; end them all afterwards."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tunesmith-bench-")))
        lease = folder / "host.lease"
        env = {**os.environ, "TMPDIR": str(folder), "TUNESMITH_LEASE_FILE": str(lease)}
        tracker = f"127.0.0.1:{stack.enter_context(_process(env, 'tracker', '--port', '0'))}"
        stack.enter_context(_process(env, "rpc_server", "--tracker", tracker, "--key", KEY))
        builder = Actor("workers.tvm_backend.build.builder:Builder", (str(lease), "llvm"))
        builders = stack.enter_context(Pool(builder, len(os.sched_getaffinity(0))))
        runner = RpcRunner(tracker, KEY, lease)
        stack.callback(runner.close)
        yield LocalMeasurer(builders, runner, folder)


@contextmanager
def _process(env: dict[str, str], module: str, *arguments: str) -> Iterator[int]:
    """A part of the back end as a process; yields the port that it says it listens on."""
    command = [
        *python("workers.sandbox.parent_death", "--parent", str(os.getpid()), "--"),
        *python(f"workers.tvm_backend.run.{module}", *arguments),
    ]
    log = Path(env["TMPDIR"]) / f"{module}.log"
    with log.open("w") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=env)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise StackFailed(f"{module} does not start: {log.read_text().strip()[-500:]}")
        yield int(json.loads(line)["port"])
    finally:
        process.kill()
        process.communicate()
